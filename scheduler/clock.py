"""Time comes in here and nowhere else: the wall's hand, the monotonic one, and the only way to wait."""

import time
from typing import Protocol


class Waitable(Protocol):
    """What can be waited for: a `threading.Event`, or a `threading.Condition` whose lock is held."""

    def wait(self, timeout: float | None = None) -> bool: ...


class Clock(Protocol):
    """The time of one node. What is compared between nodes comes from the store's clock, never from here."""

    def wall(self) -> int:
        """The host's wall clock, in microseconds since the epoch; it may step back or forth at any time."""
        ...

    def monotonic(self) -> float:
        """Seconds from an unknown start; never goes back, and runs on while the machine sleeps, where it can tell."""
        ...

    def wait(self, waitable: Waitable, timeout: float | None) -> bool:
        """Wait until `waitable` is set or notified, or `timeout` monotonic seconds passed (None: for ever).

        Answers what the waitable answers: False when the time passed first.
        """
        ...


_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds since this machine started, those included in which it slept: the time of kernel timers.

    It is the same for all processes here. Where the system has no such clock it is the monotonic one.
    """
    return time.clock_gettime(_BOOTTIME)


class SystemClock:
    """The clock of this machine."""

    __slots__ = ()

    def wall(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        # Not CLOCK_MONOTONIC, which stands still while the machine sleeps: a lease does not, and a node that wakes up must
        # not believe in one that others have seen to end.
        return time.clock_gettime(_BOOTTIME)

    def wait(self, waitable: Waitable, timeout: float | None) -> bool:
        if timeout is None:
            return waitable.wait()
        # threading refuses waits longer than TIMEOUT_MAX; a negative one would wait for ever on some locks
        return waitable.wait(min(max(timeout, 0.0), 3600.0 * 24))
