"""A schedule whose left-out slots roll to the next, or the previous, day that is not left out: the same time of that day.

What rolls is a set of instants: slots that meet at one are one slot.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ..errors import ScheduleError
from ..instant import SECOND
from ..schedule import COUNT_LIMIT, Moments, Schedule
from ..zone import DAY, Zone
from .calendar import Calendar
from .compiling import Named, names_of
from .landing import FARTHEST, FOR_GOOD, Roll
from .left_out import LeftOut, endless, slots_between, spoken

_FEW = 200
"""So few slots are counted one by one."""
_STEPS = 20_000
"""Stretches that one search goes over: more are refused, not followed for ever."""


@dataclass(frozen=True, slots=True)
class Rolling(Moments):
    """The slots of `inner`; those that `calendar` leaves out at their wall time on another day of `zone`. `way`: 1 or -1."""

    inner: Schedule
    calendar: Calendar
    named: Sequence[Named]
    zone: Zone
    way: int
    unmoved: Schedule
    """The slots of `inner` that no calendar leaves out."""

    @property
    def _roll(self) -> Roll:
        return Roll(self.calendar, self.zone, self.way)

    def landing(self, slot: int) -> int | None:
        """Where a slot of the schedule goes: it stays, rolls, or (None) finds no day."""
        return self._roll.landing(slot)

    def slot_after(self, instant: int) -> int | None:
        # Slots roll over left-out days only. So what lands behind `instant` comes, at the earliest, from the left-out days
        # before its own (those that roll on), and nothing that comes from later days lands before a day that was reached.
        start = self._begin(self._edge(self._day(instant), -1)) if self.way > 0 else instant + 1
        roll, best = self._roll, None
        slot = self.inner.slot_after(start - 1)
        for _ in range(_STEPS):
            if slot is None or (best is not None and self._is_behind(slot, best)):
                return best
            there, like = roll.of(slot, 1)
            if like >= FOR_GOOD:
                return best
            if there is not None and there > instant:  # those of its stretch land behind it
                best = there if best is None else min(best, there)
            elif there is not None:  # on to the first of its stretch that can land behind the instant
                like = min(like, instant - there)
            slot = self.inner.slot_after(slot + like)
        raise ScheduleError(endless(self.inner, self.named))

    def latest_before(self, instant: int) -> int | None:
        # The same from behind.
        start = instant if self.way > 0 else self._begin(self._edge(self._day(instant), 1) + 1) - 1
        roll, best = self._roll, None
        slot = self.inner.latest_before(start)
        for _ in range(_STEPS):
            if slot is None or (best is not None and self._is_before(slot, best)):
                return best
            there, like = roll.of(slot, -1)
            if like >= FOR_GOOD:
                return best
            if there is not None and there <= instant:
                best = there if best is None else max(best, there)
            elif there is not None:
                like = min(like, there - instant - 1)
            slot = self.inner.latest_before(slot - like - 1)
        raise ScheduleError(endless(self.inner, self.named))

    def _is_behind(self, slot: int, best: int) -> bool:
        """Whether neither `slot` nor any later one can land before `best`."""
        day = self._day(best)
        return self._day(slot) > (day if self.way > 0 else self._edge(day, 1))

    def _is_before(self, slot: int, best: int) -> bool:
        """Whether neither `slot` nor any earlier one can land behind `best`."""
        day = self._day(best)
        return self._day(slot) < (self._edge(day, -1) if self.way > 0 else day)

    def count_between(self, first: int, last: int) -> int:
        """How many slots lie in `first`..`last`, both included; never more than COUNT_LIMIT + 1."""
        if first > last:
            return 0
        few = list(islice(slots_between(self, first, last), _FEW + 1))
        if len(few) <= _FEW:
            return len(few)
        total = self.unmoved.count_between(first, last)
        found: set[int] = set()  # of what rolled: where nothing was before
        for slot in islice(self._left_out_between(*self._sources(first, last)), COUNT_LIMIT):
            if total + len(found) > COUNT_LIMIT:
                break
            there = self.landing(slot)
            if there is not None and first <= there <= last and self.inner.latest_before(there) != there:
                found.add(there)
        return min(total + len(found), COUNT_LIMIT + 1)

    def _left_out_between(self, first: int, last: int) -> Iterator[int]:
        """Each left-out slot of the schedule from `first` to `last`; what is not left out is gone over in one step."""
        slot = self.inner.slot_after(first - 1)
        while slot is not None and slot <= last:
            if self.calendar.excludes(slot):
                yield slot
            elif (end := self.calendar.changes_after(slot)) is None:
                return
            else:
                slot = end - 1
            slot = self.inner.slot_after(slot)

    def _sources(self, first: int, last: int) -> tuple[int, int]:
        """The span whose slots can land in `first`..`last`."""
        if self.way > 0:
            return self._begin(self._edge(self._day(first), -1)), last
        return first, self._begin(self._edge(self._day(last), 1) + 1) - 1

    def notes(self, slot: int) -> str | None:
        """Where a slot has rolled from, and what a change of offset does to one that has not."""
        rolled = list(islice(self._rolled_to(slot), _FEW))
        if rolled:
            walls = {self._day(each) * DAY for each in rolled}
            return f"rolled from {', '.join(_date(wall) for wall in sorted(walls))}"
        inner = getattr(self.inner, "notes", None)
        said: str | None = inner(slot) if callable(inner) else None
        return said

    def _rolled_to(self, target: int) -> Iterator[int]:
        """The slots of the schedule that land there and were not there."""
        first, last = self._sources(target, target)
        roll, slot = self._roll, self.inner.slot_after(first - 1)
        while slot is not None and slot <= last:
            there, like = roll.of(slot, 1)
            if there == target:
                like = 0
                if slot != target:
                    yield slot
            elif there is not None and there < target:  # on to the one of its stretch that can land there
                like = min(like, target - there - 1)
            slot = self.inner.slot_after(slot + like)

    def left_out(self, first: int, last: int, limit: int = 1000) -> list[LeftOut]:
        """At most `limit` slots of `first`..`last` that are left out, by which calendars, and where they went."""
        found = islice(self._left_out_between(first, last), limit)
        return [LeftOut(slot, tuple(names_of(self.named, slot)), self.landing(slot)) for slot in found]

    def _day(self, instant: int) -> int:
        return self.zone.wall_at(instant // SECOND) // DAY

    def _begin(self, day: int) -> int:
        return self.zone.second_of(day * DAY) * SECOND

    def _edge(self, day: int, way: int) -> int:
        """The farthest day from `day` on that only (partly) left-out days lie between: what is beyond cannot roll to it."""
        edge = day
        while abs(edge - day) <= FARTHEST and not self._is_free(edge + way):
            edge += way
        return edge

    def _is_free(self, day: int) -> bool:
        """Whether nothing of the day is left out."""
        begin, end = self._begin(day), self._begin(day + 1)
        if self.calendar.excludes(begin):
            return begin >= end  # a day that the zone left out holds nobody up
        change = self.calendar.changes_after(begin)
        while change is not None and change < end and not self.calendar.excludes(change):
            change = self.calendar.changes_after(change)
        return change is None or change >= end

    def words(self) -> str:
        where = "the next day" if self.way > 0 else "the day before"
        return f"{self.inner.words()}, rolled to {where} outside {spoken(self.named)}"

    def __str__(self) -> str:
        return str(self.inner)


def _date(wall: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(wall, UTC):%a %d %b}"
