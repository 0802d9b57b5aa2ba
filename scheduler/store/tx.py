"""One transaction as the row files see it: portable SQL text, the database's clock read once, and the bulk verbs."""

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, CursorResult, Table

from . import bulk
from .dialects import POSTGRESQL, SQLITE, Dialect


@cache
def _marks(statement: str, dialect: Dialect) -> str:
    return statement if dialect is SQLITE else statement.replace("?", "%s")


class Tx:
    """A transaction (or, for reads, a snapshot) on one connection. SQL text is written with `?` for values."""

    __slots__ = ("_clock", "_now", "cluster", "conn", "dialect")

    def __init__(
        self, conn: Connection, dialect: Dialect, cluster: int, clock: Callable[[], int] | None
    ) -> None:
        self.conn = conn
        self.dialect = dialect
        self.cluster = cluster
        self._clock = clock
        self._now: int | None = None

    def now(self) -> int:
        """The database's time (µs), read once in this transaction: all its comparisons are made against one instant."""
        if self._now is None:
            if self._clock is not None:
                self._now = self._clock()
            else:
                self._now = int(self.conn.exec_driver_sql(f"SELECT {self.dialect.now_sql}").scalar_one())
        return self._now

    @property
    def now_column(self) -> str:
        """An SQL expression that a statement selects to save the clock its own round trip; give its value to `saw_now`."""
        return self.dialect.now_sql if self._clock is None else "0"

    def saw_now(self, value: int) -> int:
        if self._now is None:
            self._now = int(value) if self._clock is None else self._clock()
        return self._now

    def run(self, statement: str, *values: Any) -> CursorResult[*tuple[Any, ...]]:
        """Run SQL text with `?` marks."""
        return self.conn.exec_driver_sql(_marks(statement, self.dialect), values)

    def rows(self, statement: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        """All rows of a query as the driver gives them: for what is read by the hundred."""
        cursor = self.run(statement, *values).cursor
        assert cursor is not None
        return cursor.fetchall()

    def among(self, column: str, values: Collection[Any]) -> tuple[str, tuple[Any, ...]]:
        """(condition, values) that is true where `column` is one of `values` (not empty)."""
        if self.dialect is POSTGRESQL:
            if isinstance(
                next(iter(values)), int
            ):  # written here: the driver's own arrays cost four times as much
                return f"{column} = ANY(CAST(? AS bigint[]))", (f"{{{','.join(map(str, values))}}}",)
            return f"{column} = ANY(?)", (list(values),)
        return f"{column} IN ({','.join('?' * len(values))})", tuple(values)

    def insert(self, table: Table, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> None:
        bulk.insert_rows(self.conn, self.dialect, table, columns, rows)

    def insert_ids(
        self, table: Table, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
    ) -> list[int]:
        return bulk.insert_returning_ids(self.conn, self.dialect, table, columns, rows)

    def insert_if_free(self, table: Table, columns: tuple[str, ...], row: tuple[Any, ...]) -> int | None:
        return bulk.insert_if_free(self.conn, self.dialect, table, columns, row)

    def insert_missing(self, table: Table, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert what is not there yet; what is there (by any unique key) stays as it is, and nothing is aborted."""
        bulk.insert_missing_rows(self.conn, self.dialect, table, columns, rows)

    def update(
        self, table: Table, keys: tuple[str, ...], values: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
    ) -> int:
        return bulk.update_rows(self.conn, self.dialect, table, (keys, values), rows)
