"""Wake-ups between nodes over Redis, where the database has none: publish after the commit, one channel per cluster.

They are hints: whatever Redis loses or refuses costs the others a poll, and nobody anything else.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any

from ..scheduler.clock import Clock
from ..scheduler.episode import Episode
from ..scheduler.identity import Identity
from .redis_lease import connect

_LISTEN = 1.0
"""Seconds that one wait lasts."""
_PAUSE = 2.0
"""Seconds until Redis is tried again."""
_ASK = 15.0
"""Seconds of silence after which Redis is asked whether it still hears this node."""
_ANSWER = 2.0
"""Seconds that its answer may take."""
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
        self._heard_at = 0.0
        self._asked_at: float | None = None
        self._episode = Episode(clock)

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
            woken = self._is_woken()
        except Exception as error:
            self.close()
            lasted = self._episode.fails()
            if lasted is not None:
                log.warning("wake.lost for=%.0fs reason=%s: the nodes poll", lasted, error)
            return _PAUSE
        lasted = self._episode.over()
        if lasted is not None:
            log.info("wake.available after=%.1fs", lasted)
        if woken:
            self._wake()
        return 0.0

    def _is_woken(self) -> bool:
        if self._subscription is None:
            self._subscription = self._hearing.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
            self._subscription.subscribe(self._channel())
            self._heard_at, self._asked_at = self._clock.monotonic(), None
        message = self._subscription.get_message(timeout=_LISTEN)
        now = self._clock.monotonic()
        if message is not None:
            self._heard_at, self._asked_at = now, None
            return bool(message["type"] == "message")
        # Silence is what a Redis that is gone sounds like. The client's own health check asks too, and never looks whether
        # an answer came.
        if self._asked_at is None and now - self._heard_at > _ASK:
            self._subscription.ping()
            self._asked_at = now
        elif self._asked_at is not None and now - self._asked_at > _ANSWER:
            raise TimeoutError(f"nothing was heard for {now - self._heard_at:.0f} s")
        return False

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
