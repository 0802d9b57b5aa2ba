"""The zone rule: how the walls (local times) that an expression names become slots, around changes too.

*Run after* a gap: walls that a gap of up to three hours skips become one slot at the first instant after it.
*Once*: a wall that comes twice is a slot the first time only; *twice*: each time.
"""

from bisect import bisect_right
from datetime import datetime

from .cron_dates import FIRST_YEAR, SHAPES, Dates
from .cron_times import Times
from .zone import DAY, HORIZON, Changes, Zone

_FIRST_MONTH = FIRST_YEAR * 12 + 1
_YEARS = len(SHAPES)
_LONGEST_GAP = 3 * 3600  # a longer one is a day that a country left out: its fixed times are dropped with it


class Walls:
    """Every wall second that an expression names, on a calendar without zones."""

    __slots__ = ("dates", "times")

    def __init__(self, dates: Dates, times: Times) -> None:
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


Plan = tuple[int, int, datetime | None]
"""A month, for walking by dates: the mask of its named days; the mask of the days that need a closer look, since
a change touches them; the first slot of the months after it, or None where that needs a closer look."""


class Slots:
    """The slots of walls in a zone under one rule; an instant here is a second since the epoch, UTC, ≥ 0."""

    __slots__ = ("first", "once", "plans", "runs_after_gap", "walls", "zone")

    def __init__(self, walls: Walls, zone: Zone, runs_after_gap: bool, once: bool) -> None:
        self.walls = walls
        self.zone = zone
        self.runs_after_gap = runs_after_gap
        self.once = once
        self.first = (walls.times.first // 3600, walls.times.first // 60 % 60, walls.times.first % 60)
        self.plans: dict[int, Plan] = {}

    def runs_at_start(self, changes: Changes, i: int) -> bool:
        """Whether entry i begins after a gap whose walls, if any are named, run when it ends."""
        return (
            self.runs_after_gap
            and 0 < changes.starts[i] + changes.offsets[i] - changes.floors[i] <= _LONGEST_GAP
        )

    def plan(self, number: int) -> Plan:
        """The plan of month `number` (year * 12 + month), kept in `plans`."""
        year, month = divmod(number - _FIRST_MONTH, 12)
        if not 0 <= year < _YEARS:
            return 0, -1, None
        dates, changes = self.walls.dates, self.zone.changes
        after = None
        later = dates.after_month(year, month)
        if later is not None:
            there = later[0] * 12 + later[1] + _FIRST_MONTH
            if there >= changes.even_until:
                changes = self.zone.covering((there - _FIRST_MONTH + 2) * 31 * DAY)
            if not changes.uneven_months.get(there, 0) >> later[2] & 1:
                hour, minute, second = self.first
                after = datetime(
                    later[0] + FIRST_YEAR, later[1] + 1, later[2], hour, minute, second, 0, self.zone.tz
                )  # fmt: skip
        if number >= changes.even_until:
            changes = self.zone.covering((number - _FIRST_MONTH + 2) * 31 * DAY)
        plan = self.plans[number] = (
            dates.year(year).months[month],
            changes.uneven_months.get(number, 0),
            after,
        )
        return plan

    def after(self, instant: int) -> int | None:
        """The first slot that is not before `instant`."""
        if instant < 0:
            instant = 0
        if instant > HORIZON:
            return None
        changes = self.zone.covering(instant)
        i = bisect_right(changes.starts, instant) - 1
        wall = instant + changes.offsets[i]
        if wall // DAY not in changes.uneven:
            # On days that no change touches each wall is one instant, and walls lead to the next slot.
            found = self.walls.after(wall)
            if found is None:
                return None
            changes = self.zone.covering(found)
            if found // DAY not in changes.uneven:
                return found - changes.offsets[bisect_right(changes.floors, found) - 1]
        return self._after_once(instant) if self.once else self._after_each(instant)

    def _after_once(self, instant: int) -> int | None:
        changes = self.zone.covering(instant)
        i = bisect_right(changes.starts, instant) - 1
        floor = changes.floors[i]
        # At the very start of an entry the walls of the gap before it are still to come.
        wall = floor if instant == changes.starts[i] else max(instant + changes.offsets[i], floor)
        while True:
            found = self.walls.after(wall)
            if found is None:
                return None
            changes = self.zone.covering(found)
            i = bisect_right(changes.floors, found) - 1
            landing = changes.starts[i] + changes.offsets[i]
            if found >= landing:
                return found - changes.offsets[i]
            if self.runs_at_start(changes, i):
                return changes.starts[i]
            wall = landing

    def _after_each(self, instant: int) -> int | None:
        changes = self.zone.covering(instant)
        i = bisect_right(changes.starts, instant) - 1
        wall = self._entry(changes, i) if instant == changes.starts[i] else instant + changes.offsets[i]
        found = self.walls.after(wall)
        while found is not None:
            changes = self.zone.covering(found)
            start, offset = changes.starts[i], changes.offsets[i]
            if found < start + offset:
                return start
            if i + 1 == len(changes.starts) or found - offset < changes.starts[i + 1]:
                return found - offset
            i += 1
            entry = self._entry(changes, i)
            if entry < wall or found < entry:  # walls that come again; or one that fell into a gap
                found = self.walls.after(entry)
            wall = entry
        return None

    def _entry(self, changes: Changes, i: int) -> int:
        """The first wall that matters to entry i: of the gap before it where that runs, else its own."""
        return changes.floors[i] if self.runs_at_start(changes, i) else changes.starts[i] + changes.offsets[i]

    def before(self, instant: int) -> int | None:
        """The last slot that is not after `instant`."""
        if instant < 0:
            return None
        instant = min(instant, HORIZON)
        slot = self._before_once(instant) if self.once else self._before_each(instant)
        return None if slot is None or slot < 0 else slot

    def _before_once(self, instant: int) -> int | None:
        changes = self.zone.covering(instant)
        i = bisect_right(changes.starts, instant) - 1
        wall = max(instant + changes.offsets[i], changes.floors[i] - 1)
        while (found := self.walls.before(wall)) is not None:
            i = max(bisect_right(changes.floors, found) - 1, 0)
            if found >= changes.starts[i] + changes.offsets[i]:
                return found - changes.offsets[i]
            if self.runs_at_start(changes, i):
                return changes.starts[i]
            wall = changes.floors[i] - 1
        return None

    def _before_each(self, instant: int) -> int | None:
        changes = self.zone.covering(instant)
        i = bisect_right(changes.starts, instant) - 1
        wall = instant + changes.offsets[i]
        found = self.walls.before(wall)
        while found is not None:
            start = changes.starts[i]
            if found >= start + changes.offsets[i]:
                return found - changes.offsets[i]
            if self.runs_at_start(changes, i) and found >= changes.floors[i]:
                return start
            i -= 1
            if i < 0:
                return None
            end = start - 1 + changes.offsets[i]
            if end > wall or found > end:
                found = self.walls.before(end)
            wall = end
        return None

    def count(self, first: int, last: int, limit: int) -> int:
        """How many slots lie in `first`..`last`, both included; limit + 1 when there are more."""
        first, last = max(first, 0), min(last, HORIZON)
        if first > last:
            return 0
        changes = self.zone.covering(last)
        total = 0
        for i in range(bisect_right(changes.starts, first) - 1, bisect_right(changes.starts, last)):
            start, offset = changes.starts[i], changes.offsets[i]
            end = changes.starts[i + 1] - 1 if i + 1 < len(changes.starts) else last
            low, high = max(first, start) + offset, min(last, end) + offset
            if self.once:
                low = max(low, changes.floors[i])
            total += self.walls.count(low, high)
            if first <= start and self.runs_at_start(changes, i):
                # The gap's walls are one slot, and none of their own where the instant after it is named too.
                missed = self.walls.after(changes.floors[i])
                total += missed is not None and missed < start + offset != self.walls.after(start + offset)
            if total > limit:
                return limit + 1
        return total
