"""The node fences itself: by its own monotonic clock its trust ends before its lease can have run out at the others.

No database is asked, so that one that hangs cannot hold it up. Then nothing is taken or begun here, and what holds a permit
is told that the lease is lost: its body must be over before its successor's begins. The others run on, and their
compare-and-set decides.
"""

import logging
from collections.abc import Callable

from ..scheduler.errors import LEASE_LOST
from ..scheduler.parts import Parts

_LOOK = 0.25
_MOST = 1.0
"""Seconds of sleep at most: a wait stands still while the machine sleeps, and trust does not."""

log = logging.getLogger("qsched.node")


class SelfFence:
    """One per node, in a loop of its own. `tell` tells those that hold a permit, and answers how many they are."""

    def __init__(self, parts: Parts, tell: Callable[[str], int]) -> None:
        self._parts = parts
        self._tell = tell
        self._told = False

    def step(self) -> float:
        """Tell when trust is over, once until a check-in has landed; answers the seconds until it looks again."""
        left = self._parts.who.trusted_until - self._parts.clock.monotonic()
        if left > 0:
            self._told = False
            return min(left, _MOST)
        if not self._told:
            self._told = True
            if told := self._tell(LEASE_LOST):
                log.error("node.self_fenced told=%s: no check-in landed for a lease", told)
        return _LOOK
