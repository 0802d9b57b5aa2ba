"""systemd's calendar events (`Mon..Fri *-*-* 02:30`): read into fields, said as cron or quartz, and read by dateutil."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any, Final

from ...triggers.errors import ScheduleError
from ...triggers.instant import from_instant, to_instant
from ...triggers.weekdays import NAMES, WEEKDAYS
from ...triggers.zone import find_zone
from .reading import Fires

ENGINE: Final = "dateutil"
_WORDS: Final = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "semi-annually": "*-01,07-01 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
}
_LONG_DAYS: Final = tuple(name.casefold() for name in NAMES)
_DATE = re.compile(r"(?:(?P<year>[^-~]+)-)?(?P<month>[^-~]+)(?P<sep>[-~])(?P<day>[^-~]+)\Z")
_TIME = re.compile(r"(?P<hour>[^:]+):(?P<minute>[^:]+)(?::(?P<second>[^:]+))?\Z")
_BOUNDS: Final = {
    "year": (1970, 2099),
    "month": (1, 12),
    "day": (1, 31),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}


@dataclass(frozen=True, slots=True)
class CalendarEvent:
    """One OnCalendar= value. Each field is its values in order; `from_end`: days are counted from the month's end."""

    weekdays: tuple[int, ...]
    """0 = Monday; empty: every day."""
    fields: dict[str, tuple[int, ...]]
    from_end: bool
    time_zone: str | None

    def whole(self, name: str) -> bool:
        """Whether the field restricts nothing."""
        low, high = _BOUNDS[name]
        return self.fields[name] == tuple(range(low, high + 1)) and not (name == "day" and self.from_end)


def read_event(text: str) -> CalendarEvent:
    """Read a calendar event; raises ScheduleError naming the part that cannot be read."""
    parts = _WORDS.get(text.strip().lower(), text.strip()).split()
    if parts and parts[0].lower() in _WORDS:
        parts[:1] = _WORDS[parts[0].lower()].split()
    zone = (
        parts.pop()
        if len(parts) > 1 and (parts[-1] == "UTC" or ("/" in parts[-1] and parts[-1][0].isalpha()))
        else None
    )
    if zone is not None:
        find_zone(zone)
    weekdays: tuple[int, ...] = ()
    if parts and parts[0][0].isalpha():
        weekdays = _weekdays(parts.pop(0).rstrip(","))
    date = _DATE.match(parts.pop(0)) if parts and _DATE.match(parts[0]) else None
    time = _TIME.match(parts.pop(0)) if parts and _TIME.match(parts[0]) else None
    if parts or (date is None and time is None and not weekdays):
        raise ScheduleError(f"{' '.join(parts) or text!r} is not a calendar event that systemd documents")
    said = {**dict.fromkeys(("year", "month", "day"), "*"), "hour": "0", "minute": "0", "second": "0"}
    for found in (date, time):
        said |= (
            {}
            if found is None
            else {k: v for k, v in found.groupdict().items() if v is not None and k != "sep"}
        )
    fields = {name: _values(name, said[name]) for name in _BOUNDS}
    return CalendarEvent(weekdays, fields, date is not None and date["sep"] == "~", zone)


def _weekdays(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in text.split(","):
        first, dots, last = part.replace("-", "..", 1).partition(
            ".."
        )  # `Mon-Fri` is its older way of writing
        low = _day(first)
        high = _day(last) if dots else low
        if high < low:
            raise ScheduleError(f"{part!r} runs backwards, which systemd refuses: write both parts")
        found |= set(range(low, high + 1))
    return tuple(sorted(found)) if len(found) < 7 else ()


def _day(text: str) -> int:
    for names in (WEEKDAYS, _LONG_DAYS):
        if text.lower() in names:
            return names.index(text.lower())
    raise ScheduleError(f"{text!r} is not a weekday")


def _values(name: str, text: str) -> tuple[int, ...]:
    low, high = _BOUNDS[name]
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, dots, last = span.partition("..")
        try:
            start = low if first == "*" else int(first)
            end = int(last) if dots else high if first == "*" or slash else start
            found |= set(range(start, end + 1, int(step) if slash else 1))
        except ValueError:
            raise ScheduleError(
                f"{name} {text!r} cannot be read: whole numbers, lists, .. and / are"
            ) from None
    if not found or min(found) < low or max(found) > high:
        raise ScheduleError(f"{name} {text!r} is outside {low}-{high}")
    return tuple(sorted(found))


def schedule(event: CalendarEvent, *, fixed: bool) -> dict[str, Any]:
    """The schedule of ours. `fixed`: stars of hours and minutes are written out, so that `dst` holds for them too.

    Raises ScheduleError for days from the month's end that quartz has no words for.
    """
    second, minute, hour = (_field(event, name, fixed=fixed) for name in ("second", "minute", "hour"))
    month, years = _field(event, "month"), _field(event, "year")
    year = "" if years == "*" else f" {years}"
    of_week = ",".join(WEEKDAYS[day].upper() for day in event.weekdays)
    day = "" if event.whole("day") else _from_end(event) if event.from_end else _field(event, "day")
    if second == "0" and not year and not event.from_end and not (day and of_week):
        return {"cron": f"{minute} {hour} {day or '*'} {month} {of_week.lower() or '*'}"}
    by_day = f"{second} {minute} {hour} {day or '*'} {month} ?{year}"
    by_week = f"{second} {minute} {hour} ? {month} {of_week}{year}"
    if day and of_week:
        return {"all": [{"quartz": by_day}, {"quartz": by_week}]}
    return {"quartz": by_week if of_week else by_day}


def _from_end(event: CalendarEvent) -> str:
    days = event.fields["day"]
    if len(days) != 1:
        raise ScheduleError("several days counted from the month's end (~): write one timer for each")
    return "L" if days[0] == 1 else f"L-{days[0] - 1}"


def _field(event: CalendarEvent, name: str, *, fixed: bool = False) -> str:
    """The values, as a star, a range, steps or a list; whichever says them shortest."""
    values, (low, high) = event.fields[name], _BOUNDS[name]
    steps = {b - a for a, b in pairwise(values)}
    if event.whole(name) and name != "second":
        return f"{low}-{high}" if fixed and name in ("hour", "minute") else "*"
    if len(values) > 2 and len(steps) == 1:
        step = steps.pop()
        if step == 1:
            return f"{values[0]}-{values[-1]}"
        if values[-1] + step > high:
            starred = values[0] == low and not fixed and name != "year"
            return f"*/{step}" if starred else f"{values[0]}-{high}/{step}"
        return f"{values[0]}-{values[-1]}/{step}"
    return ",".join(map(str, values))


def fires(event: CalendarEvent, zone: str) -> Fires:
    """systemd's next fires: a time that does not exist is left out, one that comes twice runs the first time."""
    tz = find_zone(zone).tz

    def of(after: int, count: int) -> list[int]:
        begin = from_instant(after).astimezone(tz).replace(tzinfo=None, microsecond=0) - timedelta(hours=3)
        found = (
            to_instant(wall.replace(tzinfo=tz))
            for wall in _walls(event, begin)
            if wall.replace(tzinfo=tz).astimezone(UTC).astimezone(tz).replace(tzinfo=None) == wall
        )
        return list(islice((each for each in found if each > after), count))

    return of


def _walls(event: CalendarEvent, begin: datetime) -> Iterator[datetime]:
    from dateutil.rrule import DAILY, rrule

    days = event.fields["day"]
    options: dict[str, Any] = {
        f"by{name}": event.fields[name] for name in ("month", "hour", "minute", "second")
    }
    if not event.whole("day"):
        options["bymonthday"] = [-day for day in days] if event.from_end else days
    if event.weekdays:
        options["byweekday"] = event.weekdays
    years = event.fields["year"]
    end = datetime(years[-1], 12, 31, 23, 59, 59)
    rule = rrule(DAILY, dtstart=begin.replace(hour=0, minute=0, second=0), until=end, **options)
    return (wall for wall in rule if wall.year in years)
