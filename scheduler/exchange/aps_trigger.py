"""APScheduler 3's triggers as JSON, and what they say as a schedule of ours."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from ...triggers.errors import DefinitionError
from ...triggers.instant import SECOND, to_instant
from .aps_cron import FIELDS, cron_schedule

Said = dict[str, Any]
"""A trigger as plain values: `type` and its arguments, as `add_job(trigger=type, **arguments)` would take them."""

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class When:
    """What a trigger says: fields of a TriggerDefinition."""

    schedule: Mapping[str, Any]
    time_zone: str = "UTC"
    start_at: int | None = None
    end_at: int | None = None
    jitter: int | None = None
    changed: tuple[str, ...] = field(default=())
    """What comes at other times than it did."""


def said_of(trigger: Any) -> Said:
    """A trigger object of APScheduler 3 (or a record of its state) as plain values; raises DefinitionError for others."""
    name = type(trigger).__name__
    if name not in _READERS:
        raise DefinitionError(
            f"{name} is not a trigger of APScheduler's own: use cron, interval, date, and or or"
        )
    said = _READERS[name](trigger)
    if getattr(trigger, "jitter", None):
        said["jitter"] = trigger.jitter
    return said


def when_of(said: Said) -> When:
    """The schedule of what `said_of` answered; raises DefinitionError for what has none here."""
    read = _SCHEDULES.get(str(said.get("type")))
    if read is None:
        raise DefinitionError(f"{said.get('type')!r} is not a trigger of APScheduler's own")
    return read(said)


def is_unsaid(moment: datetime | None) -> bool:
    """Whether an instant is `now` of the process that made the trigger, and not somebody's: nobody writes microseconds."""
    return moment is None or moment.microsecond != 0


def _cron(trigger: Any) -> Said:
    said: Said = {"type": "cron"}
    said |= {each.name: str(each) for each in trigger.fields if not each.is_default}
    return said | _bounds(trigger) | {"timezone": zone_name(trigger.timezone)}


def _interval(trigger: Any) -> Said:
    said: Said = {"type": "interval", "seconds": trigger.interval.total_seconds()}
    bounds = _bounds(trigger)
    if is_unsaid(trigger.start_date):
        bounds.pop("start_date", None)
    return said | bounds


def _date(trigger: Any) -> Said:
    return {"type": "date", "run_date": trigger.run_date.isoformat()}


def _calendar_interval(trigger: Any) -> Said:
    said: Said = {"type": "calendarinterval", "timezone": zone_name(trigger.timezone)}
    said |= {
        name: getattr(trigger, name)
        for name in ("years", "months", "weeks", "days")
        if getattr(trigger, name)
    }
    said["time"] = trigger._time.isoformat()[:8]
    return said | _bounds(trigger)


def _combined(kind: str) -> Callable[[Any], Said]:
    return lambda trigger: {"type": kind, "triggers": [said_of(part) for part in trigger.triggers]}


def _bounds(trigger: Any) -> Said:
    return {
        name: value.isoformat()
        for name in ("start_date", "end_date")
        if (value := getattr(trigger, name, None)) is not None
    }


_READERS: Mapping[str, Callable[[Any], Said]] = {
    "CronTrigger": _cron,
    "IntervalTrigger": _interval,
    "DateTrigger": _date,
    "CalendarIntervalTrigger": _calendar_interval,
    "AndTrigger": _combined("and"),
    "OrTrigger": _combined("or"),
}


def zone_name(zone: tzinfo) -> str:
    """The IANA name of a zone, whichever library made it; raises DefinitionError for a fixed offset, which has none."""
    for attribute in ("key", "zone"):
        if isinstance(name := getattr(zone, attribute, None), str):
            return name
    if zone.utcoffset(None) == timedelta(0):
        return "UTC"
    raise DefinitionError(f"the time zone {zone} has no name: say one, as in timezone='Europe/Istanbul'")


def _when_cron(said: Said) -> When:
    fields = {name: said[name] for name in FIELDS if name in said}
    zone = said.get("timezone") or "UTC"
    return When(cron_schedule(fields), zone, **_bounded(said))


def _when_interval(said: Said) -> When:
    every = round(said["seconds"] * SECOND)
    if "start_date" not in said:
        counted = "counts from the epoch, and not from when a process started"
        return When({"every": every}, changed=(counted,), **_bounded(said))
    return When({"every": every, "anchor": instant_of(said["start_date"])}, **_bounded(said))


def _when_date(said: Said) -> When:
    return When({"at": instant_of(said["run_date"])})


def _when_calendar_interval(said: Said) -> When:
    units = {name: int(said[name]) for name in ("years", "months", "weeks", "days") if said.get(name)}
    if len(units) != 1:
        raise DefinitionError(f"an interval of {', '.join(units)} together: say it in one of them")
    bounds: dict[str, Any] = {
        name: to_instant(_day(said[key], said, end=key == "end_date"))
        for name, key in (("start_at", "start_date"), ("end_at", "end_date"))
        if said.get(key)
    }
    schedule = {"calendar_interval": {**units, "at": said.get("time", "00:00:00")}}
    return When(schedule, said["timezone"], **bounds, **_jitter(said))


def _day(text: str, said: Said, *, end: bool) -> datetime:
    from zoneinfo import ZoneInfo

    day = datetime.combine(date.fromisoformat(text[:10]), datetime.min.time(), ZoneInfo(said["timezone"]))
    return day + timedelta(days=1) - _MICROSECOND if end else day


def _when_combined(kind: str) -> Callable[[Said], When]:
    def read(said: Said) -> When:
        parts = [when_of(part) for part in said["triggers"]]
        zones = {part.time_zone for part in parts if not part.schedule.keys() & {"every", "at"}}
        if len(zones) > 1:
            raise DefinitionError(
                f"its parts are in {' and '.join(sorted(zones))}: write one trigger for each"
            )
        if any(part.start_at is not None or part.end_at is not None for part in parts):
            raise DefinitionError("a part of it has bounds of its own: write one trigger for each")
        changed = tuple(dict.fromkeys(each for part in parts for each in part.changed))
        schedule = {kind: [dict(part.schedule) for part in parts]}
        zone = next(iter(zones), "UTC")
        return When(schedule, zone, jitter=_jitter(said).get("jitter"), changed=changed)

    return read


_SCHEDULES: Mapping[str, Callable[[Said], When]] = {
    "cron": _when_cron,
    "interval": _when_interval,
    "date": _when_date,
    "calendarinterval": _when_calendar_interval,
    "and": _when_combined("all"),
    "or": _when_combined("any"),
}


def _bounded(said: Said) -> dict[str, Any]:
    bounds = (("start_at", "start_date"), ("end_at", "end_date"))
    found = {name: instant_of(said[key]) for name, key in bounds if said.get(key)}
    return found | _jitter(said)


def _jitter(said: Said) -> dict[str, Any]:
    return {"jitter": round(float(said["jitter"]) * SECOND)} if said.get("jitter") else {}


def instant_of(text: str) -> int:
    """An instant written in ISO 8601 with its offset."""
    return to_instant(datetime.fromisoformat(text))


def trigger_of(said: Mapping[str, Any]) -> Any:
    """An APScheduler 3 trigger object that `said_of` would answer `said` for; needs APScheduler."""
    from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
    from apscheduler.triggers.combining import AndTrigger, OrTrigger
    from apscheduler.triggers.cron import CronTrigger
    from apscheduler.triggers.date import DateTrigger
    from apscheduler.triggers.interval import IntervalTrigger

    given = {name: value for name, value in said.items() if name not in ("type", "triggers", "time")}
    kind = said["type"]
    if kind in ("and", "or"):
        parts = [trigger_of(part) for part in said["triggers"]]
        return (AndTrigger if kind == "and" else OrTrigger)(parts, **given)
    if kind == "interval":
        given.setdefault("start_date", datetime.fromtimestamp(0, UTC))
        return IntervalTrigger(**given)
    if kind == "date":
        return DateTrigger(datetime.fromisoformat(given["run_date"]))
    if kind == "calendarinterval":
        clock = said.get("time", "00:00:00").split(":")
        return CalendarIntervalTrigger(
            **given, **dict(zip(("hour", "minute", "second"), map(int, clock), strict=False))
        )
    return CronTrigger(**given)
