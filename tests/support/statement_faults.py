"""Statements that fail as long as the test wants them to: one by its text, and every COMMIT of a kind."""

import re
import sqlite3
from collections.abc import Callable
from typing import Any

import psycopg
import pymysql
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.dialects import MARIADB, POSTGRESQL
from sqlalchemy import event

COMMIT = "COMMIT of "

Fault = Callable[[], None]
"""What happens in place of a statement: it raises, perhaps after a while."""


class StatementFaults:
    """Hears every statement of one store, and puts a fault in the place of those it is told to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._name = ""
        self._transaction, self._read = store.transaction, store.read
        self.heard: dict[str, None] = {}
        """The statements so far, in the order in which each came first; values and their number left out."""
        self.failing: str | None = None
        self.fault: Fault = lambda: None
        self.landed = False
        """Whether a COMMIT is done before its fault."""
        self.met = 0
        """How often a fault took a statement's place."""
        for lane in ("work", "check_in"):
            self._listen(store._engine(lane))
        vars(store).update(transaction=self._named(self._transaction), read=self._named(self._read))

    def _listen(self, engine: Any) -> None:
        if getattr(engine.dialect, "qsched_heard", None) is self:
            return  # SQLite has one engine for both
        engine.dialect.qsched_heard = self
        for name in ("do_execute", "do_executemany"):
            event.listen(engine, name, self._statement)
        commit = engine.dialect.do_commit

        def on_commit(connection: Any) -> None:
            if self.landed:
                commit(connection)
            self._meet(COMMIT + self._name)
            if not self.landed:
                commit(connection)

        engine.dialect.do_commit = on_commit

    def _named(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def named(name: str, work: Any, **options: Any) -> Any:
            self._name = name
            return real(name, work, **options)

        return named

    def _statement(self, cursor: Any, statement: str, parameters: Any, context: Any) -> None:
        del cursor, parameters, context
        self._meet(_shape(statement))

    def _meet(self, statement: str) -> None:
        self.heard.setdefault(statement)
        if statement == self.failing:
            self.met += 1
            self.fault()

    # -- faults --------------------------------------------------------------------------------------------------------

    def lost(self) -> None:
        """The server is gone, or so the driver says."""
        if self._store.dialect is POSTGRESQL:
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        if self._store.dialect is MARIADB:
            raise pymysql.err.OperationalError(2013, "Lost connection to server during query")
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error


def _shape(statement: str) -> str:
    return re.sub(r"((\?|%s|\d+)(, ?)?)+", "?", " ".join(statement.split()))
