"""From what a definition says of its calendars to calendars: each with its zone, else the trigger's."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from ..errors import DefinitionError
from ..instant import to_instant
from ..weekdays import WEEKDAYS
from ..zone import Zone, find_zone
from .calendar import Calendar, Together
from .days import Dates as DateRanges
from .days import DayCalendar, Days, EachYear, Holidays, Weekdays

OF_DAYS = frozenset({"dates", "yearly", "weekly", "holidays", "days"})
OF_HOURS = frozenset({"daily", "cron", "quartz", "spans", "recurring"})
_EPOCH = date(1970, 1, 1)


class Named(NamedTuple):
    """A calendar with the name that its trigger knows it by."""

    name: str
    calendar: Calendar
    of_days: bool
    """It leaves out whole days only: what is left out can roll to another day."""


def compile_calendars(calendars: Mapping[str, Mapping[str, Any]], time_zone: str) -> tuple[Named, ...]:
    """All calendars of a definition; raises DefinitionError, ScheduleError or ZoneError for what cannot be read."""
    return tuple(
        Named(name, compile_calendar(spec, time_zone), is_of_days(spec))
        for name, spec in sorted(calendars.items())
    )


def is_of_days(spec: Mapping[str, Any]) -> bool:
    """Whether it leaves out whole days only."""
    return not OF_HOURS & spec.keys() and all(is_of_days(each) for each in spec.get("any", ()))


def compile_calendar(spec: Mapping[str, Any], time_zone: str) -> Calendar:
    """The calendar that a spec describes, whatever it leaves out together."""
    zone = find_zone(spec.get("time_zone", time_zone))
    if unknown := sorted(spec.keys() - OF_DAYS - OF_HOURS - {"any", "time_zone"}):
        raise DefinitionError(f"unknown calendar keys {', '.join(unknown)}: a newer qsched may know them")
    found: list[Calendar] = []
    if sets := list(_day_sets(spec)):
        found.append(DayCalendar(tuple(sets), zone))
    found += _of_hours(spec, zone)
    found += [compile_calendar(each, spec.get("time_zone", time_zone)) for each in spec.get("any", ())]
    return found[0] if len(found) == 1 else Together(tuple(found))


def _day_sets(spec: Mapping[str, Any]) -> list[Days]:
    sets: list[Days] = []
    if weekly := spec.get("weekly"):
        sets.append(Weekdays(sum(1 << WEEKDAYS.index(day) for day in set(weekly))))
    if dates := spec.get("dates"):
        sets.append(DateRanges.of([(_day(first), _day(last)) for first, last in dates]))
    if yearly := spec.get("yearly"):
        sets.append(EachYear(tuple((_month_day(first), _month_day(last)) for first, last in yearly)))
    if where := spec.get("holidays"):
        sets.append(Holidays(where["country"], where.get("subdivision")))
    if rules := spec.get("days"):
        from .events import RecurringDays

        sets += [RecurringDays(_occurrences(each), each["length"]) for each in rules]
    return sets


def _of_hours(spec: Mapping[str, Any], zone: Zone) -> list[Calendar]:
    found: list[Calendar] = []
    if daily := spec.get("daily"):
        from .hours import HourCalendar

        found.append(HourCalendar.of([(_time(begin), _time(end)) for begin, end in daily], zone))
    for key, dialect in (("cron", "unix"), ("quartz", "quartz")):
        if key in spec:
            from ..cron import Cron
            from .expression import CronCalendar

            found.append(CronCalendar(Cron(spec[key], dialect, zone.key)))  # type: ignore[arg-type]
    if spans := spec.get("spans"):
        from .events import Spans

        found.append(Spans.of([(_instant(begin), _instant(end)) for begin, end in spans]))
    if rules := spec.get("recurring"):
        from .events import RecurringSpans

        for each in rules:
            where = find_zone(each["time_zone"]) if "time_zone" in each else zone
            found.append(RecurringSpans(_occurrences(each), each["length"], where))
    return found


def _occurrences(said: Mapping[str, Any]) -> Any:
    from .events import Occurrences

    left_out = frozenset(datetime.fromisoformat(each) for each in said.get("except", ()))
    return Occurrences(said["rrule"], datetime.fromisoformat(said["start"]), left_out)


def _day(text: str) -> int:
    return (date.fromisoformat(text) - _EPOCH).days


def _month_day(text: str) -> tuple[int, int]:
    month, _, day = text.partition("-")
    return int(month), int(day)


def _time(text: str) -> int:
    hour, minute, second = (*map(int, text.split(":")), 0)[:3]
    return hour * 3600 + minute * 60 + second


def _instant(text: str) -> int:
    return to_instant(datetime.fromisoformat(text))


def names_of(calendars: Sequence[Named], instant: int) -> list[str]:
    """Which of the calendars leave an instant out."""
    return [each.name for each in calendars if each.calendar.excludes(instant)]
