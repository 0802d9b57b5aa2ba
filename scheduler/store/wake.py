"""Wake-ups between nodes on PostgreSQL: LISTEN on a connection of its own, NOTIFY after the commit; a lost one costs a poll."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from ...triggers.instant import SECOND
from ..clock import Clock, SystemClock
from ..errors import StoreError, StoreUnavailable
from .database import Store
from .dialects import POSTGRESQL

_ASK = 15.0
"""Seconds after which a listener looks whether its server still answers."""

log = logging.getLogger("qsched.wake")


def announce(store: Store) -> None:
    """Tell listening nodes that there is something to look at; never inside a transaction (it would serialise commits).

    Never raises: what it tells of is committed, and a lost wake-up only costs a poll.
    """
    if store.dialect is POSTGRESQL and store.cluster_id is not None:
        try:
            store.read("notify", lambda tx: tx.run("SELECT pg_notify(?, '')", _channel(store)).all())
        except StoreError as error:
            log.info("wake.unsaid reason=%s", error)


class Listener:
    """Hears other nodes' announcements. `step` waits up to a second for one; use it from one thread."""

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._clock: Clock = SystemClock()
        self._connection: Any = None
        self._renewed = threading.Event()
        self._heard_at = 0.0
        self._patience = min(1.0, store.lease / SECOND / 2)  # within what a call may take

    @property
    def works(self) -> bool:
        """Whether this database can wake others."""
        return self._store.dialect is POSTGRESQL

    def renew(self) -> None:
        """Listen over a new connection from the next step on: the old one may lead to a server that is gone."""
        self._renewed.set()

    def step(self) -> float:
        """Wait for a wake-up; answers 0: wait again."""
        try:
            if self._renewed.is_set():
                self._renewed.clear()
                self.close()
            if self._connection is None:
                self._connection = self._open()
            for _ in self._connection.dbapi_connection.notifies(timeout=self._patience, stop_after=1):
                self._wake()
            if self._clock.monotonic() - self._heard_at > _ASK:
                self._ask()
        except BaseException as error:
            self.close()
            if isinstance(error, Exception) and not isinstance(error, StoreError):
                raise StoreUnavailable(f"listen: {type(error).__name__}") from error
            raise
        return 0.0

    def _open(self) -> Any:
        connection = self._store.connection()
        connection.dbapi_connection.autocommit = True
        connection.dbapi_connection.execute(f"LISTEN {_channel(self._store)}")
        self._heard_at = self._clock.monotonic()
        return connection

    def _ask(self) -> None:
        # Silence is what a server that is gone sounds like; one that became read-only is not where the others write.
        asked = self._connection.dbapi_connection.execute("SHOW transaction_read_only").fetchone()
        if asked[0] == "on":
            raise StoreUnavailable("listen: the server has become read-only")
        self._heard_at = self._clock.monotonic()

    def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()


def _channel(store: Store) -> str:
    return f"qsched_{store.cluster_id}"
