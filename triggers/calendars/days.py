"""Calendars of whole days, in a zone: days of the week, dates, and whatever else can say of a day whether it is left out."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Protocol

from ..errors import ScheduleError
from ..instant import SECOND
from ..zone import DAY, Zone

_EPOCH = date(1970, 1, 1)
_FAR = 400
"""Days that one look goes over: the answer may be another behind them."""
_LAST = (date(2999, 12, 31) - _EPOCH).days


class Days(Protocol):
    """Says of a local day (counted from 1970-01-01) whether it is left out."""

    def __contains__(self, day: int) -> bool: ...


@dataclass(frozen=True, slots=True)
class Weekdays:
    """Days of the week: a mask, Monday is bit 0."""

    mask: int

    def __contains__(self, day: int) -> bool:
        return bool(self.mask >> (day + 3) % 7 & 1)  # 1970-01-01 was a Thursday


@dataclass(frozen=True, slots=True)
class Dates:
    """Ranges of days, both ends included; sorted by their beginning, and none touches another."""

    firsts: Sequence[int]
    lasts: Sequence[int]

    @classmethod
    def of(cls, ranges: Sequence[tuple[int, int]]) -> "Dates":
        """Of ranges in any order, which may overlap."""
        firsts: list[int] = []
        lasts: list[int] = []
        for first, last in sorted(ranges):
            if lasts and first <= lasts[-1] + 1:
                lasts[-1] = max(lasts[-1], last)
            else:
                firsts.append(first)
                lasts.append(last)
        return cls(tuple(firsts), tuple(lasts))

    def __contains__(self, day: int) -> bool:
        at = bisect_right(self.firsts, day) - 1
        return at >= 0 and day <= self.lasts[at]


@dataclass(frozen=True, slots=True)
class EachYear:
    """Ranges of (month, day) in every year; one whose end is before its beginning goes over the new year."""

    ranges: Sequence[tuple[tuple[int, int], tuple[int, int]]]

    def __contains__(self, day: int) -> bool:
        when = _EPOCH + timedelta(days=day)
        here = (when.month, when.day)
        return any(
            first <= here <= last if first <= last else here >= first or here <= last
            for first, last in self.ranges
        )


@dataclass(frozen=True, slots=True)
class Holidays:
    """Public holidays of a country, or of a part of it, as the `holidays` package knows them."""

    country: str
    subdivision: str | None = None
    _years: dict[int, frozenset[int]] = field(default_factory=dict, compare=False)

    def __contains__(self, day: int) -> bool:
        year = (_EPOCH + timedelta(days=day)).year
        known = self._years.get(year)
        if known is None:
            found = self._holidays(year)
            known = self._years[year] = frozenset((each - _EPOCH).days for each in found)
        return day in known

    def check(self) -> None:
        """Raises ScheduleError for a country or subdivision that is not known, and where the package is missing."""
        self._holidays(2026)

    def _holidays(self, year: int) -> Mapping[date, str]:
        try:
            import holidays  # its data are large, and few need them
        except ImportError as error:
            raise HolidaysMissing(
                "holidays: the package is not installed here; pip install 'qsched[holidays]'"
            ) from error
        try:
            return holidays.country_holidays(self.country, subdiv=self.subdivision, years=year)
        except NotImplementedError as error:
            what = self.country if self.subdivision is None else f"{self.country} {self.subdivision}"
            raise ScheduleError(
                f"holidays: {what!r} is not known; write a country as in TR, and its subdivision as in BY"
            ) from error


class HolidaysMissing(ScheduleError):
    """A fact about this machine, not about the definition: others may have the package."""


@dataclass(frozen=True, slots=True)
class DayCalendar:
    """Leaves out the days of `sets` from their beginning to their end, as the zone's clocks show them."""

    sets: Sequence[Days]
    zone: Zone

    def excludes(self, instant: int) -> bool:
        return self.leaves_out(self.zone.wall_at(instant // SECOND) // DAY)

    def leaves_out(self, day: int) -> bool:
        """Whether the local day is left out."""
        return any(day in each for each in self.sets)

    def changes_after(self, instant: int) -> int | None:
        day = self.zone.wall_at(instant // SECOND) // DAY
        now = self.leaves_out(day)
        for later in range(day + 1, min(day + _FAR, _LAST) + 1):
            if self.leaves_out(later) is not now:
                break
        else:
            later = day + _FAR
        return None if later >= _LAST else max(self.begin(later), instant + 1)

    def changes_before(self, instant: int) -> int | None:
        day = self.zone.wall_at(instant // SECOND) // DAY
        now = self.leaves_out(day)
        first = max(day - _FAR, 0)
        while day > first and self.leaves_out(day - 1) is now:
            day -= 1
        return None if day <= 0 else min(self.begin(day), instant)

    def begin(self, day: int) -> int:
        """The first instant of a local day."""
        return self.zone.second_of(day * DAY) * SECOND
