"""PostgreSQL's bulk statements: one array a column, and one plain value for a column that is the same in all rows.

Most columns of a batch of firings are the same in all rows (cluster, state, times, what is NULL): sent once, they cost
neither the node's processor nor the server's.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Connection, CursorResult, Integer, SmallInteger, Table

Row = tuple[Any, ...]
Result = CursorResult[*tuple[Any, ...]]


def insert(
    conn: Connection, table: Table, columns: tuple[str, ...], rows: Sequence[Row], tail: str = ""
) -> Result:
    """Insert `rows`, in their order; `tail` is RETURNING or ON CONFLICT."""
    same, values = _parameters(table, columns, rows)
    return conn.exec_driver_sql(_insert(table, columns, same, tail), values)


def update(
    conn: Connection, table: Table, keys: tuple[str, ...], values: tuple[str, ...], rows: Sequence[Row]
) -> int:
    """Update each of `rows` (key values, then new values) where all its keys match; answers how many did."""
    same, parameters = _parameters(table, keys + values, rows)
    return conn.exec_driver_sql(_update(table, keys, values, same), parameters).rowcount


def _parameters(
    table: Table, columns: tuple[str, ...], rows: Sequence[Row]
) -> tuple[tuple[bool, ...], tuple[Any, ...]]:
    """Which columns are the same in all rows; then the values: those, and an array's text for each of the others."""
    count = len(rows)
    same, single, arrays = [], [], []
    for column, texts in zip(zip(*rows, strict=True), _are_texts(table, columns), strict=True):
        first = column[0]
        alike = column.count(first) == count
        same.append(alike)
        if alike:
            # As text, with a cast in the statement: a number's own type would change with its size, and the plan with it.
            single.append(first if first is None else str(first))
        else:
            arrays.append(_array(column, texts=texts))
    if not arrays:  # rows that are all alike, or one row: the first column says how many
        same[0] = False
        arrays.append(_array([row[0] for row in rows], texts=_are_texts(table, columns)[0]))
        del single[0]
    return tuple(same), (*single, *arrays)


def _array(column: Sequence[Any], *, texts: bool) -> str:
    # Written here: the driver's own arrays cost four times as much of the node's processor.
    if texts:
        return f"{{{','.join(['NULL' if value is None else _quoted(value) for value in column])}}}"
    if None in column:
        return f"{{{','.join(['NULL' if value is None else str(value) for value in column])}}}"
    return f"{{{','.join(map(str, column))}}}"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


@cache
def _insert(table: Table, columns: tuple[str, ...], same: tuple[bool, ...], tail: str) -> str:
    selected = ",".join(_source(table, columns, same))
    return f"INSERT INTO {table.name} ({','.join(columns)}) SELECT {selected} FROM {_unnest(table, columns, same)} {tail}"


@cache
def _update(table: Table, keys: tuple[str, ...], values: tuple[str, ...], same: tuple[bool, ...]) -> str:
    columns = keys + values
    given = _source(table, columns, same)
    names = [f"c{place}" for place in range(len(columns))]
    shape = ",".join(f"{source} AS {name}" for source, name in zip(given, names, strict=True))
    match = " AND ".join(f"{_key(table, column)}=new.c{place}" for place, column in enumerate(keys))
    sets = ",".join(f"{column}=new.c{len(keys) + place}" for place, column in enumerate(values))
    rows = f"SELECT {shape} FROM {_unnest(table, columns, same)}"
    return f"UPDATE {table.name} t SET {sets} FROM ({rows}) new WHERE {match}"


def _key(table: Table, column: str) -> str:
    """A row is found by its primary key; what else is compared must not tempt the planner to another index.

    Joined by the index of what runs, a batch of settles compared each row with each (measured: 90 µs a firing).
    """
    if column in table.primary_key.columns:
        return f"t.{column}"
    return f"(t.{column} || '')" if array_type(table, column) == "text" else f"(t.{column} + 0)"


def _source(table: Table, columns: tuple[str, ...], same: tuple[bool, ...]) -> list[str]:
    """Where each column comes from: a cast parameter, or the unnested row."""
    return [
        f"%s::{array_type(table, column)}" if alike else f"u.c{place}"
        for place, (column, alike) in enumerate(zip(columns, same, strict=True))
    ]


def _unnest(table: Table, columns: tuple[str, ...], same: tuple[bool, ...]) -> str:
    places = [place for place, alike in enumerate(same) if not alike]
    arrays = ",".join(f"%s::{array_type(table, columns[place])}[]" for place in places)
    return f"unnest({arrays}) AS u({','.join(f'c{place}' for place in places)})"


@cache
def _are_texts(table: Table, columns: tuple[str, ...]) -> tuple[bool, ...]:
    return tuple(array_type(table, column) == "text" for column in columns)


def array_type(table: Table, column: str) -> str:
    """The type that a column's values are sent as."""
    kind = table.c[column].type
    if isinstance(kind, SmallInteger):
        return "smallint"
    if isinstance(kind, BigInteger):
        return "bigint"
    return "integer" if isinstance(kind, Integer) else "text"
