"""A schedule whose left-out slots roll to the next, or the previous, day that is not left out: the same time of that day.

What rolls is a set of instants: slots that meet at one are one slot.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ScheduleError
from ..instant import SECOND
from ..schedule import COUNT_LIMIT, Moments, Schedule
from ..zone import DAY, Zone
from .calendar import Calendar
from .compiling import Named, names_of
from .left_out import LeftOut, endless, slots_between, spoken

FARTHEST = 62
"""Days that a slot rolls at most; one that finds no day within them is left out."""
_STEPS = 50_000


@dataclass(frozen=True, slots=True)
class Rolling(Moments):
    """The slots of `inner`; those that `calendar` leaves out at their wall time on another day of `zone`. `way`: 1 or -1."""

    inner: Schedule
    calendar: Calendar
    named: Sequence[Named]
    zone: Zone
    way: int

    def landing(self, slot: int) -> int | None:
        """Where a slot of the schedule goes: it stays, rolls, or (None) finds no day."""
        if not self.calendar.excludes(slot):
            return slot
        second, rest = divmod(slot, SECOND)
        wall = self.zone.wall_at(second)
        for days in range(1, FARTHEST + 1):
            there = self.zone.second_of(wall + self.way * days * DAY) * SECOND + rest
            if not self.calendar.excludes(there):
                return there
        return None

    def slot_after(self, instant: int) -> int | None:
        # Slots roll over left-out days only. So what lands behind `instant` comes, at the earliest, from the left-out days
        # before its own (those that roll on), and nothing that comes from later days lands before a day that was reached.
        start = self._begin(self._edge(self._day(instant), -1)) if self.way > 0 else instant + 1
        best: int | None = None
        slot = self.inner.slot_after(start - 1)
        for _ in range(_STEPS):
            if slot is None or (best is not None and self._is_behind(slot, best)):
                return best
            there = self.landing(slot)
            if there is not None and there > instant and (best is None or there < best):
                best = there
            slot = self.inner.slot_after(slot)
        raise ScheduleError(endless(self.inner, self.named))

    def latest_before(self, instant: int) -> int | None:
        # The same from behind.
        start = instant if self.way > 0 else self._begin(self._edge(self._day(instant), 1) + 1) - 1
        best: int | None = None
        slot = self.inner.latest_before(start)
        for _ in range(_STEPS):
            if slot is None or (best is not None and self._is_before(slot, best)):
                return best
            there = self.landing(slot)
            if there is not None and there <= instant and (best is None or there > best):
                best = there
            slot = self.inner.latest_before(slot - 1)
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
        found: set[int] = set()
        for slot in slots_between(self.inner, *self._sources(first, last)):
            there = self.landing(slot)
            if there is not None and first <= there <= last:
                found.add(there)
                if len(found) > COUNT_LIMIT:
                    break
        return len(found)

    def _sources(self, first: int, last: int) -> tuple[int, int]:
        """The span whose slots can land in `first`..`last`."""
        if self.way > 0:
            return self._begin(self._edge(self._day(first), -1)), last
        return first, self._begin(self._edge(self._day(last), 1) + 1) - 1

    def notes(self, slot: int) -> str | None:
        """Where a slot has rolled from, and what a change of offset does to one that has not."""
        rolled = [
            each
            for each in slots_between(self.inner, *self._sources(slot, slot))
            if each != slot and self.landing(each) == slot
        ]
        if rolled:
            walls = {self._day(each) * DAY for each in rolled}
            return f"rolled from {', '.join(_date(wall) for wall in sorted(walls))}"
        inner = getattr(self.inner, "notes", None)
        said: str | None = inner(slot) if callable(inner) else None
        return said

    def left_out(self, first: int, last: int, limit: int = 1000) -> list[LeftOut]:
        """At most `limit` slots of `first`..`last` that are left out, by which calendars, and where they went."""
        found: list[LeftOut] = []
        for slot in slots_between(self.inner, first, last):
            if self.calendar.excludes(slot):
                found.append(LeftOut(slot, tuple(names_of(self.named, slot)), self.landing(slot)))
                if len(found) >= limit:
                    break
        return found

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
