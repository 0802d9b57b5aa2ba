"""The health of a node: which of its loops have had no success for too long, and why. Never alive, and not scheduling."""

import logging
from collections.abc import Mapping

from ..scheduler.clock import Clock
from ..scheduler.episode import Episode
from .loop import Loop

_LOOK = 1.0
_STALL = 3.0
"""Seconds without a look after which it was the whole process that stood still."""
_LONGEST = 200
"""Characters of a reason: it is kept in the node's row."""

log = logging.getLogger("qsched.health")


class Health:
    """Watches a node's loops; `step` is the service of a loop of its own, which is among them."""

    def __init__(self, clock: Clock, loops: Mapping[str, Loop]) -> None:
        self._clock = clock
        self._loops = loops
        self._looked_at = self._awake_since = clock.monotonic()
        self._red: dict[str, Episode] = {}

    def reds(self) -> dict[str, str]:
        """Each loop that is not at work, and why; empty when all are."""
        now = self._clock.monotonic()
        if now - self._looked_at > _STALL:
            self._awake_since = now
        self._looked_at = now
        said = {loop.name: loop.ill(self._awake_since) for loop in list(self._loops.values())}
        return {name: reason[:_LONGEST] for name, reason in said.items() if reason is not None}

    def step(self) -> float:
        """Start again what has died, and tell the log who fell ill and who is well again."""
        for loop in list(self._loops.values()):
            loop.revive()
        reds = self.reds()
        for name, reason in reds.items():
            if self._red.setdefault(name, Episode(self._clock)).fails() is not None:
                log.warning("health.red loop=%s reason=%s", name, reason)
        for name, episode in self._red.items():
            if name not in reds:
                lasted = episode.over()
                if lasted is not None:
                    log.info("health.green loop=%s after=%.1fs", name, lasted)
        return _LOOK
