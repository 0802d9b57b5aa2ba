"""Delay: a slot so much after the end of the run before; when that is, only whoever writes the end knows."""

from dataclasses import dataclass

from .duration import format_duration, parse_duration
from .errors import ScheduleError
from .schedule import Moments


@dataclass(frozen=True, slots=True, init=False)
class Delay(Moments):
    """One slot at a time: `duration` (µs once built) after an end; the first at `first`, or so long after its declaration.

    Not pure in the way of other schedules: it is asked when something has ended (or never will), and only for what follows.
    """

    duration: int
    first: int | None

    def __init__(self, duration: str | int, first: int | None = None) -> None:
        micros = parse_duration(duration) if isinstance(duration, str) else duration
        if micros <= 0:
            raise ScheduleError(f"delay: it must be greater than zero, and {micros} µs is not")
        object.__setattr__(self, "duration", micros)
        object.__setattr__(self, "first", first)

    def slot_after(self, instant: int) -> int:
        """The slot that follows an end at `instant`."""
        if self.first is not None and instant < self.first:
            return self.first
        return instant + self.duration

    def latest_before(self, instant: int) -> int | None:  # noqa: ARG002
        """None: what has passed is in the ledger only."""
        return None

    def count_between(self, first: int, last: int) -> int:  # noqa: ARG002
        """0: between two ends there is no slot but the one that waits."""
        return 0

    def notes(self, slot: int) -> str | None:
        """That a preview is a guess."""
        return None if slot == self.first else "at the earliest: it counts from the end of the run before"

    def words(self) -> str:
        """The schedule in plain words."""
        return f"{format_duration(self.duration)} after the end of the run before"

    def __str__(self) -> str:
        return f"delay {format_duration(self.duration)}"
