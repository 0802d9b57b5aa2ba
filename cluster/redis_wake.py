"""Wake-ups between nodes over Redis, where the database has none: publish after the commit, one channel per cluster.

They are hints: whatever Redis loses or refuses costs the others a poll, and nobody anything else.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any

from ..scheduler.clock import Clock
from ..scheduler.identity import Identity
from .redis_lease import connect

_LISTEN = 1.0
"""Seconds that one wait lasts."""
_PAUSE = 2.0
"""Seconds until Redis is tried again."""
_EVERY = 0.05
"""Seconds between two announcements, at least: those made meanwhile are one."""

log = logging.getLogger("qsched.wake")


class RedisWake:
    """`hear` and `speak` are the steps of two loops; `announce` may be called by anybody and never waits."""

    def __init__(self, url: str, who: Identity, clock: Clock, wake: Callable[[], None]) -> None:
        self._who = who
        self._clock = clock
        self._wake = wake
        self._speaking = connect(url, _LISTEN)
        self._hearing = connect(url, 2 * _LISTEN)
        self._subscription: Any = None
        self._asked = threading.Event()
        self._never = threading.Event()
        self._lost = False

    def _channel(self) -> str:
        return f"qsched:{self._who.cluster_uuid}:wake"

    def announce(self) -> None:
        """Tell the other nodes to look, soon."""
        self._asked.set()

    def speak(self) -> float:
        """Wait for something to announce, and publish it; answers the seconds until the next wait."""
        if not self._clock.wait(self._asked, _LISTEN):
            return 0.0
        self._asked.clear()
        try:
            self._speaking.publish(self._channel(), b"")
        except Exception as error:  # whatever Redis and its client may raise: it was only a hint
            log.debug("wake.unsaid reason=%s", error)
            return _PAUSE
        self._clock.wait(self._never, _EVERY)
        return 0.0

    def hear(self) -> float:
        """Wait for a wake-up for a second; answers the seconds until the next wait."""
        try:
            if self._subscription is None:
                self._subscription = self._hearing.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
                self._subscription.subscribe(self._channel())
            message = self._subscription.get_message(timeout=_LISTEN)
        except Exception as error:
            self.close()
            if not self._lost:
                log.warning("wake.lost reason=%s: the nodes poll", error)
            self._lost = True
            return _PAUSE
        if self._lost:
            self._lost = False
            log.info("wake.available")
        if message is not None:
            self._wake()
        return 0.0

    def close(self) -> None:
        """Close the connections; the next step opens new ones."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            try:
                subscription.close()
            except Exception as error:
                log.debug("wake.close reason=%s", error)
        for client in (self._speaking, self._hearing):
            client.connection_pool.disconnect()
