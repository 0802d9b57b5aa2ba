"""The house's SQL on the bare driver: what SQLAlchemy's connection does for it, without the two thirds of time it costs.

The store's own code above it is the house's to the last line. That both ways give the same history is tested.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from qsched.scheduler.store.dialects import SQLITE
from qsched.scheduler.store.tx import Tx
from sqlalchemy import exc
from sqlalchemy.dialects import sqlite as dialect_of

T = TypeVar("T")

_COMPILED: dict[tuple[str, tuple[str, ...]], tuple[str, tuple[str, ...]]] = {}
"""{(table, columns): (an insert's text, its values' names in order)}"""


class Rows:
    """A result as the row files ask it."""

    __slots__ = ("cursor",)

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self.cursor = cursor

    @property
    def rowcount(self) -> int:
        return self.cursor.rowcount

    @property
    def inserted_primary_key(self) -> tuple[int | None]:
        return (self.cursor.lastrowid,)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.cursor)

    def all(self) -> list[tuple[Any, ...]]:
        return self.cursor.fetchall()

    def first(self) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self.cursor.fetchone()
        return row

    def scalar(self) -> Any:
        row = self.first()
        return None if row is None else row[0]

    def one_or_none(self) -> tuple[Any, ...] | None:
        rows = self.cursor.fetchmany(2)
        if len(rows) > 1:
            raise exc.MultipleResultsFound("more than one row")
        return rows[0] if rows else None

    def one(self) -> tuple[Any, ...]:
        row = self.one_or_none()
        if row is None:
            raise exc.NoResultFound("no row")
        return row

    def scalar_one(self) -> Any:
        return self.one()[0]

    def scalar_one_or_none(self) -> Any:
        row = self.one_or_none()
        return None if row is None else row[0]


class ThinConnection:
    """Stands for an SQLAlchemy connection in a transaction."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw

    def exec_driver_sql(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        try:
            if values and isinstance(values, list):
                return Rows(self.raw.executemany(statement, values))
            return Rows(self.raw.execute(statement, values))
        except sqlite3.Error as error:
            raise _told(statement, error) from error

    def commit(self) -> None:
        """No transaction of the house ends half-way; a mutant's does."""
        self.raw.execute("COMMIT")
        self.raw.execute("BEGIN IMMEDIATE")

    def execute(self, clause: Any) -> Rows:
        """An insert that is built and not written: compiled once for its table and columns."""
        values = {getattr(name, "key", name): bind.value for name, bind in clause._values.items()}
        known = (clause.table.name, tuple(values))
        if known not in _COMPILED:
            compiled = clause.compile(dialect=dialect_of.dialect())
            _COMPILED[known] = (str(compiled), tuple(compiled.positiontup))
        text, names = _COMPILED[known]
        return self.exec_driver_sql(text, tuple(values[name] for name in names))


def run_thin(conn: ThinConnection, work: Callable[[Tx], T], tx: Tx, stage: list[str], *, reading: bool) -> T:
    """BEGIN, the work, COMMIT; a ROLLBACK for whatever it raises. A read needs neither: nobody else is there meanwhile."""
    raw = conn.raw
    stage[0] = "work"
    if reading:
        return work(tx)
    raw.execute("BEGIN IMMEDIATE")
    try:
        result = work(tx)
        stage[0] = "commit"
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise
    return result


def thin_tx(conn: ThinConnection, cluster: int, clock: Callable[[], int]) -> Tx:
    """A transaction as the row files see it, on the bare driver."""
    stands_for: Any = conn
    return Tx(stands_for, SQLITE, cluster, clock)


def _told(statement: str, error: sqlite3.Error) -> exc.DBAPIError:
    kind = exc.IntegrityError if isinstance(error, sqlite3.IntegrityError) else exc.OperationalError
    return kind(statement, None, error)
