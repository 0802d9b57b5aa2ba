"""Recurrence: an RFC 5545 rule (`RRULE`), as calendars have them, by python-dateutil and our zone rule."""

from datetime import datetime
from functools import lru_cache
from typing import Unpack
from zoneinfo import ZoneInfo

from .errors import ScheduleError
from .instant import to_instant
from .recurrence_text import FREQUENCIES, Recurring, read_recurring
from .recurrence_walls import walls_of
from .trigger_text import recurrence_text
from .wall_schedule import Dst, WallSchedule, start_in, wall_slots, zone_name
from .wall_slots import Slots
from .zone import find_zone


class Recurrence(WallSchedule):
    """The slots of a rule such as `FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=18`, or of its lines RRULE, RDATE, EXDATE, DTSTART.

    The rule counts local times from DTSTART: that line, else `start_at` (aware, or microseconds since the epoch), else
    1970-01-01T00:00, which is no slot unless the rule names it. One that repeats by hours, minutes or seconds follows the
    clock around a change of offset, whatever `gap` and `overlap` say. Raises ScheduleError or ZoneError.
    """

    __slots__ = ("_start", "_until", "follows_clock", "gap", "overlap", "recurring", "start_at", "text")

    def __init__(
        self,
        text: str,
        time_zone: str | ZoneInfo = "UTC",
        start_at: datetime | int | None = None,
        **dst: Unpack[Dst],
    ) -> None:
        self.text, self.time_zone = text, zone_name(time_zone)
        self.gap, self.overlap = dst.get("gap", "run_after"), dst.get("overlap", "once")
        self.start_at = to_instant(start_at) if isinstance(start_at, datetime) else start_at
        start = start_in(find_zone(self.time_zone), start_at)
        self._start = None if start is None else start.wall
        compiled = _compiled(text, self.time_zone, self._start, self.gap, self.overlap)
        self.recurring, self._slots = compiled
        self._until = self.recurring.until
        self.follows_clock = _follows_clock(self.recurring)

    @property
    def said(self) -> dict[str, object]:
        """What a definition's `schedule` holds of it."""
        return {"rrule": self.text}

    def slot_after(self, instant: int) -> int | None:
        """The first slot strictly after `instant` (microseconds since the epoch); None when there is none."""
        slot = super().slot_after(instant)
        return None if slot is None or (self._until is not None and slot > self._until) else slot

    def latest_before(self, instant: int) -> int | None:
        """The last slot *not after* `instant`; None when there is none."""
        return super().latest_before(instant if self._until is None else min(instant, self._until))

    def count_between(self, first: int, last: int) -> int:
        """How many slots lie in `first`..`last`, both included; never more than COUNT_LIMIT + 1."""
        return super().count_between(first, last if self._until is None else min(last, self._until))

    def words(self) -> str:
        """The schedule in plain words."""
        from .recurrence_words import recurrence_words

        return recurrence_words(self.recurring, self._slots.walls.after(0) or 0)

    def _identity(self) -> tuple[object, ...]:
        return (self.text, self.time_zone, self._start, self._slots.runs_after_gap, self._slots.once)

    def __str__(self) -> str:
        return recurrence_text(self.text)


def _follows_clock(recurring: Recurring) -> bool:
    return FREQUENCIES.index(recurring.freq) >= FREQUENCIES.index("HOURLY")


@lru_cache(maxsize=1024)
def _compiled(text: str, zone: str, start: int | None, gap: str, overlap: str) -> tuple[Recurring, Slots]:
    recurring = read_recurring(text, find_zone(zone))
    begin = recurring.start if recurring.start is not None else start
    if begin is None and recurring.count is not None:
        raise ScheduleError(
            "rrule: COUNT counts from a beginning, and there is none; add start_at, or a line DTSTART"
        )
    slots = wall_slots(walls_of(recurring, begin or 0), zone, gap, overlap)
    if _follows_clock(recurring):
        slots = Slots(slots.walls, slots.zone, runs_after_gap=False, once=False)
    first = slots.after(0)
    if first is None:
        raise ScheduleError(
            "rrule: no date from its beginning to its end matches, so it can never fire; correct it"
        )
    return recurring, slots
