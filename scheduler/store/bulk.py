"""Many rows in one round trip, on each database in its own fast way; what is hot is built on these verbs."""

import json
from collections.abc import Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import BigInteger, Connection, Integer, SmallInteger, Table

from .dialects import MARIADB, POSTGRESQL, Dialect

Row = tuple[Any, ...]

_CHUNK = 500
"""MariaDB's values travel in the statement's text, which must stay below its packet size."""


def insert_rows(
    conn: Connection, dialect: Dialect, table: Table, columns: tuple[str, ...], rows: Sequence[Row]
) -> None:
    """Insert `rows` (one value per column each) into `table`."""
    _insert(conn, dialect, (table, columns, ""), rows)


def insert_missing_rows(
    conn: Connection, dialect: Dialect, table: Table, columns: tuple[str, ...], rows: Sequence[Row]
) -> None:
    """Insert those of `rows` that break no unique key; the others change nothing and abort nothing."""
    # Never INSERT IGNORE: it would swallow other errors too.
    keep = f"ON DUPLICATE KEY UPDATE {columns[0]} = {columns[0]}"
    _insert(conn, dialect, (table, columns, keep if dialect is MARIADB else "ON CONFLICT DO NOTHING"), rows)


def insert_returning_ids(
    conn: Connection, dialect: Dialect, table: Table, columns: tuple[str, ...], rows: Sequence[Row]
) -> list[int]:
    """Insert `rows` and answer their ids, in the order of `rows`."""
    if not rows:
        return []
    if dialect is POSTGRESQL:
        # INSERT … SELECT of an unnest keeps its order, and so does the sequence behind the id.
        statement = _unnest_insert(table, columns, "RETURNING id")
        return [row[0] for row in conn.exec_driver_sql(statement, _arrays(rows))]
    columns, rows = _without_nulls(table, columns, rows)
    if dialect is MARIADB:
        one = f"({','.join(['%s'] * len(columns))})"
        ids: list[int] = []
        for chunk in _chunks(rows):
            marks = ",".join([one] * len(chunk))
            statement = f"INSERT INTO {table.name} ({','.join(columns)}) VALUES {marks} RETURNING id"
            values = tuple(value for row in chunk for value in row)
            ids.extend(row[0] for row in conn.exec_driver_sql(statement, values))
        return ids
    # One writer at a time, and AUTOINCREMENT counts up by one: these ids end at the last one given.
    _insert(conn, dialect, (table, columns, ""), rows)
    last = conn.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = ?", (table.name,)).scalar_one()
    return list(range(last - len(rows) + 1, last + 1))


def update_rows(
    conn: Connection,
    dialect: Dialect,
    table: Table,
    keys: tuple[str, ...],
    values: tuple[str, ...],
    rows: Sequence[Row],
) -> int:
    """Update each of `rows` (key values, then new values) where *all* its keys match; answers how many did.

    The keys are the compare of a compare-and-set: whoever gets fewer than it asked for must find out which.
    A key that is None matches nothing.
    """
    if not rows:
        return 0
    if dialect is POSTGRESQL:
        return conn.exec_driver_sql(_unnest_update(table, keys, values), _arrays(rows)).rowcount
    if dialect is MARIADB:
        statement = _json_update(table, keys, values)
        return sum(
            conn.exec_driver_sql(statement, (json.dumps(chunk, ensure_ascii=False),)).rowcount
            for chunk in _chunks(rows)
        )
    swapped = [row[len(keys) :] + row[: len(keys)] for row in rows]
    return conn.exec_driver_sql(_plain_update(table, keys, values), swapped).rowcount


def _insert(
    conn: Connection, dialect: Dialect, into: tuple[Table, tuple[str, ...], str], rows: Sequence[Row]
) -> None:
    if not rows:
        return
    if dialect is POSTGRESQL:
        conn.exec_driver_sql(_unnest_insert(*into), _arrays(rows))
    else:
        table, columns, tail = into
        columns, rows = _without_nulls(table, columns, rows)
        conn.exec_driver_sql(_values_insert(dialect, table, columns, tail), rows)


def _arrays(rows: Sequence[Row]) -> tuple[str, ...]:
    # Written here: the driver's own arrays cost four times as much of the node's processor.
    return tuple(
        f"{{{','.join(['NULL' if value is None else _element(value) for value in column])}}}"
        for column in zip(*rows, strict=True)
    )


def _element(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


def _without_nulls(
    table: Table, columns: tuple[str, ...], rows: Sequence[Row]
) -> tuple[tuple[str, ...], list[Row]]:
    """Columns and rows without those columns that are NULL in every row, which would cost as much as values."""
    kept = [
        place
        for place, values in enumerate(zip(*rows, strict=True))
        if not _may_be_left_out(table, columns[place]) or any(value is not None for value in values)
    ]
    if len(kept) < 2:
        return columns, [tuple(row) for row in rows]
    chosen = itemgetter(*kept)
    return chosen(columns), [chosen(row) for row in rows]


@cache
def _may_be_left_out(table: Table, column: str) -> bool:
    return bool(table.c[column].nullable) and table.c[column].server_default is None


def _chunks(rows: Sequence[Row]) -> list[Sequence[Row]]:
    return [rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK)]


def _array_type(table: Table, column: str) -> str:
    kind = table.c[column].type
    if isinstance(kind, SmallInteger):
        return "smallint"
    if isinstance(kind, BigInteger):
        return "bigint"
    return "integer" if isinstance(kind, Integer) else "text"


@cache
def _unnest_insert(table: Table, columns: tuple[str, ...], tail: str) -> str:
    arrays = ",".join(f"%s::{_array_type(table, column)}[]" for column in columns)
    return f"INSERT INTO {table.name} ({','.join(columns)}) SELECT * FROM unnest({arrays}) {tail}"


@cache
def _values_insert(dialect: Dialect, table: Table, columns: tuple[str, ...], tail: str) -> str:
    mark = "%s" if dialect is MARIADB else "?"
    marks = ",".join([mark] * len(columns))
    return f"INSERT INTO {table.name} ({','.join(columns)}) VALUES ({marks}) {tail}"


@cache
def _unnest_update(table: Table, keys: tuple[str, ...], values: tuple[str, ...]) -> str:
    names = [f"k{n}" for n in range(len(keys))] + [f"v{n}" for n in range(len(values))]
    arrays = ",".join(f"%s::{_array_type(table, column)}[]" for column in keys + values)
    sets = ",".join(f"{column}=new.v{n}" for n, column in enumerate(values))
    match = " AND ".join(f"t.{column}=new.k{n}" for n, column in enumerate(keys))
    return f"UPDATE {table.name} t SET {sets} FROM unnest({arrays}) AS new({','.join(names)}) WHERE {match}"


@cache
def _json_update(table: Table, keys: tuple[str, ...], values: tuple[str, ...]) -> str:
    def column(name: str, place: int) -> str:
        kind = "BIGINT"
        if _array_type(table, name) == "text":
            kind = "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
        # Without ERROR ON ERROR a value that cannot be read would silently become NULL.
        return f"c{place} {kind} PATH '$[{place}]' ERROR ON ERROR"

    shape = ",".join(column(name, place) for place, name in enumerate(keys + values))
    sets = ",".join(f"t.{name}=j.c{len(keys) + n}" for n, name in enumerate(values))
    match = " AND ".join(f"t.{name}=j.c{n}" for n, name in enumerate(keys))
    return f"UPDATE {table.name} t JOIN JSON_TABLE(%s, '$[*]' COLUMNS({shape})) j ON {match} SET {sets}"


@cache
def _plain_update(table: Table, keys: tuple[str, ...], values: tuple[str, ...]) -> str:
    sets = ",".join(f"{column}=?" for column in values)
    return f"UPDATE {table.name} SET {sets} WHERE {' AND '.join(f'{column}=?' for column in keys)}"
