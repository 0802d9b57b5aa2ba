"""Schedules of more than one word, as declarations say them: their keys, and what a definition keeps of them."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from .calendar_interval import LAST, MOST
from .compiling import Frame, compile_schedule
from .daily_window import MOST_REPEATS
from .declaration_fields import Wrong, read_texts, refused, scalar, whole
from .declaration_times import Moment
from .declaration_types import Duration, Read, Text, Time
from .errors import ScheduleError, TriggerError
from .time_of_day import format_time_of_day, parse_time_of_day
from .weekdays import WEEKDAYS, read_weekdays

_ONLY_THESE = ConfigDict(extra="forbid")


def _time_of_day(value: object) -> str:
    text = scalar(value, "a time of day")
    try:
        return format_time_of_day(parse_time_of_day(text))
    except ScheduleError as error:
        message, _, hint = str(error).rpartition("; ")
        raise refused(Wrong("E016", message, hint)) from error


def _weekdays(value: object) -> list[str]:
    try:
        return list(read_weekdays(read_texts(value)))
    except ScheduleError as error:
        message, _, hint = str(error).rpartition("; ")
        raise refused(Wrong("E014", message, hint)) from error


def _day(value: object) -> int | str:
    return LAST if value == LAST else whole(1, 31)(value)


def _number(most: int) -> Read:
    return Read(whole(1, most), {"type": "integer", "minimum": 1, "maximum": most})


_DAY = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 31}, {"const": LAST}]}
_Step = Annotated[int, _number(MOST)]
_TimeOfDay = Annotated[str, Read(_time_of_day, {"type": "string", "examples": ["09:00", "17:30:15"]})]
_Weekdays = Annotated[
    list[str],
    Read(
        _weekdays,
        {"type": ["array", "string"], "items": {"type": "string", "examples": [*WEEKDAYS, "mon-fri"]}},
    ),
]


class CalendarIntervalKeys(TypedDict, total=False):
    """Every n years, months, weeks or days, counted from the date of start_at, else from 1970."""

    __pydantic_config__ = _ONLY_THESE  # type: ignore[misc]
    years: _Step
    months: _Step
    weeks: _Step
    days: _Step
    day: Annotated[
        int | str,
        Read(_day, _DAY),
        Field(description="with years and months: 1 to 31, or last; else the day of start_at"),
    ]
    at: Annotated[_TimeOfDay, Field(description="else the time of start_at, else 00:00")]


DailyWindowKeys = TypedDict(
    "DailyWindowKeys",
    {
        "every": Annotated[Duration, Field(description="counted from where the window begins")],
        "from": _TimeOfDay,
        "to": Annotated[_TimeOfDay, Field(description="inclusive; earlier than `from`: on the next day")],
        "days": Annotated[_Weekdays, Field(description="on which days it begins; every day")],
        "repeat": Annotated[int, _number(MOST_REPEATS), Field(description="at most so many slots a day")],
    },
    total=False,
)
DailyWindowKeys.__pydantic_config__ = _ONLY_THESE  # type: ignore[attr-defined]


class InnerPartKeys(TypedDict, total=False):
    """One schedule of a list within a list."""

    __pydantic_config__ = _ONLY_THESE  # type: ignore[misc]
    cron: Text
    quartz: Text
    every: Duration
    anchor: Time
    at: Time
    calendar_interval: CalendarIntervalKeys
    daily_window: DailyWindowKeys
    rrule: Text


class PartKeys(InnerPartKeys, total=False):
    """One schedule of `any` or `all`."""

    any: list[InnerPartKeys]
    all: list[InnerPartKeys]


COMBINED: Final = ("any", "all")
PARTS: Final = tuple(key for key in PartKeys.__annotations__ if key != "anchor")
INNER_PARTS: Final = tuple(key for key in InnerPartKeys.__annotations__ if key != "anchor")


def kept(kind: str, said: Mapping[str, Any], zone: str) -> dict[str, Any]:
    """The schedule `kind` of `said` as a definition keeps it; dates without an offset are read in `zone`."""
    value = said[kind]
    if isinstance(value, Moment):
        value = value.instant(zone)
    if kind in COMBINED:
        value = [kept(next(key for key in part if key in PARTS), part, zone) for part in value]
    schedule = {kind: value}
    if kind == "every" and "anchor" in said:
        schedule["anchor"] = said["anchor"].instant(zone)
    return schedule


def part_faults(kind: str, said: Mapping[str, Any]) -> list[Wrong]:
    """What is wrong with the parts of a combination: each has exactly one schedule."""
    faults = []
    for index, part in enumerate(said[kind] if kind in COMBINED else ()):
        kinds = [key for key in part if key in PARTS]
        if len(kinds) > 1:
            names = " and ".join(f"`{key}`" for key in kinds)
            message = f"{names} are given, and each item of `{kind}` is one schedule"
            faults.append(Wrong("E021", message, "make two items of them", (kind, index, kinds[1]), True))
        elif not kinds:
            hint = f"give it one of {', '.join(PARTS)}"
            faults.append(Wrong("E013", f"this item of `{kind}` has no schedule", hint, (kind, index)))
        elif "anchor" in part and kinds[0] != "every":
            message = f"`anchor` goes with `every`, not with `{kinds[0]}`"
            faults.append(Wrong("E026", message, "use start_at, or every", (kind, index, "anchor"), True))
        else:
            faults += [wrong._replace(at=(kind, index, *wrong.at)) for wrong in part_faults(kinds[0], part)]
    return faults


def place_of_fault(schedule: Mapping[str, Any], frame: Frame) -> tuple[str | int, ...]:
    """Where in a schedule that does not compile the first part is that does not."""
    kind = next(iter(schedule))
    for index, part in enumerate(schedule[kind] if kind in COMBINED else ()):
        try:
            compile_schedule(part, frame)
        except TriggerError:
            return (kind, index, *place_of_fault(part, frame))
    return (kind,)
