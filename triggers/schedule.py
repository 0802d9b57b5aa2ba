"""What every schedule can do, and the bounds (`start_at`, `end_at`) that any of them can be given."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from .instant import from_instant, to_instant

COUNT_LIMIT = 100_000
"""Counting stops here: a greater count is said as a lower bound (DESIGN §7), so that work stays bounded."""


@runtime_checkable
class Schedule(Protocol):
    """Pure time arithmetic: which instants (microseconds since the epoch) are slots. Stateless; bounded work per call."""

    def slot_after(self, instant: int) -> int | None:
        """The first slot strictly after `instant`; None when there is none any more."""

    def latest_before(self, instant: int) -> int | None:
        """The last slot *not after* `instant`; None when there is none."""

    def count_between(self, first: int, last: int) -> int:
        """How many slots lie in `first`..`last`, both included; never more than COUNT_LIMIT + 1."""

    def words(self) -> str:
        """The schedule in plain words, with weekday names."""

    def __str__(self) -> str:
        """The schedule as its author wrote it, for lists: `15 2 * * *`, `every 10s`."""


class Moments:
    """The datetime face that every concrete schedule inherits: aware in, aware out."""

    __slots__ = ()

    def slot_after(self, instant: int) -> int | None:
        raise NotImplementedError

    def next_after(self, moment: datetime) -> datetime | None:
        """The first slot strictly after the aware `moment`, in UTC; None when there is none any more.

        Raises TriggerError for a naive `moment`.
        """
        slot = self.slot_after(to_instant(moment))
        return None if slot is None else from_instant(slot)


def innermost(schedule: Schedule) -> Schedule:
    """What was said of *when*, without the bounds, calendars and splay around it."""
    while (inner := getattr(schedule, "inner", None)) is not None:
        schedule = inner
    return schedule


def note_on(schedule: Schedule, slot: int) -> str | None:
    """What a change of offset (or a calendar) does at `slot`, in words for previews; None on an ordinary slot."""
    while True:
        notes = getattr(schedule, "notes", None)
        if callable(notes):
            found: str | None = notes(slot)
            return found
        inner = getattr(schedule, "inner", None)
        if inner is None:
            return None
        schedule = inner


@dataclass(frozen=True, slots=True)
class Bounded(Moments):
    """A schedule within `start_at` and `end_at`, both inclusive (instants, or None)."""

    inner: Schedule
    start_at: int | None = None
    end_at: int | None = None

    def slot_after(self, instant: int) -> int | None:
        if self.start_at is not None and instant < self.start_at:
            instant = self.start_at - 1
        slot = self.inner.slot_after(instant)
        return None if slot is None or (self.end_at is not None and slot > self.end_at) else slot

    def latest_before(self, instant: int) -> int | None:
        if self.end_at is not None and instant > self.end_at:
            instant = self.end_at
        slot = self.inner.latest_before(instant)
        return None if slot is None or (self.start_at is not None and slot < self.start_at) else slot

    def count_between(self, first: int, last: int) -> int:
        if self.start_at is not None:
            first = max(first, self.start_at)
        if self.end_at is not None:
            last = min(last, self.end_at)
        return self.inner.count_between(first, last) if first <= last else 0

    def words(self) -> str:
        return self.inner.words()

    def __str__(self) -> str:
        return str(self.inner)
