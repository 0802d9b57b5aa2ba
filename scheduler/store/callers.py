"""The transaction of an application's own, on the job store's database: what is written in it stands or falls with the rest.

Nothing done here ends that transaction: each piece of work is behind a savepoint.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, event, exc

from ..errors import StoreError
from .database import Store, failure
from .definition_reads import read_cluster
from .dialects import MARIADB, SQLITE
from .trouble import Trouble, trouble_of
from .tx import Tx

_NAMES = {"postgresql": "postgresql", "mariadb": "mariadb", "mysql": "mariadb", "sqlite": "sqlite"}
_WAKE, _LISTENS = "qsched_wake", "qsched_listens"
# In its session's own time zone UNIX_TIMESTAMP would take the hour that comes twice for the wrong one.
_MARIADB_NOW = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"


@contextmanager
def callers_tx(store: Store, connection: Any) -> Iterator[Tx]:
    """The transaction of `connection` (a Connection or Session of SQLAlchemy) as the row files see it.

    Raises StoreError, and leaves the transaction as it was, where it is not of this store's database, or where what is
    done in it fails. (A deadlock on MariaDB is the exception: the server itself undoes all of it.)
    """
    conn = _connection(connection)
    _check_driver(store, conn)
    _begin(store, conn)
    savepoint = conn.begin_nested()
    try:
        tx = Tx(conn, store.dialect, 0, _clock(store, conn))
        tx.cluster = _cluster(store, tx)
        yield tx
    except BaseException as error:
        with suppress(exc.DBAPIError):  # the first error is the one to be told
            savepoint.rollback()
        if isinstance(error, exc.DBAPIError):
            raise failure("enqueue", error, trouble_of(error), in_doubt=False) from error
        raise
    savepoint.commit()


def when_committed(connection: Any, wake: Callable[[], None]) -> None:
    """Call `wake` once after the next commit of a Session; of a Connection nobody hears."""
    session = _session(connection)
    if session is None:
        return
    session.info[_WAKE] = wake
    if not session.info.get(_LISTENS):
        session.info[_LISTENS] = True
        event.listen(session, "after_commit", _committed)


def _committed(session: Any) -> None:
    if not session.in_nested_transaction() and (wake := session.info.pop(_WAKE, None)) is not None:
        wake()


def _session(connection: Any) -> Any:
    """The Session behind it; None for a Connection."""
    if hasattr(connection, "registry") and hasattr(connection, "remove"):  # a scoped_session
        connection = connection()
    return None if isinstance(connection, Connection) else connection


def _connection(given: Any) -> Connection:
    if type(given).__module__.startswith("sqlalchemy.ext.asyncio"):
        raise StoreError(
            f"connection= is an {type(given).__name__}, and enqueue waits for its answer",
            hint="write `await session.run_sync(lambda s: scheduler.enqueue(…, connection=s))`",
        )
    session = _session(given)
    conn = given if session is None else session.connection() if hasattr(session, "connection") else None
    if not isinstance(conn, Connection):
        raise StoreError(
            f"connection= is {type(given).__name__}, and not a Connection or Session of SQLAlchemy",
            hint="give the one whose transaction the job is to stand or fall with",
        )
    if conn.closed:
        raise StoreError("connection= is closed", hint="give one whose transaction is still open")
    return conn


def _check_driver(store: Store, conn: Connection) -> None:
    name = _NAMES.get(conn.dialect.name)
    if name != store.dialect.name:
        raise StoreError(
            f"connection= is to {conn.dialect.name}, and the job store is {store.dialect.name}",
            hint="leave connection= out: what is enqueued cannot be part of that transaction",
        )
    styles = ("qmark",) if store.dialect is SQLITE else ("format", "pyformat")
    if conn.dialect.paramstyle not in styles:
        raise StoreError(
            f"connection= uses the driver {conn.dialect.driver}, which writes SQL's values in a way of its own",
            hint="connect with psycopg, which serves Session and AsyncSession alike",
        )
    if _commits_at_once(conn.connection.driver_connection):
        raise StoreError(
            "connection= is in autocommit: it has no transaction to be part of",
            hint="leave connection= out, or begin a transaction",
        )


def _commits_at_once(raw: Any) -> bool:
    if hasattr(raw, "get_autocommit"):  # PyMySQL, mysqlclient
        return bool(raw.get_autocommit())
    # Of sqlite3 neither says it: its own None is also what those set who begin by themselves.
    return type(raw).__module__.startswith("psycopg") and bool(raw.autocommit)


def _begin(store: Store, conn: Connection) -> None:
    """A savepoint that stood alone would commit when it is released: sqlite3 begins only before what it knows to write."""
    if store.dialect is not SQLITE:
        return
    if not conn.in_transaction():
        conn.begin()
    if not conn.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
        try:
            conn.exec_driver_sql("BEGIN IMMEDIATE")
        except exc.DBAPIError as error:
            raise failure("enqueue", error, trouble_of(error), in_doubt=False) from error


def _clock(store: Store, conn: Connection) -> Callable[[], int] | None:
    given = store.clock_of_caller
    if given is None and store.dialect is MARIADB:
        return lambda: int(conn.exec_driver_sql(_MARIADB_NOW).scalar_one())
    return given


def _cluster(store: Store, tx: Tx) -> int:
    """The id of the store's cluster, seen over this connection too; raises StoreError where that is another database."""
    if store.cluster_uuid is None:
        store.cluster_uuid, _ = store.read("cluster", read_cluster)
    try:
        row = tx.run("SELECT id, uuid FROM qsched_clusters WHERE name = ?", store.cluster_name).one_or_none()
    except exc.DBAPIError as error:
        if trouble_of(error) is not Trouble.MISSING:
            raise
        row = None
    if row is None or row[1] != store.cluster_uuid:
        raise StoreError(
            "connection= is to a database (or a schema of it) that is not the job store's",
            hint="give one of the same database, or leave connection= out",
        )
    return int(row[0])
