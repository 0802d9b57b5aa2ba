"""Many rows in one round trip, on each database in its own fast way; what is hot is built on these verbs."""

import json
from collections.abc import Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Table, exc

from . import unnest
from .dialects import MARIADB, POSTGRESQL, SQLITE, Dialect
from .trouble import Trouble, trouble_of
from .unnest import array_type

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


def insert_if_free(
    conn: Connection, dialect: Dialect, table: Table, columns: tuple[str, ...], row: Row
) -> int | None:
    """Insert `row` and answer its id; None, with nothing changed or aborted, where it breaks a unique key.

    It waits for whoever is inserting the same key. The connection may be a caller's own, of another driver than ours.
    """
    columns, (row,) = _without_nulls(table, columns, [row])
    if dialect is MARIADB:
        # A key that is taken undoes this statement alone. (ON DUPLICATE KEY UPDATE cannot tell whose row it answers.)
        statement = _values_insert(dialect, table, columns, "RETURNING id")
        try:
            return int(conn.exec_driver_sql(statement, row).scalar_one())
        except exc.IntegrityError as error:
            if trouble_of(error) is not Trouble.CONFLICT:
                raise
            return None
    statement = _values_insert(dialect, table, columns, "ON CONFLICT DO NOTHING RETURNING id")
    found = conn.exec_driver_sql(statement, row).scalar_one_or_none()
    return None if found is None else int(found)


def insert_returning_ids(
    conn: Connection, dialect: Dialect, table: Table, columns: tuple[str, ...], rows: Sequence[Row]
) -> list[int]:
    """Insert `rows` and answer their ids, in the order of `rows`."""
    if not rows:
        return []
    if dialect is POSTGRESQL:
        # INSERT … SELECT of an unnest keeps its order, and so does the sequence behind the id.
        return [row[0] for row in unnest.insert(conn, table, columns, rows, "RETURNING id").all()]
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
    columns: tuple[tuple[str, ...], tuple[str, ...]],
    rows: Sequence[Row],
) -> int:
    """Update each of `rows` (key values, then new values) where *all* its keys match; answers how many did.

    `columns` are the keys' and the values'. The keys are the compare of a compare-and-set: whoever gets fewer than
    it asked for must find out which.
    A key that is None matches nothing.
    """
    if not rows:
        return 0
    keys, values = columns
    if dialect is POSTGRESQL:
        return unnest.update(conn, table, keys, values, rows)
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
        unnest.insert(conn, into[0], into[1], rows, into[2])
    else:
        table, columns, tail = into
        columns, rows = _without_nulls(table, columns, rows)
        conn.exec_driver_sql(_values_insert(dialect, table, columns, tail), rows)


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


@cache
def _values_insert(dialect: Dialect, table: Table, columns: tuple[str, ...], tail: str) -> str:
    mark = "?" if dialect is SQLITE else "%s"
    marks = ",".join([mark] * len(columns))
    return f"INSERT INTO {table.name} ({','.join(columns)}) VALUES ({marks}) {tail}"


@cache
def _json_update(table: Table, keys: tuple[str, ...], values: tuple[str, ...]) -> str:
    def column(name: str, place: int) -> str:
        kind = "BIGINT"
        if array_type(table, name) == "text":
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
