"""The SQL lease: the cluster's own row says who leads, until when, under which epoch."""

from collections.abc import Callable
from typing import TypeVar

from ..scheduler.clock import Clock
from ..scheduler.errors import StoreError
from ..scheduler.identity import Term
from ..scheduler.store.cluster_rows import SQL, renew_leadership, resign, take_over
from ..scheduler.store.database import Store
from ..scheduler.store.tx import Tx
from ..triggers.instant import SECOND
from .errors import LeaseUnavailable
from .lease import believed

T = TypeVar("T")


class SqlLease:
    """A Lease in the database that the nodes share anyway: to win it is to take over.

    For another elector (`by`) it is the database's part of a term: what Redis granted counts when the row says so.
    """

    def __init__(self, store: Store, clock: Clock, ttl: int, *, by: str = SQL) -> None:
        self._store = store
        self._clock = clock
        self.ttl = ttl
        self.elector = by

    def acquire(self, incarnation: int) -> Term | None:
        sent = self._clock.monotonic()
        epoch = self._in_database(
            "take over", lambda tx: take_over(tx, incarnation, self.ttl, by=self.elector)
        )
        return None if epoch is None else believed(epoch, sent, self.ttl)

    def renew(self, incarnation: int, term: Term) -> Term | None:
        sent = self._clock.monotonic()
        ours = self._in_database(
            "renew term", lambda tx: renew_leadership(tx, incarnation, term.epoch, self.ttl)
        )
        return believed(term.epoch, sent, self.ttl) if ours else None

    def release(self, incarnation: int, term: Term) -> None:
        self._in_database("resign", lambda tx: resign(tx, incarnation, term.epoch))

    def close(self) -> None:
        """The store is its owner's."""

    def _in_database(self, name: str, work: Callable[[Tx], T]) -> T:
        """One transaction, repeated for a moment only: what comes too late is worth nothing.

        A take-over whose COMMIT was in doubt may have landed. Nobody believes in it then, and its holder may win again.
        """
        try:
            return self._store.transaction(name, work, patience=self.ttl / SECOND / 4)
        except StoreError as error:
            raise LeaseUnavailable(str(error)) from error
