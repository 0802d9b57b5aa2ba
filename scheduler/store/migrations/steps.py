"""The steps of a migration, each of which can be run again: MariaDB keeps the steps before one that failed."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import LONGTEXT

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
JSON = sa.Text().with_variant(LONGTEXT, "mysql", "mariadb")

_MARIADB: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_nopad_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_nopad_bin",
}


def table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> None:
    """Make a table, unless it is there."""
    op.create_table(name, *parts, if_not_exists=True, **_MARIADB, **options)


def index(name: str, of: str, *columns: str, unique: bool = False, where: str | None = None) -> None:
    """Make an index, unless it is there; `where` is for the databases that know partial ones."""
    condition = sa.text(where) if where else None
    op.create_index(
        name,
        of,
        columns,
        unique=unique,
        if_not_exists=True,
        postgresql_where=condition,
        sqlite_where=condition,
    )


def column(table_name: str, new: sa.Column[Any]) -> None:
    """Add a column, unless it is there."""
    written_for_a_person = op.get_context().as_sql
    if written_for_a_person or new.name not in _columns(table_name):
        op.add_column(table_name, new)


def _columns(table_name: str) -> set[str]:
    return {found["name"] for found in sa.inspect(op.get_bind()).get_columns(table_name)}


def view(name: str, body: str) -> None:
    """Make a view, or make it again."""
    # Dropped first: PostgreSQL cannot replace a view whose columns changed, and SQLite cannot replace any.
    op.execute(f"DROP VIEW IF EXISTS {name}")
    op.execute(f"CREATE VIEW {name} AS {body}")
