"""Which days a cron expression names: bit masks of the months of the fourteen shapes that a year can have."""

from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

FIRST_YEAR, LAST_YEAR = 1970, 2999

EPOCH_DAY = date(1970, 1, 1).toordinal()
_JAN1 = [date(year, 1, 1).toordinal() for year in range(FIRST_YEAR, LAST_YEAR + 2)]
SHAPES = bytes(jan1 % 7 + 7 * (after - jan1 - 365) for jan1, after in pairwise(_JAN1))
"""By year from 1970: the weekday of its first day (Sunday = 0), and 7 more in leap years."""

_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

EVERY_DAY = (1 << 32) - 2
EVERY_WEEKDAY = (1 << 7) - 1
EVERY_MONTH = (1 << 13) - 2


@dataclass(frozen=True, slots=True)
class DateRule:
    """The day fields of an expression; masks hold bit n for value n, weekdays count from Sunday = 0."""

    days: int = EVERY_DAY
    months: int = EVERY_MONTH
    weekdays: int = EVERY_WEEKDAY
    before_last: tuple[int, ...] = ()
    """L-n: n days before the month's last day."""
    workday_near: tuple[int, ...] = ()
    """nW: the Monday-to-Friday day nearest to day n, in the same month."""
    workday_before_last: tuple[int, ...] = ()
    """L-nW: the same, counted from the month's last day."""
    nth_weekdays: tuple[tuple[int, int], ...] = ()
    """weekday#k"""
    last_weekdays: int = 0
    """weekdayL"""
    years: frozenset[int] | None = None
    either: bool = False
    """Both day fields are restricted, and either may match (Unix); else both must."""

    def in_month(self, first_weekday: int, length: int) -> int:
        """The mask of matching days of a month that begins on `first_weekday` and has `length` days."""
        every = (1 << (length + 1)) - 2
        of_month = self._by_day(first_weekday, length) & every
        of_week = self._by_weekday(first_weekday, length) & every
        return of_month | of_week if self.either else of_month & of_week

    def _by_day(self, first_weekday: int, length: int) -> int:
        mask = self.days
        for before in self.before_last:
            mask |= 1 << (length - before) if before < length else 0
        for day in self.workday_near:
            mask |= _workday_near(day, first_weekday, length)
        for before in self.workday_before_last:
            mask |= _workday_near(length - before, first_weekday, length)
        return mask

    def _by_weekday(self, first_weekday: int, length: int) -> int:
        if self.weekdays == EVERY_WEEKDAY:
            return EVERY_DAY
        mask = 0
        for weekday in range(7):
            first = 1 + (weekday - first_weekday) % 7
            if self.weekdays >> weekday & 1:
                mask |= 0x10204081 << first  # every seventh day
            if self.last_weekdays >> weekday & 1:
                mask |= 1 << (first + (length - first) // 7 * 7)
        for weekday, nth in self.nth_weekdays:
            mask |= 1 << (1 + (weekday - first_weekday) % 7 + 7 * (nth - 1))
        return mask


def _workday_near(day: int, first_weekday: int, length: int) -> int:
    if not 1 <= day <= length:
        return 0
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:  # Saturday: the Friday before, or the 3rd
        day += -1 if day > 1 else 2
    elif weekday == 0:  # Sunday: the Monday after, or the Friday before
        day += 1 if day < length else -2
    return 1 << day


def ever_matches(rule: DateRule) -> bool:
    """Whether any day of any year up to 2999 matches."""
    if rule.years is not None:
        return dates_of(rule).after(0) is not None
    # Over the years every month begins on every weekday, and a leap February too.
    return any(
        rule.in_month(weekday, length)
        for month in _members(rule.months)
        for length in ((28, 29) if month == 2 else (_LENGTHS[month - 1],))
        for weekday in range(7)
    )


class YearShape(NamedTuple):
    """The matching days of every year that begins on one weekday and is, or is not, a leap year."""

    months: tuple[int, ...]
    """By month (January = 0): the mask of its matching days."""
    nexts: bytes
    """At index m (0..12): the first month from m on that has a matching day; 12 where none has."""
    total: int


class Dates:
    """The days of a rule; years count from 1970 = 0, months from January = 0, days from 1970-01-01 = 0."""

    __slots__ = ("_never", "_rule", "_seen", "_shapes", "_with_days")

    def __init__(self, rule: DateRule) -> None:
        self._rule = rule
        self._shapes: list[YearShape | None] = [None] * 14
        self._seen: dict[tuple[int, int], int] = {}
        self._with_days: bytes | None = None
        self._never = YearShape((0,) * 12, bytes([12]) * 13, 0)

    def year(self, year: int) -> YearShape:
        """The matching days of `year`."""
        if self._rule.years is not None and year + FIRST_YEAR not in self._rule.years:
            return self._never
        shape = SHAPES[year]
        return self._shapes[shape] or self._shape(shape)

    def _shape(self, shape: int) -> YearShape:
        months, weekday = [], shape % 7
        for month, days in enumerate(_LENGTHS):
            length = days + (shape >= 7 and month == 1)
            months.append(self._month(weekday, length) if self._rule.months >> month + 1 & 1 else 0)
            weekday = (weekday + length) % 7
        nexts = bytearray([12]) * 13
        for month in range(11, -1, -1):
            nexts[month] = month if months[month] else nexts[month + 1]
        made = YearShape(tuple(months), bytes(nexts), sum(mask.bit_count() for mask in months))
        self._shapes[shape] = made
        return made

    def _month(self, weekday: int, length: int) -> int:
        try:
            return self._seen[weekday, length]
        except KeyError:
            mask = self._seen[weekday, length] = self._rule.in_month(weekday, length)
            return mask

    def next_year(self, year: int) -> int:
        """The first year after `year` that has a matching day; -1 when there is none."""
        if self._with_days is None:
            having = bytes((self._shapes[shape] or self._shape(shape)).total > 0 for shape in range(14))
            years = SHAPES.translate(having + bytes(242))
            if self._rule.years is not None:
                years = bytes(y + FIRST_YEAR in self._rule.years and having for y, having in enumerate(years))
            self._with_days = years
        return self._with_days.find(1, year + 1)

    def after_month(self, year: int, month: int) -> tuple[int, int, int] | None:
        """The first matching (year, month, day of the month) of the months after `month` of `year`."""
        shape = self.year(year)
        later = shape.nexts[month + 1]
        if later == 12:
            year = self.next_year(year)
            if year < 0:
                return None
            shape = self.year(year)
            later = shape.nexts[0]
        mask = shape.months[later]
        return year, later, (mask & -mask).bit_length() - 1

    def after(self, day: int) -> int | None:
        """The first matching day that is not before `day`."""
        if day < 0:
            day = 0
        when = date.fromordinal(day + EPOCH_DAY)
        year, month = when.year - FIRST_YEAR, when.month - 1
        if year >= len(SHAPES):
            return None
        mask = self.year(year).months[month] >> when.day
        if mask:
            return day + (mask & -mask).bit_length() - 1
        found = self.after_month(year, month)
        return None if found is None else _day_of(*found)

    def before(self, day: int) -> int | None:
        """The last matching day that is not after `day`."""
        if day < 0:
            return None
        when = date.fromordinal(day + EPOCH_DAY)
        year, month = when.year - FIRST_YEAR, when.month - 1
        mask = self.year(year).months[month] & ((2 << when.day) - 1) if year < len(SHAPES) else 0
        while not mask:
            month -= 1
            if month < 0:
                year, month = year - 1, 11
                while year >= 0 and not self.year(year).total:
                    year -= 1
                if year < 0:
                    return None
            mask = self.year(year).months[month]
        return _day_of(year, month, mask.bit_length() - 1)

    def count(self, first: int, last: int) -> int:
        """How many matching days lie in `first`..`last`, both included."""
        first = max(first, 0)
        if first > last:
            return 0
        begin, end = date.fromordinal(first + EPOCH_DAY), date.fromordinal(last + EPOCH_DAY)
        total = self._until(end) - self._until(begin) + (self._mask(begin) >> begin.day & 1)
        for year in range(begin.year - FIRST_YEAR, end.year - FIRST_YEAR):
            total += self.year(year).total
        return total

    def _mask(self, when: date) -> int:
        return self.year(when.year - FIRST_YEAR).months[when.month - 1]

    def _until(self, when: date) -> int:
        """How many matching days its year has up to `when`."""
        months = self.year(when.year - FIRST_YEAR).months
        whole = sum(mask.bit_count() for mask in months[: when.month - 1])
        return whole + (months[when.month - 1] & ((2 << when.day) - 1)).bit_count()


def _day_of(year: int, month: int, day: int) -> int:
    return date(year + FIRST_YEAR, month + 1, day).toordinal() - EPOCH_DAY


def _members(mask: int) -> tuple[int, ...]:
    return tuple(value for value in range(mask.bit_length()) if mask >> value & 1)


@lru_cache(maxsize=4096)
def dates_of(rule: DateRule) -> Dates:
    """The compiled days of `rule`, kept for the next expression that names the same days."""
    return Dates(rule)
