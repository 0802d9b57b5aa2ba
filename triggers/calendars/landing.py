"""Where a left-out slot rolls to, and how long the slots around it do the same: what is dense is walked in stretches."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from ..instant import SECOND
from ..zone import DAY, Zone
from .calendar import Calendar

FARTHEST = 62
"""Days that a slot rolls at most; one that finds no day within them is left out."""
FOR_GOOD = 10_000 * 366 * DAY * SECOND
"""µs: so far reaches what never changes again."""
_DAY = DAY * SECOND


class Landing(NamedTuple):
    """`there`: None where no day is found. Instants up to `like` µs further on lie in one stretch with this one: they move
    by as much as it does, or find no day either."""

    there: int | None
    like: int


@dataclass(frozen=True, slots=True)
class Roll:
    """Slots that `calendar` leaves out go to the same wall time of another day of `zone`. `way`: 1 to later days, or -1."""

    calendar: Calendar
    zone: Zone
    way: int

    def landing(self, slot: int) -> int | None:
        """Where a slot of the schedule goes: it stays, rolls, or (None) finds no day."""
        path = self._path(slot)
        return path[-1] if path else None

    def of(self, slot: int, side: int) -> Landing:
        """The landing of a slot, and how far those after it (`side` 1) or before it (-1) do the same."""
        path = self._path(slot)
        if not path:
            stays = self._stays(slot, side)
            return Landing(None, stays if stays == FOR_GOOD else max(stays - (FARTHEST + 2) * _DAY, 0))
        like = min(self._offset_stays(each, side) for each in path)
        if like and self._in_gap(slot, path):
            return Landing(path[-1], 0)
        return Landing(
            path[-1], min(like, self._stays(path[-1], side), self._left_out_stays(path[:-1], side))
        )

    def _path(self, slot: int) -> list[int]:
        """The slot, and each day's instant that it is tried at, up to the one that is not left out; empty for none."""
        path = [slot]
        if not self.calendar.excludes(slot):
            return path
        second, rest = divmod(slot, SECOND)
        wall = self.zone.wall_at(second)
        for days in range(1, FARTHEST + 1):
            there = self.zone.second_of(wall + self.way * days * DAY) * SECOND + rest
            path.append(there)
            if not self.calendar.excludes(there):
                return path
        return []

    def _in_gap(self, slot: int, path: list[int]) -> bool:
        """Whether a day of the path has no such wall time: what goes there does not move as its slots do."""
        wall = self.zone.wall_at(slot // SECOND)
        return any(
            self.zone.wall_at(each // SECOND) != wall + self.way * days * DAY
            for days, each in enumerate(path)
        )

    def _left_out_stays(self, path: list[int], side: int) -> int:
        """How far all of these stay left out: at once, where one stretch holds them all."""
        if not path:
            return FOR_GOOD
        first, last = min(path[0], path[-1]), max(path[0], path[-1])
        whole = self._stays(first if side > 0 else last, side) - (last - first)
        return whole if whole >= 0 else min(self._stays(each, side) for each in path)

    def _stays(self, instant: int, side: int) -> int:
        """How far from an instant on (or back) the calendar's answer is the same."""
        if side > 0:
            end = self.calendar.changes_after(instant)
            return FOR_GOOD if end is None else end - 1 - instant
        begin = self.calendar.changes_before(instant)
        return FOR_GOOD if begin is None else instant - begin

    def _offset_stays(self, instant: int, side: int) -> int:
        second = instant // SECOND
        starts = self.zone.covering(second + 2 * DAY).starts
        at = bisect_right(starts, second)
        if side < 0:
            return instant - starts[at - 1] * SECOND
        # What is not known yet is asked for by a later step: a stretch of a day is long enough.
        return starts[at] * SECOND - 1 - instant if at < len(starts) else _DAY
