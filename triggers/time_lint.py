"""What is doubtful about the instants a schedule names: a change of clocks within a year, and crowds in one second."""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from .cron import Cron
from .declaration_fields import Wrong
from .declaration_jobs import complain, raw_at
from .declaration_triggers import Declared
from .errors import TriggerError
from .instant import DAY, HOUR, SECOND, from_instant, rfc3339
from .schedule import innermost
from .zone import find_zone

_AHEAD: Final = 366 * DAY
_AROUND: Final = 4 * HOUR
_MOST_SLOTS: Final = 50
"""So many slots around one change are looked at."""
CROWD: Final = 100
"""More triggers than this in one second are said to be a crowd."""


class TimeLint:
    """Looks over the triggers of one declaration at the instant `now`; equal schedules are looked at once."""

    def __init__(self, now: int) -> None:
        self.now = now
        self._notes: dict[Cron, tuple[str, ...]] = {}

    def trigger(self, declared: Declared) -> None:
        """Warn of a fixed time that a change of clocks moves, leaves out or repeats; what `dst` says is meant."""
        cron = innermost(declared.schedule)
        if not isinstance(cron, Cron) or cron.is_interval or "dst" in raw_at(declared.source, declared.path):
            return
        if cron not in self._notes:
            self._notes[cron] = tuple(_notes(cron, self.now))
        if notes := self._notes[cron]:
            message = f"{cron.time_zone} changes its clocks: {'; '.join(notes)}"
            hint = "choose another time, or write `dst` to say that this is meant"
            at = (next(iter(declared.definition.schedule)),)
            complain(declared.source, declared.path, Wrong("W010", message, hint, at))

    def crowds(self, triggers: Collection[Declared]) -> None:
        """Warn, at its first trigger, of the second that more than CROWD triggers have as their next."""
        if len(triggers) <= CROWD:
            return
        seconds: Counter[int] = Counter()
        first: dict[int, Declared] = {}
        for declared in triggers:
            if (slot := self._next(declared)) is not None:
                seconds[slot // SECOND] += 1
                first.setdefault(slot // SECOND, declared)
        for second, number in seconds.most_common(1):
            if number > CROWD:
                declared = first[second]
                message = f"{number} triggers are due in one second, {rfc3339(second * SECOND)}"
                hint = "spread them with `splay`, or with H in cron"
                at = (next(iter(declared.definition.schedule)),)
                complain(declared.source, declared.path, Wrong("W011", message, hint, at))

    def _next(self, declared: Declared) -> int | None:
        try:
            return declared.schedule.slot_after(self.now)
        except TriggerError:
            return None  # an error of its own


def _notes(cron: Cron, now: int) -> Iterator[str]:
    """`2027-03-28 02:30 does not exist on this day: …` of each slot within a year that a change of offset touches."""
    until = now + _AHEAD
    for start in find_zone(cron.time_zone).covering(until // SECOND).starts:
        change = start * SECOND
        if not now < change <= until:
            continue
        slot = cron.slot_after(change - _AROUND)
        for _ in range(_MOST_SLOTS):
            if slot is None or slot > change + _AROUND:
                break
            if (note := cron.notes(slot)) is not None:
                day = from_instant(slot).astimezone(find_zone(cron.time_zone).tz).date()
                yield f"{day} {note}"
                break
            slot = cron.slot_after(slot)
