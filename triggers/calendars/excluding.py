"""A schedule without what its calendars leave out: a slot there does not exist, or moves to a day that is not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import DefinitionError, ScheduleError
from ..schedule import COUNT_LIMIT, Moments, Schedule
from ..zone import find_zone
from .calendar import Calendar, Together
from .compiling import Named, compile_calendars, names_of
from .left_out import LeftOut, endless, slots_between, spoken

SKIP = "skip"
ON_EXCLUDED = (SKIP, "next", "previous")
_STEPS = 20_000
"""Stretches of left-out time that one search goes over: more are refused, not followed for ever."""
_FEW = 1000
"""So few slots are looked at one by one when they are counted; of more, the time between the calendars' edges is."""


def exclude(
    schedule: Schedule, calendars: Mapping[str, Mapping[str, Any]], on_excluded: str, time_zone: str
) -> Schedule:
    """`schedule` outside `calendars` ({name: spec}); their zone is `time_zone` where they name none.

    Raises ScheduleError, ZoneError or DefinitionError for calendars that cannot be read or used so.
    """
    named = compile_calendars(calendars, time_zone)
    calendar = named[0].calendar if len(named) == 1 else Together(tuple(each.calendar for each in named))
    excluding = Excluding(schedule, calendar, named)
    if on_excluded == SKIP:
        return excluding
    if on_excluded not in ON_EXCLUDED:
        raise DefinitionError(f"on_excluded {on_excluded!r} is not one of {', '.join(ON_EXCLUDED)}")
    if hours := [each.name for each in named if not each.of_days]:
        raise ScheduleError(
            f"on_excluded: {on_excluded} moves a slot to another day, and calendar {hours[0]!r} leaves out hours;"
            " write skip, or exclude whole days"
        )
    from .rolling import Rolling

    way = 1 if on_excluded == "next" else -1
    return Rolling(schedule, calendar, named, find_zone(time_zone), way, excluding)


@dataclass(frozen=True, slots=True)
class Excluding(Moments):
    """The slots of `inner` at which `calendar` leaves nothing out."""

    inner: Schedule
    calendar: Calendar
    named: Sequence[Named]

    def slot_after(self, instant: int) -> int | None:
        for _ in range(_STEPS):
            slot = self.inner.slot_after(instant)
            if slot is None or not self.calendar.excludes(slot):
                return slot
            end = self.calendar.changes_after(slot)
            if end is None:
                return None
            instant = end - 1
        raise ScheduleError(endless(self.inner, self.named))

    def latest_before(self, instant: int) -> int | None:
        for _ in range(_STEPS):
            slot = self.inner.latest_before(instant)
            if slot is None or not self.calendar.excludes(slot):
                return slot
            begin = self.calendar.changes_before(slot)
            if begin is None:
                return None
            instant = begin - 1
        raise ScheduleError(endless(self.inner, self.named))

    def count_between(self, first: int, last: int) -> int:
        """How many slots lie in `first`..`last`, both included; never more than COUNT_LIMIT + 1."""
        if self.inner.count_between(first, last) <= _FEW:
            return sum(not self.calendar.excludes(slot) for slot in slots_between(self.inner, first, last))
        total, at, steps = 0, first, 0
        while at <= last and total <= COUNT_LIMIT and steps < COUNT_LIMIT:
            end = self.calendar.changes_after(at)
            until = last if end is None else min(end - 1, last)
            if not self.calendar.excludes(at):
                total += self.inner.count_between(at, until)
            at, steps = until + 1, steps + 1
        return min(total, COUNT_LIMIT + 1)

    def left_out(self, first: int, last: int, limit: int = 1000) -> list[LeftOut]:
        """At most `limit` slots of `first`..`last` that are left out, and by which calendars."""
        found: list[LeftOut] = []
        slot = self.inner.slot_after(first - 1)
        while slot is not None and slot <= last and len(found) < limit:
            if self.calendar.excludes(slot):
                found.append(LeftOut(slot, tuple(names_of(self.named, slot)), None))
            else:  # over what is not left out in one step
                end = self.calendar.changes_after(slot)
                if end is None:
                    break
                slot = end - 1
            slot = self.inner.slot_after(slot)
        return found

    def words(self) -> str:
        return f"{self.inner.words()}, except in {spoken(self.named)}"

    def __str__(self) -> str:
        return str(self.inner)
