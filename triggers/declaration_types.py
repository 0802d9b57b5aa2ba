"""The kinds of values that keys hold, as pydantic and editors are told: a reader and a JSON Schema each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic_core import CoreSchema, core_schema

from .declaration_calendar_fields import read_country, read_dates, read_hours, read_weekdays
from .declaration_fields import (
    LONGEST_NAME,
    read_boolean,
    read_command,
    read_data,
    read_duration,
    read_duration_or_forever,
    read_duration_or_zero,
    read_duration_text,
    read_durations,
    read_environment,
    read_key,
    read_moment,
    read_name,
    read_names,
    read_number,
    read_target,
    read_text,
    read_texts,
    read_version,
    read_zone,
)
from .declaration_http import read_body, read_headers, read_json_body, read_statuses, read_url
from .declaration_times import Moment
from .retention import FOREVER


@dataclass(frozen=True, slots=True)
class Read:
    """What pydantic is told of a kind of value: its reader, and what editors may know of it."""

    reader: Callable[[Any], Any]
    schema: Mapping[str, Any]

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.reader)

    def __get_pydantic_json_schema__(self, _core: Any, _handler: Any) -> dict[str, Any]:
        return dict(self.schema)


_STRING = {"type": "string"}
_NAME = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
_DURATION = {"type": "string", "examples": ["30s", "5m", "1h30m", "7d", "PT1H30M"]}
_SCALAR = {"type": ["string", "number", "boolean"]}

Text = Annotated[str, Read(read_text, _STRING)]
Texts = Annotated[list[str], Read(read_texts, {"type": ["array", "string"], "items": _STRING})]
Name = Annotated[str, Read(read_name, _NAME)]
Names = Annotated[list[str], Read(read_names, {"type": ["array", "string"], "items": _NAME})]
Key = Annotated[str, Read(read_key, _NAME)]
Boolean = Annotated[bool, Read(read_boolean, {"type": "boolean"})]
Version = Annotated[int, Read(read_version, {"const": 1})]
Number = Annotated[float, Read(read_number, {"type": "number"})]
Duration = Annotated[int, Read(read_duration, _DURATION)]
DurationOrZero = Annotated[int, Read(read_duration_or_zero, _DURATION)]
DurationOrForever = Read(read_duration_or_forever, {"type": "string", "examples": ["7d", "30d", FOREVER]})
DurationText = Annotated[str, Read(read_duration_text, _DURATION)]
DurationTexts = Annotated[list[str], Read(read_durations, {"type": "array", "items": _DURATION})]
Time = Annotated[
    Moment, Read(read_moment, {"type": "string", "examples": ["2027-01-01", "2027-01-01T12:00:00Z"]})
]
Zone = Annotated[str, Read(read_zone, {"type": "string", "examples": ["UTC", "Europe/Istanbul"]})]
Target = Annotated[str, Read(read_target, {"type": "string", "pattern": "^[^:]+:[^:]+$"})]
Command = Annotated[str | list[str], Read(read_command, {"type": ["string", "array"], "items": _SCALAR})]
Environment = Annotated[
    dict[str, str], Read(read_environment, {"type": "object", "additionalProperties": _SCALAR})
]
Data = Annotated[dict[str, Any], Read(read_data, {"type": "object"})]
Url = Annotated[
    str, Read(read_url, {"type": "string", "examples": ["https://api.example/orders/{order_id}"]})
]
Headers = Annotated[dict[str, str], Read(read_headers, {"type": "object", "additionalProperties": _SCALAR})]
Body = Annotated[str, Read(read_body, _STRING)]
JsonBody = Annotated[Any, Read(read_json_body, {})]
_STATUS = {"type": ["integer", "string"], "examples": [204, "200-299"]}
Statuses = Annotated[
    list[str], Read(read_statuses, {"type": ["array", "integer", "string"], "items": _STATUS})
]
_LISTED = {"type": ["array", "string"], "items": _STRING}
CalendarDates = Annotated[dict[str, list[list[str]]], Read(read_dates, _LISTED)]
Weekdays = Annotated[list[str], Read(read_weekdays, _LISTED)]
Hours = Annotated[list[list[str]], Read(read_hours, _LISTED)]
Country = Annotated[str, Read(read_country, {"type": "string", "examples": ["TR", "DE"]})]
