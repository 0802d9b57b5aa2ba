"""Events of an iCalendar file (RFC 5545) as a calendar's spec: whole days, spans of time, and what recurs of both."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from ..errors import ScheduleError

MOST_EVENTS = 2_000


def read_ics(content: bytes) -> dict[str, list[Any]]:
    """{dates, spans, days, recurring} of the file's events, as a calendar's spec has them; cancelled ones left out.

    Raises ScheduleError for what is no such file, holds too much, or what no rule can be made of.
    """
    try:
        from icalendar import Calendar
    except ImportError as error:
        raise ScheduleError(
            "ics: the icalendar package is not installed here; pip install 'qsched[ics]'"
        ) from error
    try:
        calendar = Calendar.from_ical(content)
        every = calendar.walk("VEVENT")
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise ScheduleError(f"this is no iCalendar file: {error}; export it again") from error
    events = [each for each in every if str(each.get("STATUS", "")).upper() != "CANCELLED"]
    if len(events) > MOST_EVENTS:
        raise ScheduleError(
            f"it has {len(events)} events, and {MOST_EVENTS} are read at most; leave out what is past"
        )
    found: dict[str, list[Any]] = {}
    moved = [each for each in every if "RECURRENCE-ID" in each]
    for event in events:
        try:
            items = _event(event, [each for each in moved if each.get("UID") == event.get("UID")])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, ScheduleError):
                raise
            raise ScheduleError(f"the event {_name(event)!r} cannot be read: {error}; correct it") from error
        for key, item in items:
            found.setdefault(key, []).append(item)
    return found


def _name(event: Any) -> str:
    return str(event.get("SUMMARY", event.get("UID", "?")))


def _event(event: Any, moved: list[Any]) -> list[tuple[str, Any]]:
    """`moved`: the events that stand in place of single occurrences of this one."""
    name = _name(event)
    begin = event.decoded("DTSTART", None)
    if begin is None:
        raise ScheduleError(f"the event {name!r} has no DTSTART; correct it")
    whole = not isinstance(begin, datetime)
    end = event.decoded("DTEND", None)
    if end is None:
        duration = event.decoded("DURATION", None)
        end = begin + (duration if duration is not None else timedelta(days=1 if whole else 0))
    more = [_once(name, each.dt, each.dt + (end - begin)) for each in _listed(event, "RDATE")]
    if "RRULE" not in event:
        return [_once(name, begin, end), *more]
    if isinstance(event["RRULE"], list):
        raise ScheduleError(f"the event {name!r} has several RRULE lines; make an event of each")
    left_out = [each.dt for each in _listed(event, "EXDATE")]
    if "RECURRENCE-ID" not in event:
        left_out += [each.decoded("RECURRENCE-ID") for each in moved]
    return [_recurring(event, begin, end, left_out), *more]


def _once(name: str, begin: Any, end: Any) -> tuple[str, Any]:
    if not isinstance(begin, datetime):
        last = max(begin, end - timedelta(days=1))
        return "dates", [str(begin), str(last)]
    if begin.tzinfo is None:
        raise ScheduleError(
            f"the event {name!r} floats: its DTSTART names no zone; give it a TZID, or end it with Z"
        )
    return "spans", [begin.astimezone(UTC).isoformat(), end.astimezone(UTC).isoformat()]


def _recurring(event: Any, begin: Any, end: Any, missing: list[Any]) -> tuple[str, Any]:
    whole = not isinstance(begin, datetime)
    rule = event["RRULE"].to_ical().decode()
    start = datetime(begin.year, begin.month, begin.day) if whole else begin.replace(tzinfo=None)
    said: dict[str, Any] = {"rrule": _without_zone(rule, begin), "start": start.isoformat()}
    left_out = sorted({_wall(each, begin).isoformat() for each in missing})
    if left_out:
        said["except"] = left_out
    if whole:
        return "days", said | {"length": max((end - begin).days, 1)}
    zone = getattr(begin.tzinfo, "key", None) or getattr(begin.tzinfo, "zone", None)
    if begin.tzinfo is not None:
        said["time_zone"] = str(zone) if zone else "UTC"
        if zone is None:
            said["start"] = begin.astimezone(UTC).replace(tzinfo=None).isoformat()
    return "recurring", said | {"length": max(int((end - begin).total_seconds()), 1)}


def _listed(event: Any, name: str) -> list[Any]:
    given = event.get(name, [])
    return [each for one in (given if isinstance(given, list) else [given]) for each in one.dts]


def _wall(moment: date, begin: Any) -> datetime:
    """A left-out occurrence on the wall of the event."""
    if not isinstance(moment, datetime):
        return datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is not None and isinstance(begin, datetime) and begin.tzinfo is not None:
        moment = moment.astimezone(begin.tzinfo)
    return moment.replace(tzinfo=None)


def _without_zone(rule: str, begin: Any) -> str:
    """The rule with its UNTIL on the event's wall: occurrences are worked out there."""
    parts = []
    for part in rule.split(";"):
        key, _, value = part.partition("=")
        if key.upper() == "UNTIL" and value.endswith("Z"):
            until = datetime.strptime(value, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            if isinstance(begin, datetime) and begin.tzinfo is not None:
                until = until.astimezone(begin.tzinfo)
            part = f"UNTIL={until:%Y%m%dT%H%M%S}"
        parts.append(part)
    return ";".join(parts)
