"""Faults in a store's own connections: a deadlock at a chosen statement, an answer to COMMIT that is lost."""

import sqlite3
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import psycopg
import pymysql
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.dialects import MARIADB, POSTGRESQL
from sqlalchemy import event

from .waiting import wait_until


class Faults:
    """Counts the statements of one store's working connections, and breaks what it is told to."""

    def __init__(self, store: Store, lane: str = "work") -> None:
        self._store = store
        self._engine: Any = store._engine(lane)
        self._dialect = self._engine.dialect
        self._commit = self._dialect.do_commit
        self._deadlocks: list[int] = []
        self._place = 0
        self._lose: Callable[[Any], None] | None = None
        self._lose_of = self._name = ""
        self._transaction = store.transaction
        store.transaction = self._named  # type: ignore[method-assign]
        self.statements = 0
        self.raised = 0
        for name in ("do_execute", "do_executemany"):
            event.listen(self._engine, name, self._statement)
        vars(self._dialect)["do_commit"] = self._on_commit

    def _named(self, name: str, work: Callable[..., Any], **options: Any) -> Any:
        self._name = name
        try:
            return self._transaction(name, work, **options)
        finally:
            self._name = ""

    # -- deadlocks -----------------------------------------------------------------------------------------------------

    def deadlock(self, place: int, times: int = 3) -> None:
        """Break the next `times` transactions at their statement number `place` (0 the first)."""
        self._deadlocks = [place] * times
        self._place = 0

    def _statement(self, cursor: Any, statement: str, parameters: Any, context: Any) -> None:
        del statement, parameters, context
        self.statements += 1
        if self._deadlocks:
            if self._place == self._deadlocks[0]:
                self._deadlocks.pop(0)
                self._place = 0
                self.raised += 1
                self._undo(cursor)
                raise self._deadlock()
            self._place += 1

    def _undo(self, cursor: Any) -> None:
        # InnoDB rolls the whole transaction of a deadlock's victim back by itself.
        if self._store.dialect is MARIADB:
            cursor.connection.rollback()

    def _deadlock(self) -> Exception:
        if self._store.dialect is POSTGRESQL:
            return psycopg.errors.DeadlockDetected("deadlock detected")
        if self._store.dialect is MARIADB:
            return pymysql.err.OperationalError(1213, "Deadlock found when trying to get lock")
        busy = sqlite3.OperationalError("database is locked")
        busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
        return busy

    # -- commits whose answer is lost ----------------------------------------------------------------------------------

    def lose_commit(self, of: str, *, landed: bool) -> None:
        """The next COMMIT of the transactions called `of` is done, or not, and its answer is lost either way."""
        self._lose_of = of
        self._lose = self._commit if landed else lambda connection: None

    def lose_late_commit(self, of: str, seconds: float) -> threading.Thread:
        """The answer to the next COMMIT of `of` is lost at once, and its backend commits only after so many seconds."""
        lost: SimpleQueue[Any] = SimpleQueue()

        def lose(connection: Any) -> None:
            raw = connection.dbapi_connection
            lost.put((raw, raw.close))
            raw.rollback = raw.close = lambda: None  # nobody but its own backend touches it any more

        def commit() -> None:
            raw, close = lost.get(timeout=30)
            threading.Event().wait(seconds)
            raw.commit()
            close()

        thread = threading.Thread(target=commit, daemon=True)
        thread.start()
        self._lose_of, self._lose = of, lose
        return thread

    def _on_commit(self, connection: Any) -> None:
        if self._lose is None or self._lose_of != self._name:
            self._commit(connection)
            return
        lose, self._lose = self._lose, None
        self.raised += 1
        lose(connection)
        raise self._lost()

    def _lost(self) -> Exception:
        if self._store.dialect is POSTGRESQL:
            return psycopg.OperationalError("server closed the connection unexpectedly")
        if self._store.dialect is MARIADB:
            return pymysql.err.OperationalError(2013, "Lost connection to server during query")
        lost = sqlite3.OperationalError("disk I/O error")
        lost.sqlite_errorcode = sqlite3.SQLITE_IOERR
        return lost


def wait_for(thread: threading.Thread) -> None:
    """Until a late commit is through."""
    wait_until(lambda: not thread.is_alive(), "the late commit")
