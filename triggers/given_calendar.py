"""A calendar as a program gives it: the keys that YAML has for it, read to the same spec."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from pydantic import ValidationError

from .calendars.compiling import compile_calendar
from .declaration_keys import CalendarKeys
from .declaration_shape import adapter
from .errors import DefinitionError, TriggerError

_OF_FILES = ("any", "ics")


def calendar_spec(name: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of `{"weekly": ["sat", "sun"]}`, `{"dates": [date(2026, 12, 24)]}`, …; raises DefinitionError with the reason."""
    if wrong := [key for key in _OF_FILES if key in keys]:
        raise DefinitionError(f"calendar {name!r}: `{wrong[0]}` is for files: say what it leaves out instead")
    try:
        said = dict(adapter(CalendarKeys).validate_python({key: _text(value) for key, value in keys.items()}))
    except ValidationError as error:
        raise DefinitionError(f"calendar {name!r}: {_first(error)}") from error
    spec: dict[str, Any] = {key: value for key, value in said.items() if key != "dates"} | said.get(
        "dates", {}
    )
    if not spec.keys() - {"time_zone"}:
        raise DefinitionError(f"calendar {name!r} leaves nothing out")
    try:
        compile_calendar(spec, "UTC").excludes(0)
    except TriggerError as error:
        raise DefinitionError(f"calendar {name!r}: {error}") from error
    return spec


def _text(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_text(each) for each in value]
    return str(value) if isinstance(value, date) else value


def _first(error: ValidationError) -> str:
    detail = error.errors(include_url=False)[0]
    context: Any = detail.get("ctx") or {}
    key = ".".join(map(str, detail["loc"]))
    if "wrongs" in context:
        wrong = context["wrongs"][0]
        return f"{key}: {wrong.message}" + (f"; {wrong.hint}" if wrong.hint else "")
    return f"unknown key {key}" if detail["type"] == "extra_forbidden" else f"{key}: {detail['msg']}"
