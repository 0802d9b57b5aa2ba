"""The JSON Schema of a declaration, for editors; made from the same keys that the reader uses."""

from typing import Any

from .calendar_interval import UNITS
from .declaration_keys import (
    KINDS,
    SCHEDULES,
    AfterKeys,
    FileKeys,
    HttpKeys,
    JobKeys,
    MisfireKeys,
    RetryKeys,
    TriggerKeys,
)
from .declaration_schedules import INNER_PARTS, PARTS, CalendarIntervalKeys, InnerPartKeys, PartKeys
from .declaration_shape import adapter
from .misfire import POLICIES
from .retry import PRESETS

DRAFT = "http://json-schema.org/draft-07/schema#"


def json_schema() -> dict[str, Any]:
    """A schema in the draft that every editor reads."""
    made = adapter(FileKeys).json_schema(ref_template="#/definitions/{model}")
    definitions: dict[str, Any] = made.pop("$defs", {})
    made = {"$schema": DRAFT, "title": "qsched declaration", **made, "definitions": definitions}
    made["required"] = ["qsched"]
    for section in ("jobs", "triggers"):
        made["properties"][section]["propertyNames"] = {
            "minLength": 1,
            "maxLength": 200,
            "pattern": "^[^/]*$",
        }
    definitions[HttpKeys.__name__]["required"] = ["url"]
    _one_of(definitions[JobKeys.__name__], KINDS)
    _one_of(definitions[TriggerKeys.__name__], SCHEDULES)
    _one_of(definitions[PartKeys.__name__], PARTS)
    _one_of(definitions[InnerPartKeys.__name__], INNER_PARTS)
    _one_of(definitions[CalendarIntervalKeys.__name__], UNITS)
    definitions["DailyWindowKeys"]["required"] = ["every", "from", "to"]
    short_misfire = {"type": "string", "enum": list(POLICIES)}
    short_retry: list[dict[str, Any]] = [
        {"type": "string", "enum": ["none", *PRESETS]},
        {"type": "integer", "minimum": 0},
    ]
    _shorthand(definitions, MisfireKeys.__name__, [short_misfire])
    _shorthand(definitions, HttpKeys.__name__, [{"type": "string"}])
    _shorthand(definitions, RetryKeys.__name__, short_retry)
    _shorthand(definitions, AfterKeys.__name__, [{"type": "string"}])
    return made


def _one_of(definition: dict[str, Any], keys: tuple[str, ...]) -> None:
    definition["oneOf"] = [{"required": [key]} for key in keys]


def _shorthand(definitions: dict[str, Any], name: str, short: list[dict[str, Any]]) -> None:
    """The short forms beside the long one: `misfire: skip`, `retry: 3`."""
    definitions[name] = {"anyOf": [*short, definitions[name]]}
