"""For tests of jobs and of the house itself: a clock that moves only when it is told to."""

import threading

from .clock import Waitable

_LOOK = 0.002
"""How often, in real seconds, a manual wait looks whether the clock has been moved."""


class ManualClock:
    """A clock whose two hands are moved by the test, each alone; waits end by the monotonic one."""

    def __init__(self, wall: int = 1_704_844_800_000_000, monotonic: float = 1000.0) -> None:
        self._lock = threading.Lock()
        self._wall = wall
        self._monotonic = monotonic
        self._waiting = 0

    def wall(self) -> int:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def wait(self, waitable: Waitable, timeout: float | None) -> bool:
        """As every clock waits; the time-out passes by `advance` alone."""
        until = None if timeout is None else self._monotonic + timeout
        self._count(+1)
        try:
            while until is None or self._monotonic < until:
                if waitable.wait(_LOOK):
                    return True
            return waitable.wait(0)
        finally:
            self._count(-1)

    @property
    def waiting(self) -> int:
        """How many threads wait on this clock now."""
        return self._waiting

    def advance(self, seconds: float) -> None:
        """Move both hands forward, as time does."""
        with self._lock:
            self._monotonic += seconds
            self._wall += round(seconds * 1_000_000)

    def set_wall(self, wall: int) -> None:
        """Step the wall clock alone, as an operator or NTP does."""
        with self._lock:
            self._wall = wall

    def advance_monotonic(self, seconds: float) -> None:
        """Move the monotonic hand alone, as if the wall clock had been set back by as much."""
        with self._lock:
            self._monotonic += seconds

    def _count(self, change: int) -> None:
        with self._lock:
            self._waiting += change
