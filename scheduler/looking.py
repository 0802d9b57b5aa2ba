"""One cheap look at what is due, by a guess of the database's time that each look puts right."""

from ..triggers.instant import SECOND
from .parts import Parts
from .store.take_rows import Look, Wanted, look

ON_TIME = SECOND
"""What became due less than this ago is on time: a backlog may not have all of the capacity."""
IDLE = 1.0
"""Seconds without a look, at most."""
_ROUNDING = 0.00025
"""On top of every wait: woken early by rounding, the look would find nothing and be made twice."""


class Looking:
    """One per node, for its planner."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._guessed = 0

    def look(self) -> Look:
        """How much is due, and when more will be."""
        parts = self._parts
        sent = parts.clock.monotonic()
        self._guessed = self.guess()
        # Counting serves the share: more than all live nodes could start makes no difference.
        most = 2 * parts.hand.capacity * parts.who.live_nodes
        seen = parts.store.read("look", lambda tx: look(tx, self._guessed, most))
        answered = parts.clock.monotonic()
        half = (answered - sent) / 2
        parts.who.offset = seen.now + int(half * SECOND) - parts.clock.wall()
        parts.who.hear_time(seen.now, sent, answered)
        return seen

    def guess(self) -> int:
        """The database's time now."""
        return self._parts.clock.wall() + self._parts.who.offset

    def since(self) -> int:
        """What became due later is on time."""
        return self.guess() - ON_TIME

    def wanted(self, limit: int) -> Wanted:
        """So many rows, and none of those that this node leaves to others."""
        known = self._parts.definitions
        return Wanted(limit, known.parked(), known.unloadable(), parked_firings=known.parked_firings())

    def until(self, seen: Look) -> float:
        """Seconds until more is due."""
        if seen.next_at is None:
            return IDLE
        ahead = (seen.next_at - self.guess()) / SECOND
        return min(max(ahead, 0.0) + _ROUNDING, IDLE)

    def too_early(self, now: int) -> float | None:
        """Seconds to wait when the guess ran ahead of the database's `now`, by a little or because the host's clock was
        set: nothing was due yet."""
        return min((self._guessed - now) / SECOND + _ROUNDING, IDLE) if self._guessed > now else None
