"""Schedule objects, and what YAML writes, as a definition keeps them: when, and the zone, rule and start that go with it."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from ..triggers.calendar_interval import CalendarInterval
from ..triggers.combined import AllOf, AnyOf
from ..triggers.cron import Cron
from ..triggers.daily_window import DailyWindow
from ..triggers.duration import parse_duration
from ..triggers.errors import DefinitionError
from ..triggers.instant import to_instant
from ..triggers.interval import Every
from ..triggers.once import At
from ..triggers.recurrence import Recurrence

Whole = Cron | Every | At | CalendarInterval | DailyWindow | Recurrence | AnyOf | AllOf
"""Every schedule that a program can hand over as an object."""


def kept_object(key: str, schedule: object) -> dict[str, Any]:
    """The fields of a definition that `schedule` decides; raises DefinitionError for what is none, or does not agree."""
    if isinstance(schedule, Cron):
        return _cron(key, schedule)
    if isinstance(schedule, Every):
        anchor = {} if schedule.anchor == 0 else {"anchor": schedule.anchor}
        return {"schedule": {"every": schedule.interval, **anchor}}
    if isinstance(schedule, At):
        return {"schedule": {"at": schedule.instant}}
    if isinstance(schedule, DailyWindow):
        return {"schedule": schedule.said, "time_zone": schedule.time_zone}
    if isinstance(schedule, CalendarInterval | Recurrence):
        start = {} if schedule.start_at is None else {"start_at": schedule.start_at}
        rule = {"dst_gap": schedule.gap, "dst_overlap": schedule.overlap}
        return {"schedule": schedule.said, "time_zone": schedule.time_zone, **rule, **start}
    if isinstance(schedule, AnyOf | AllOf):
        return _combined(key, schedule.kind, schedule.parts)
    raise DefinitionError(
        f"trigger {key!r}: schedule is a Cron, an Every or an At (or a CalendarInterval, a DailyWindow, a Recurrence, an AnyOf,"
        f" an AllOf), and {schedule!r} is none"
    )


def kept_written(key: str, kind: str, value: Any) -> dict[str, Any]:
    """The fields of a definition that `kind=value` decides, as YAML writes it."""
    if kind in ("any", "all"):
        return _combined(key, kind, value)
    return {"schedule": {kind: _WRITTEN[kind](value)}}


def _cron(key: str, cron: Cron) -> dict[str, Any]:
    if cron.key not in (None, key):
        raise DefinitionError(
            f"trigger {key!r}: its Cron hashes H from {cron.key!r}: give it key={key!r}, or write cron={cron.expr!r}"
        )
    kind = "cron" if cron.dialect == "unix" else "quartz"
    rule = {"dst_gap": cron.gap, "dst_overlap": cron.overlap}
    return {"schedule": {kind: cron.expr}, "time_zone": cron.time_zone, **rule}


def _combined(key: str, kind: str, parts: Any) -> dict[str, Any]:
    """The parts as one list; what they say of zone, rule and start is the trigger's, and so is one for all."""
    if not isinstance(parts, list | tuple):
        raise DefinitionError(f"trigger {key!r}: {kind} is a list of schedules, and {parts!r} is none")
    said: dict[str, Any] = {}
    schedules = []
    for part in parts:
        fields = _part(key, kind, part)
        schedules.append(fields.pop("schedule"))
        for name, value in fields.items():
            if said.setdefault(name, value) != value:
                raise DefinitionError(
                    f"trigger {key!r}: the schedules of its {kind} differ in {name}: make them alike, or two triggers"
                )
    return {"schedule": {kind: schedules}, **said}


def _part(key: str, kind: str, part: Any) -> dict[str, Any]:
    if not isinstance(part, Mapping):
        return kept_object(key, part)
    kinds = [name for name in part if name in WRITTEN]
    if len(kinds) != 1 or len(part) != 1:
        raise DefinitionError(
            f"trigger {key!r}: each schedule of {kind} is one of {', '.join(WRITTEN)}, and {dict(part)!r} is none"
        )
    return kept_written(key, kinds[0], part[kinds[0]])


def duration(value: str | int | timedelta) -> int:
    """Microseconds of a written duration or a timedelta."""
    return parse_duration(value) if isinstance(value, str) else Every(value).interval


def _window(said: Mapping[str, Any]) -> dict[str, Any]:
    """A daily window as YAML reads it: times and days in one writing."""
    rest = {name: value for name, value in said.items() if name not in ("every", "from", "to")}
    try:
        window = DailyWindow(said["every"], said["from"], said["to"], **rest)
    except KeyError as missing:
        raise DefinitionError(f"daily_window: {missing} is missing: give every, from and to") from missing
    kept: dict[str, Any] = window.said["daily_window"]  # type: ignore[assignment]
    return kept


def _interval(said: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = CalendarInterval(**said).said["calendar_interval"]  # type: ignore[assignment]
    return kept


_WRITTEN: Mapping[str, Callable[[Any], Any]] = {
    "cron": str,
    "quartz": str,
    "every": duration,
    "at": to_instant,
    "calendar_interval": _interval,
    "daily_window": _window,
    "rrule": str,
    "delay": duration,
}
WRITTEN: Final = (*_WRITTEN, "any", "all")
"""The keywords that say when, without objects."""
