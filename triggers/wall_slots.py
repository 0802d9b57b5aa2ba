"""The zone rule: how the walls (local times) that a schedule names become slots, around changes of offset too.

*Run after* a gap: walls that a gap of up to three hours skips become one slot at the first instant after it.
*Once*: a wall that comes twice is a slot the first time only; *twice*: each time.
"""

from bisect import bisect_right
from typing import Protocol

from .zone import DAY, HORIZON, Changes, Zone

_LONGEST_GAP = 3 * 3600  # a longer one is a day that a country left out: its fixed times are dropped with it


class Walls(Protocol):
    """Every wall second that a schedule names, on a calendar without zones; a wall is a second since 1970-01-01T00:00."""

    def after(self, wall: int) -> int | None:
        """The first named wall that is not before `wall`; None when there is none before the horizon."""

    def before(self, wall: int) -> int | None:
        """The last named wall that is not after `wall`; None when there is none from 1970 on."""

    def count(self, first: int, last: int) -> int:
        """How many named walls lie in `first`..`last`, both included; any number above COUNT_LIMIT where there are more."""


class Slots:
    """The slots of walls in a zone under one rule; an instant here is a second since the epoch, UTC, ≥ 0."""

    __slots__ = ("once", "runs_after_gap", "walls", "zone")

    def __init__(self, walls: Walls, zone: Zone, runs_after_gap: bool, once: bool) -> None:
        self.walls = walls
        self.zone = zone
        self.runs_after_gap = runs_after_gap
        self.once = once

    def runs_at_start(self, changes: Changes, i: int) -> bool:
        """Whether entry i begins after a gap whose walls, if any are named, run when it ends."""
        return (
            self.runs_after_gap
            and 0 < changes.starts[i] + changes.offsets[i] - changes.floors[i] <= _LONGEST_GAP
        )

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
        while True:
            if found is not None:
                changes = self.zone.covering(found)
                start, offset = changes.starts[i], changes.offsets[i]
                if found < start + offset:
                    return start
                if i + 1 == len(changes.starts) or found - offset < changes.starts[i + 1]:
                    return found - offset
            elif i + 1 == len(changes.starts):
                return None
            i += 1
            entry = self._entry(changes, i)
            if entry < wall or (found is not None and found < entry):
                found = self.walls.after(entry)  # walls that come again; or one that fell into a gap
            elif found is None:
                return None
            wall = entry

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
        while True:
            start = changes.starts[i]
            if found is not None and found >= start + changes.offsets[i]:
                return found - changes.offsets[i]
            if found is not None and self.runs_at_start(changes, i) and found >= changes.floors[i]:
                return start
            i -= 1
            if i < 0:
                return None
            end = start - 1 + changes.offsets[i]
            if end > wall or (found is not None and found > end):
                found = self.walls.before(end)
            elif found is None:
                return None
            wall = end

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
