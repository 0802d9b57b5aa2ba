"""All rows of a store at one moment, and the way back to them: a fresh schema each time would take a second."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import psycopg
import pymysql
from pymysql.constants import CLIENT
from qsched.scheduler.store.tables import metadata

from .waiters import maria_arguments

TABLES = tuple(metadata.sorted_tables)
_NAMES = tuple(table.name.removeprefix("qsched_") for table in TABLES)

Row = tuple[Any, ...]
Rows = Mapping[str, Mapping[Row, Row]]
"""{table: {primary key: row}}"""


@cache
def columns(table: str) -> tuple[str, ...]:
    """The columns of a table, in the order in which they are photographed."""
    return tuple(metadata.tables[f"qsched_{table}"].columns.keys())


def records(rows: Rows, table: str) -> list[dict[str, Any]]:
    """The rows of one table by their columns' names."""
    return [dict(zip(columns(table), row, strict=True)) for row in rows[table].values()]


class _Shape(NamedTuple):
    select: str
    key: tuple[int, ...]
    keys: str


def _shape(table: Any) -> _Shape:
    names = list(table.columns.keys())
    keys = [column.name for column in table.primary_key.columns]
    return _Shape(
        f"SELECT {','.join(names)} FROM {table.name}",
        tuple(names.index(key) for key in keys),
        f"({','.join(keys)})",
    )


def _as_json(table: Any) -> str:
    """All columns in one value: PyMySQL takes rows to pieces in Python, column by column."""
    return f"SELECT JSON_ARRAY({','.join(table.columns.keys())}) FROM {table.name}"


_SHAPES = {name: _shape(table) for name, table in zip(_NAMES, TABLES, strict=True)}
_SELECT_ALL = ";".join(_SHAPES[name].select for name in _NAMES)
_SELECT_ALL_AS_JSON = ";".join(map(_as_json, TABLES))


class Camera:
    """A connection of its own that reads and writes all tables, each time in one round trip."""

    def __init__(self, url: str) -> None:
        self._postgres = url.startswith("postgresql")
        self._connection: Any
        if self._postgres:
            self._connection = psycopg.connect(url, autocommit=True)
        else:
            arguments = maria_arguments(url)
            self._connection = pymysql.connect(
                **arguments, client_flag=CLIENT.MULTI_STATEMENTS, autocommit=True
            )

    def close(self) -> None:
        self._connection.close()

    def take(self) -> Rows:
        """What is committed."""
        with self._connection.cursor() as cursor:
            cursor.execute(_SELECT_ALL if self._postgres else _SELECT_ALL_AS_JSON)
            found = {}
            for name in _NAMES:
                key = _SHAPES[name].key
                rows = cursor.fetchall()
                if not self._postgres:
                    rows = [tuple(json.loads(row[0])) for row in rows]
                found[name] = {tuple(row[place] for place in key): row for row in rows}
                cursor.nextset()
        return found

    def restore(self, wanted: Rows, now: Rows) -> None:
        """Make the rows what they were, knowing what they are."""
        statements = []
        for name in _NAMES:
            then, here = wanted[name], now[name]
            gone = [key for key, row in here.items() if then.get(key) != row]
            missing = [row for key, row in then.items() if here.get(key) != row]
            if gone:
                condition = f"{_SHAPES[name].keys} IN ({','.join(map(self._tuple, gone))})"
                statements.append(f"DELETE FROM qsched_{name} WHERE {condition}")
            if missing:
                values = ",".join(map(self._tuple, missing))
                statements.append(f"INSERT INTO qsched_{name} ({','.join(columns(name))}) VALUES {values}")
        if statements:
            self._run(["BEGIN", *statements, "COMMIT"])

    def clean(self) -> None:
        """Remove what thousands of restored rows leave behind."""
        if self._postgres:
            for name in _NAMES:
                self._connection.execute(f"VACUUM qsched_{name}")

    def _run(self, statements: Sequence[str]) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(";".join(statements))
            while cursor.nextset():
                pass

    def _tuple(self, row: Row) -> str:
        return f"({','.join(map(self._literal, row))})"

    def _literal(self, value: Any) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, int):
            return str(value)
        text = str(value) if self._postgres else str(value).replace("\\", "\\\\")
        return "'" + text.replace("'", "''") + "'"
