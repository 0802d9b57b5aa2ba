"""The walls of a recurrence: python-dateutil's, asked for near where they are wanted, and kept by blocks.

A rule that began long ago is begun again a whole number of its periods later. And since the calendar repeats every 400
years to the day, the rule is asked for in a late cycle: dateutil gives up at the year 9999, and so sooner there.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, Protocol

from .cron_times import Times, times_of
from .dated_walls import DatedWalls
from .errors import ScheduleError
from .even_walls import EvenWalls
from .recurrence_text import FREQUENCIES, WEEKDAYS, Recurring
from .schedule import COUNT_LIMIT
from .wall_slots import Walls
from .zone import DAY, HORIZON

_EPOCH = datetime(1970, 1, 1)
_CYCLE_YEARS, _CYCLE = 400, 146_097 * DAY
_LATE_YEAR = 9200  # and 400 years more, within which every date and weekday comes once, up to dateutil's last
_UNIT = {"WEEKLY": 7 * DAY, "DAILY": DAY, "HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}
_SPAN = {"YEARLY": 16 * 366 * DAY, "MONTHLY": 4 * 366 * DAY, "WEEKLY": 732 * DAY, "DAILY": 366 * DAY}
_BLOCK = 2000
_KEPT = 64
_NEAR = 8
_MOST_TIMES = 1000
_MOST_STRETCH = 1000


class _Block(NamedTuple):
    walls: tuple[int, ...]
    following: int | None


class _Ordered(Protocol):
    def walk(self, wall: int) -> Iterator[int]:
        """All from the first that is not before `wall`, up to the horizon."""


class _Rule:
    """One RRULE without COUNT and UNTIL, from the wall `start` on."""

    def __init__(self, recurring: Recurring, start: int, at_midnight: bool) -> None:
        self.start = start // DAY * DAY if at_midnight else start
        self._freq, self._interval = recurring.freq, recurring.interval
        began = _EPOCH + timedelta(seconds=start)
        parts = {**recurring.parts, **_from_start(recurring, began)}
        if at_midnight:
            parts |= {"BYHOUR": "0", "BYMINUTE": "0", "BYSECOND": "0"}
        self._keywords = _keywords(recurring, parts)
        wkst = WEEKDAYS.index(recurring.parts.get("WKST", "MO"))
        self._origin = (
            self.start - (began.weekday() - wkst) % 7 * DAY if self._freq == "WEEKLY" else self.start
        )
        if self._freq in ("YEARLY", "MONTHLY"):
            self._origin = self._month_start(began.year, began.month if self._freq == "MONTHLY" else 1)
        self._began = _EPOCH + timedelta(seconds=self._origin)
        self._near(0)  # dateutil refuses what never comes

    def _month_start(self, year: int, month: int) -> int:
        return int((datetime(year, month, 1) - _EPOCH).total_seconds()) + self.start % DAY

    def _near(self, wall: int) -> tuple[Any, int]:
        """dateutil's rule from a period or two before `wall` on, and by how much it is later than asked for."""
        from dateutil import rrule  # late: only for who has a recurrence

        anchor = self._anchor(wall)
        lift = -((anchor.year - _LATE_YEAR) // _CYCLE_YEARS)
        late = anchor.replace(year=anchor.year + lift * _CYCLE_YEARS)
        try:
            rule = rrule.rrule(
                getattr(rrule, self._freq), dtstart=late, interval=self._interval, **self._keywords
            )
        except ValueError as error:
            raise ScheduleError(
                "rrule: its times and its INTERVAL never meet, so it can never fire; change one"
            ) from error
        return rule, lift * _CYCLE

    def _anchor(self, wall: int) -> datetime:
        """The beginning of a period of the rule, one period before the one of `wall`."""
        if self._freq in _UNIT:
            size = _UNIT[self._freq] * self._interval
            periods = max(0, (wall - self._origin) // size - 1)
            return self._began + timedelta(seconds=periods * size)
        then = _EPOCH + timedelta(seconds=wall)
        months = self._interval * (12 if self._freq == "YEARLY" else 1)
        first = self._began.year * 12 + self._began.month - 1
        periods = max(0, (then.year * 12 + then.month - 1 - first) // months - 1)
        year, month = divmod(first + periods * months, 12)
        return self._began.replace(year=year, month=month + 1)

    def walk(self, wall: int) -> Iterator[int]:
        """Each wall of the rule that is not before `wall`, up to the horizon."""
        wall = max(wall, self.start)
        while wall < HORIZON:
            rule, lift = self._near(wall)
            last, nothing = _seconds(datetime.max) - lift, True
            for moment in rule:
                found = _seconds(moment) - lift
                if found >= HORIZON:
                    return
                if found >= wall:
                    yield found
                    nothing = False
            if nothing and self._interval == 1:
                return  # not in 400 years: never
            wall = last + 1


def _seconds(moment: datetime) -> int:
    spent = moment - _EPOCH
    return spent.days * DAY + spent.seconds


def _from_start(recurring: Recurring, began: datetime) -> dict[str, str]:
    """What a rule does not say, and takes from where it begins (as dateutil does, which begins elsewhere here)."""
    if recurring.parts.keys() & {"BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY"}:
        return {}
    if recurring.freq == "YEARLY":
        return {"BYMONTHDAY": str(began.day), "BYMONTH": recurring.parts.get("BYMONTH", str(began.month))}
    if recurring.freq == "MONTHLY":
        return {"BYMONTHDAY": str(began.day)}
    return {"BYDAY": WEEKDAYS[began.weekday()]} if recurring.freq == "WEEKLY" else {}


def _keywords(recurring: Recurring, parts: dict[str, str]) -> dict[str, Any]:
    """The parts as dateutil takes them."""
    from dateutil import rrule

    days = [getattr(rrule, text[-2:])(int(text[:-2])) if text[:-2] else getattr(rrule, text) for text in
            (parts["BYDAY"].split(",") if "BYDAY" in parts else ())]  # fmt: skip
    keywords: dict[str, Any] = {"byweekday": days} if days else {}
    keywords["wkst"] = getattr(rrule, recurring.parts.get("WKST", "MO"))
    for name, value in parts.items():
        if name not in ("BYDAY", "WKST"):
            keywords[name.lower()] = [int(number) for number in value.split(",")]
    return keywords


class _Blocks:
    """What a rule names, by stretches of time that are asked for once."""

    def __init__(self, rule: _Ordered, start: int, span: int) -> None:
        self._rule, self._start, self._span = rule, start, span
        self._block = lru_cache(maxsize=_KEPT)(self._made)
        self._far_before = lru_cache(maxsize=_KEPT)(self._looked_up)

    def _made(self, index: int) -> _Block:
        begin, end = index * self._span, (index + 1) * self._span
        walls: list[int] = []
        for wall in self._rule.walk(begin):
            if wall >= end:
                return _Block(tuple(walls), wall)
            walls.append(wall)
        return _Block(tuple(walls), None)

    def after(self, wall: int) -> int | None:
        wall = max(wall, self._start)
        if wall >= HORIZON:
            return None
        walls, following = self._block(wall // self._span)
        index = bisect_left(walls, wall)
        return walls[index] if index < len(walls) else following

    def before(self, wall: int) -> int | None:
        wall = min(wall, HORIZON - 1)
        if wall < self._start:
            return None
        walls = self._block(wall // self._span).walls
        index = bisect_right(walls, wall)
        return walls[index - 1] if index else self._far_before(wall // self._span * self._span)

    def _looked_up(self, end: int) -> int | None:
        """The last before `end`, which is looked for in stretches that double."""
        size = self._span
        while end > self._start:
            begin, last = end - size, None
            for wall in self._rule.walk(begin):
                if wall >= end:
                    break
                last = wall
            if last is not None:
                return last
            end, size = begin, 2 * size
        return None

    def count(self, first: int, last: int) -> int:
        first, last = max(first, self._start), min(last, HORIZON - 1)
        if first > last:
            return 0
        low, high = first // self._span, last // self._span
        if high - low <= _NEAR:
            blocks = [self._block(index).walls for index in range(low, high + 1)]
            inside = sum(map(len, blocks))
            return inside - bisect_left(blocks[0], first) - (len(blocks[-1]) - bisect_right(blocks[-1], last))
        total = 0
        for wall in self._rule.walk(first):
            if wall > last or total > COUNT_LIMIT:
                break
            total += 1
        return total


class _Dates:
    """Days in place of walls, as a cron's walls take them."""

    def __init__(self, blocks: _Blocks) -> None:
        self._blocks = blocks

    def after(self, day: int) -> int | None:
        found = self._blocks.after(day * DAY)
        return None if found is None else found // DAY

    def before(self, day: int) -> int | None:
        found = self._blocks.before(day * DAY)
        return None if found is None else found // DAY

    def count(self, first: int, last: int) -> int:
        return self._blocks.count(first * DAY, last * DAY)


@dataclass(frozen=True, slots=True)
class Listed:
    """Walls that were counted out one by one."""

    walls: tuple[int, ...]

    def after(self, wall: int) -> int | None:
        index = bisect_left(self.walls, wall)
        return self.walls[index] if index < len(self.walls) else None

    def before(self, wall: int) -> int | None:
        index = bisect_right(self.walls, wall)
        return self.walls[index - 1] if index else None

    def count(self, first: int, last: int) -> int:
        return max(0, bisect_right(self.walls, last) - bisect_left(self.walls, first))


@dataclass(frozen=True, slots=True)
class _Within:
    """The walls of a rule from `first` to `last`."""

    walls: Walls
    first: int
    last: int

    def after(self, wall: int) -> int | None:
        found = self.walls.after(max(wall, self.first))
        return None if found is None or found > self.last else found

    def before(self, wall: int) -> int | None:
        found = self.walls.before(min(wall, self.last))
        return None if found is None or found < self.first else found

    def count(self, first: int, last: int) -> int:
        first, last = max(first, self.first), min(last, self.last)
        return self.walls.count(first, last) if first <= last else 0


class _Edited:
    """The walls of a rule, with some more, and without some."""

    def __init__(self, walls: Walls, added: tuple[int, ...], left_out: frozenset[int]) -> None:
        self._walls = walls
        self._out = Listed(tuple(sorted(wall for wall in left_out if walls.after(wall) == wall)))
        self._left_out = left_out
        self._added = Listed(
            tuple(wall for wall in added if wall not in left_out and walls.after(wall) != wall)
        )

    def after(self, wall: int) -> int | None:
        found = self._walls.after(wall)
        while found in self._left_out:
            found = self._walls.after(found + 1)
        more = self._added.after(wall)
        return found if more is None or (found is not None and found < more) else more

    def before(self, wall: int) -> int | None:
        found = self._walls.before(wall)
        while found in self._left_out:
            found = self._walls.before(found - 1)
        more = self._added.before(wall)
        return found if more is None or (found is not None and found > more) else more

    def count(self, first: int, last: int) -> int:
        return self._walls.count(first, last) + self._added.count(first, last) - self._out.count(first, last)


def walls_of(recurring: Recurring, start: int) -> Walls:
    """Every wall that a recurrence names, which begins at the wall `start`; raises ScheduleError."""
    walls: Walls
    by_day = FREQUENCIES.index(recurring.freq) <= FREQUENCIES.index("DAILY")
    times = _times(recurring, start)
    stretch = min(recurring.interval, _MOST_STRETCH)
    if not by_day and recurring.parts.keys() <= {"WKST"}:
        walls = EvenWalls(start, _UNIT[recurring.freq] * recurring.interval)
    elif by_day and "BYSETPOS" not in recurring.parts:
        rule = _Rule(recurring, start, at_midnight=True)
        dates = _Dates(_Blocks(rule, rule.start, _SPAN[recurring.freq] * stretch))
        walls = DatedWalls(dates, times)
    else:
        if by_day and times.per_day > _MOST_TIMES:
            raise ScheduleError(f"rrule: BYSETPOS with more than {_MOST_TIMES} times a day; name fewer")
        span = _SPAN.get(recurring.freq, max(3600, _BLOCK * DAY // times.per_day)) * stretch
        walls = _Blocks(_Rule(recurring, start, at_midnight=False), start, span)
    last = HORIZON - 1 if recurring.until_wall is None else min(recurring.until_wall, HORIZON - 1)
    walls = _Within(walls, start, last)
    if recurring.count is not None:
        walls = Listed(tuple(islice(_all(walls), recurring.count)))
    if recurring.added or recurring.left_out:
        walls = _Edited(walls, recurring.added, recurring.left_out)
    return walls


def _all(walls: Walls) -> Iterator[int]:
    found = walls.after(0)
    while found is not None:
        yield found
        found = walls.after(found + 1)


def _times(recurring: Recurring, start: int) -> Times:
    """The times of day that the parts name; what they leave open is taken from `start`, or is every one below FREQ."""
    open_from = FREQUENCIES.index(recurring.freq) - FREQUENCIES.index("HOURLY")
    masks = []
    for index, (part, size) in enumerate((("BYHOUR", 24), ("BYMINUTE", 60), ("BYSECOND", 60))):
        numbers = recurring.numbers(part)
        own = (start % DAY // 3600, start // 60 % 60, start % 60)[index]
        masks.append(
            sum(1 << n for n in set(numbers))
            if numbers
            else (1 << size) - 1
            if index <= open_from
            else 1 << own
        )
    hours, minutes, seconds = masks
    return times_of(seconds, minutes, hours)
