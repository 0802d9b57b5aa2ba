"""Walls that are days and times: each named time of each named day."""

from typing import Protocol

from .cron_times import Times
from .zone import DAY


class NamedDays(Protocol):
    """Which days are named; days count from 1970-01-01 = 0."""

    def after(self, day: int) -> int | None:
        """The first named day that is not before `day`."""

    def before(self, day: int) -> int | None:
        """The last named day that is not after `day`."""

    def count(self, first: int, last: int) -> int:
        """How many named days lie in `first`..`last`, both included."""


class DatedWalls:
    """Every named time of every named day."""

    __slots__ = ("dates", "times")

    def __init__(self, dates: NamedDays, times: Times) -> None:
        self.dates = dates
        self.times = times

    def after(self, wall: int) -> int | None:
        """The first named wall that is not before `wall`."""
        day, time = divmod(wall, DAY)
        then = self.times.after(time)
        found = self.dates.after(day if then >= 0 else day + 1)
        if found is None:
            return None
        return found * DAY + (then if found == day else self.times.first)

    def before(self, wall: int) -> int | None:
        """The last named wall that is not after `wall`."""
        day, time = divmod(wall, DAY)
        then = self.times.before(time)
        found = self.dates.before(day if then >= 0 else day - 1)
        if found is None:
            return None
        return found * DAY + (then if found == day else self.times.last)

    def count(self, first: int, last: int) -> int:
        """How many named walls lie in `first`..`last`, both included."""
        if first > last:
            return 0
        (day, time), (last_day, last_time) = divmod(first, DAY), divmod(last, DAY)
        total = self.dates.count(day, last_day) * self.times.per_day
        if self.dates.after(day) == day:
            total -= self.times.up_to(time - 1)
        if self.dates.after(last_day) == last_day:
            total -= self.times.per_day - self.times.up_to(last_time)
        return total
