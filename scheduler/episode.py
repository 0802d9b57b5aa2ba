"""Trouble as the log tells it: when it begins, ever more rarely while it lasts, and how long it was when it is over.

Two hours without a database are a page of log and no disk full of it (field-bugs B74), and every line says for how long.
"""

from .clock import Clock

_GAPS = (10.0, 1800.0)
"""Seconds between the first line and the second, and at most; each gap is three times the one before."""
_CALM = 60.0
"""Trouble that comes back within a minute is told no more often than trouble that stayed."""


class Episode:
    """One source of trouble. Used by one thread."""

    __slots__ = ("_clock", "_ended", "_gap", "_next", "_since", "_told", "failures")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None
        self._ended = self._next = float("-inf")
        self._gap = 0.0
        self._told = False
        self.failures = 0
        """So many times in a row by now."""

    def fails(self) -> float | None:
        """It failed, perhaps again; answers for how many seconds by now, where that is worth a line."""
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now
            if now - self._ended >= _CALM:
                self._gap, self._next = 0.0, now
        self.failures += 1
        if now < self._next:
            return None
        self._gap = min(max(_GAPS[0], self._gap * 3), _GAPS[1])
        self._next = now + self._gap
        self._told = True
        return now - self._since

    def over(self) -> float | None:
        """It works; answers how many seconds it did not, where the log was told of that."""
        if self._since is None:
            return None
        now = self._clock.monotonic()
        lasted, told = now - self._since, self._told
        self._since, self._ended, self._told, self.failures = None, now, False, 0
        return lasted if told else None
