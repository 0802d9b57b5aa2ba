"""How the connections of one lane are made, pooled, and kept from waiting for ever."""

import re
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool, StaticPool

from ...triggers.instant import SECOND
from ..errors import StoreError
from . import sqlite_file
from .dialects import POSTGRESQL, Dialect, Session, connect_arguments
from .trouble import POOLER_HINT

_MOST = (6, 4)
"""Connections of the working lane: kept, and opened beyond that while they are needed."""


def file_engine(file: Path | None, *, read_only: bool) -> Engine:
    """The one connection of this process to its SQLite file; None is a database in memory."""
    opened = partial(sqlite_file.connect, file, read_only=read_only)
    engine = create_engine("sqlite://", poolclass=StaticPool, creator=opened, hide_parameters=True)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def server_engine(dialect: Dialect, url: URL, session: Session) -> Engine:
    """The pool of one lane."""
    options: dict[str, Any] = {
        "connect_args": connect_arguments(dialect, url, session),
        "hide_parameters": True,  # they may hold a secret
        "pool_reset_on_return": None,  # every transaction here ends in COMMIT or ROLLBACK
    }
    if dialect is POSTGRESQL:
        options["use_native_hstore"] = False  # saves a round trip at the first connection
    if session.lane == "schema":
        options["poolclass"] = NullPool
    else:
        # One check-in connection and never a second: it also holds the node's session lock.
        size, overflow = (1, 0) if session.lane == "check_in" else _MOST
        options |= {"pool_size": size, "max_overflow": overflow}
        options["pool_timeout"] = max(1.0, session.lease / SECOND / 4)
    engine = create_engine(url, **options)
    if dialect is POSTGRESQL:
        own = session.lane != "check_in" and "connect_timeout" in url.query
        event.listen(engine, "do_connect", _connect_postgresql(session, own_time_out=own))
    else:
        event.listen(engine, "do_connect", _MariaConnector(session))
        event.listen(engine, "connect", _isolate_mariadb(session.read_only))
    return engine


def _connect_postgresql(session: Session, *, own_time_out: bool) -> Callable[..., Any]:
    from .deadline import answering  # the driver is an extra

    made = answering(None if own_time_out else session.connect_within, session.answer_within)

    def connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        connection = made(*arguments, **options)
        try:
            # One that only reads holds no locks.
            asked = None if session.read_only else _milliseconds(options.get("options", ""))
            _look_for_a_pooler(connection, asked)
        except BaseException:
            connection.close()
            raise
        return connection

    return connect


_IDLE = "idle_in_transaction_session_timeout"


def _look_for_a_pooler(connection: Any, asked: int | None) -> None:
    """One round trip on a new connection: are the time-outs there that keep a stopped node from keeping its locks, and
    does the session answer that let us in? `asked`: the time-out (ms), where there is to be one."""
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_backend_pid(), '{_IDLE}=' || current_setting('{_IDLE}')", prepare=False)
        backend, said = cursor.fetchone()
    connection.autocommit = False
    if backend != connection.info.backend_pid:
        # The next transaction may be in another session, where what this one prepared is unknown, or another's.
        connection.prepare_threshold = None
    found = _milliseconds(said)
    if asked and not (found and found <= asked):
        raise StoreError(
            f"the session's settings did not arrive: {_IDLE} is {found or 0} ms, and {asked} ms was asked for",
            hint=f"{POOLER_HINT}; one that is told to ignore them loses them, unless the role sets {_IDLE}",
        )


_IN_MS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _milliseconds(settings: str) -> int | None:
    """What `settings` (`-c name=value` …) say of the time-out last, which wins; None where that is not understood."""
    found = re.findall(rf"{_IDLE}=(\d+)([a-z]*)(?!\S)", settings)
    if not found or (found[-1][1] or "ms") not in _IN_MS:
        return None
    number, unit = found[-1]
    return int(number) * _IN_MS[unit or "ms"]


def cut(connection: Any) -> None:
    """End the call that waits on a server connection in another thread, and the connection with it."""
    if hasattr(connection, "cut"):
        connection.cut()
    else:
        with suppress(OSError, AttributeError):  # it may be closing just now
            connection._sock.shutdown(socket.SHUT_RDWR)


class _MariaConnector:
    """Connects, and keeps what could not connect for the next try.

    Before its first try PyMySQL reads the machine's certificates, 50 ms of CPU: with a server that is away four times a
    second. And what it reads while it connects has to come sooner than the answer to a statement.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._unconnected: deque[Any] = deque()

    def __call__(self, dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        try:
            connection = self._unconnected.pop()
        except IndexError:
            connection = dialect.loaded_dbapi.connect(*arguments, **options, defer_connect=True)
        answer_within = connection._read_timeout
        connection._read_timeout = min(self._session.connect_within, answer_within or float("inf"))
        try:
            connection.connect()
        except BaseException:
            self._unconnected.append(connection)
            raise
        finally:
            connection._read_timeout = answer_within
        return connection


def _isolate_mariadb(read_only: bool) -> Callable[[Any, Any], None]:
    # A statement of its own: the variable behind it is called differently before and after MariaDB 11.1.
    statement = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED" + (
        ", READ ONLY" if read_only else ""
    )

    def isolate(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)

    return isolate


def _begin_sqlite(conn: Connection) -> None:
    # A deferred transaction that reads and then writes dies at once when another writer was faster.
    reading = conn.get_execution_options().get("qsched_read")
    conn.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
