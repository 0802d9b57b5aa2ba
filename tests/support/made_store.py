"""One store for many tests: its schema is made once, and its tables are emptied before each."""

from pathlib import Path
from typing import Self

from qsched.scheduler.store.database import Store
from qsched.scheduler.store.dialects import MARIADB, POSTGRESQL
from qsched.scheduler.store.schema import upgrade
from qsched.scheduler.store.tables import metadata
from qsched.scheduler.store.tx import Tx
from sqlalchemy import Table


class MadeStore:
    """A server's database with the schema and no rows, not even a cluster's."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._store = Store(url)
        upgrade(self._store)

    def empty(self) -> None:
        """Delete every row; ids begin anew, as tests that write down what they expect need it."""
        self._store.transaction("empty the tables", _empty)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_sqlite_store(file: Path) -> None:
    """Make an SQLite store with the schema and no rows; a test takes a copy of the file."""
    file.touch()
    MadeStore(f"sqlite:///{file}").close()


def _empty(tx: Tx) -> None:
    used = [table for table in metadata.sorted_tables if tx.run(f"DELETE FROM {table.name}").rowcount]
    for table in used:
        _begin_ids_anew(tx, table)


def _begin_ids_anew(tx: Tx, table: Table) -> None:
    column = table.autoincrement_column
    if column is None:
        return
    if tx.dialect is POSTGRESQL:
        tx.run("SELECT setval(pg_get_serial_sequence(?, ?), 1, false)", table.name, column.name)
    elif tx.dialect is MARIADB:
        tx.run(f"ALTER TABLE {table.name} AUTO_INCREMENT = 1")
