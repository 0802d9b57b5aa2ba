"""Slots of both dialects by looking, with zoneinfo, at each wall time of each day, or at each second that passes.

What an expression means is written beside it as sets and a rule for days, by hand: nothing here reads one.
"""

from calendar import monthrange
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from .wall_scan import instants_of

Days = Callable[[date], bool]


@dataclass(frozen=True)
class Meant:
    """An expression and what it means: times of day, days, and whether it follows elapsed time."""

    dialect: str
    expr: str
    hours: frozenset[int]
    minutes: frozenset[int]
    seconds: frozenset[int]
    on: Days
    interval: bool

    def slots(self, zone: ZoneInfo, first: datetime, last: datetime) -> list[datetime]:
        """Every slot in `first`..`last`, in UTC."""
        return self._elapsed(zone, first, last) if self.interval else self._fixed(zone, first, last)

    def _fixed(self, zone: ZoneInfo, first: datetime, last: datetime) -> list[datetime]:
        found: set[datetime] = set()
        day = first.astimezone(zone).date() - timedelta(days=2)
        while day <= last.astimezone(zone).date() + timedelta(days=2):
            if self.on(day):
                for clock in self._clocks():
                    found.update(instants_of(day, clock, zone, runs_after_gap=True, once=True))
            day += timedelta(days=1)
        return sorted(instant for instant in found if first <= instant <= last)

    def _elapsed(self, zone: ZoneInfo, first: datetime, last: datetime) -> list[datetime]:
        found: list[datetime] = []
        minute = first.replace(second=0, microsecond=0)
        while minute <= last:  # no offset of these years has seconds, and none changes within a minute
            wall = minute.astimezone(zone)
            if wall.minute in self.minutes and wall.hour in self.hours and self.on(wall.date()):
                found += [minute.replace(second=second) for second in sorted(self.seconds)]
            minute += timedelta(minutes=1)
        return [instant for instant in found if first <= instant <= last]

    def _clocks(self) -> Iterator[time]:
        for hour in self.hours:
            for minute in self.minutes:
                for second in self.seconds:
                    yield time(hour, minute, second)


def _every(_day: date) -> bool:
    return True


def _weekday(*days: int) -> Days:
    return lambda day: day.weekday() in days


def _nth(number: int, weekday: int) -> Days:
    return lambda day: day.weekday() == weekday and (day.day - 1) // 7 + 1 == number


def _last(day: date) -> bool:
    return day.day == monthrange(day.year, day.month)[1]


def _last_sunday(day: date) -> bool:
    return day.weekday() == 6 and day.day + 7 > monthrange(day.year, day.month)[1]


def _first_or_friday(day: date) -> bool:
    return day.day == 1 or day.weekday() == 4


def _odd_sunday(day: date) -> bool:
    return day.day % 2 == 1 and day.weekday() == 6


# The fields day, month, weekday of each dialect, and the days that they mean.
UNIX_DAYS: tuple[tuple[str, Days], ...] = (
    ("* * *", _every),
    ("* * 0", _weekday(6)),
    ("* * sat,sun", _weekday(5, 6)),
    ("1-15 * *", lambda day: day.day <= 15),
    ("* 3,10,11 *", lambda day: day.month in (3, 10, 11)),
    ("1 * 5", _first_or_friday),  # either
    ("*/2 * 0", _odd_sunday),  # both: one begins with a star
)
QUARTZ_DAYS: tuple[tuple[str, Days], ...] = (
    ("* * ?", _every),
    ("? * 1", _weekday(6)),
    ("? * 1L", _last_sunday),
    ("? * SUN#2", _nth(2, 6)),
    ("L * ?", _last),
    ("? * FRI-SUN", _weekday(4, 5, 6)),
)

_ALL_H, _ALL_M = frozenset(range(24)), frozenset(range(60))


def _set(*values: int) -> frozenset[int]:
    return frozenset(values)


# The fields minute and hour, what they mean, and whether one begins with a star.
UNIX_TIMES = (
    ("30 2", _set(2), _set(30), False),
    ("0 0", _set(0), _set(0), False),
    ("59 1", _set(1), _set(59), False),
    ("0,30 1-3", _set(1, 2, 3), _set(0, 30), False),
    ("15 0-23", _ALL_H, _set(15), False),
    ("0-59/20 0-3", _set(0, 1, 2, 3), _set(0, 20, 40), False),
    ("*/20 *", _ALL_H, _set(0, 20, 40), True),
    ("30 *", _ALL_H, _set(30), True),
    ("*/15 2", _set(2), _set(0, 15, 30, 45), True),
    ("0 */2", frozenset(range(0, 24, 2)), _set(0), True),
)
# The fields second, minute and hour; in this dialect `0/n` follows elapsed time too.
QUARTZ_TIMES = (
    ("0 30 2", _set(2), _set(30), _set(0), False),
    ("59 59 23", _set(23), _set(59), _set(59), False),
    ("0,30 59 1", _set(1), _set(59), _set(0, 30), False),
    ("0 0 0-4", _set(0, 1, 2, 3, 4), _set(0), _set(0), False),
    ("0/20 * *", _ALL_H, _ALL_M, _set(0, 20, 40), True),
    ("0 0/20 *", _ALL_H, _set(0, 20, 40), _set(0), True),
    ("0 15 0/2", frozenset(range(0, 24, 2)), _set(15), _set(0), True),
)

EXPRESSIONS: tuple[Meant, ...] = (
    *(
        Meant("unix", f"{clock} {days}", hours, minutes, _set(0), on, star)
        for n, (clock, hours, minutes, star) in enumerate(UNIX_TIMES)
        for m, (days, on) in enumerate(UNIX_DAYS)
        if m == 0 or (n + m) % 2
    ),
    *(
        Meant("quartz", f"{clock} {days}", hours, minutes, seconds, on, elapsed)
        for n, (clock, hours, minutes, seconds, elapsed) in enumerate(QUARTZ_TIMES)
        for m, (days, on) in enumerate(QUARTZ_DAYS)
        if m == 0 or (n + m) % 2
    ),
)
"""Every time with every day, and with half of the other rules for days."""


def utc(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
