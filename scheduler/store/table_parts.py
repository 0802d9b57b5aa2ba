"""What tables are made of: one metadata, columns that mean the same on all three databases, ids never reused."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    MetaData,
    Table,
    Text,
)
from sqlalchemy import text as sql
from sqlalchemy.dialects.mysql import LONGTEXT

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

Big = BigInteger().with_variant(Integer, "sqlite")  # SQLite gives rowids only to INTEGER
Json = Text().with_variant(LONGTEXT, "mysql", "mariadb")

_MARIADB: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_nopad_bin",  # names compare byte for byte, trailing blanks included
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_nopad_bin",
}


def table(name: str, *parts: Any, **options: Any) -> Table:
    return Table(f"qsched_{name}", metadata, *parts, **_MARIADB, **options)


def id_column(name: str = "id") -> Column[int]:
    # Never reused, also on SQLite (AUTOINCREMENT): an incarnation or firing id that comes back would defeat fencing.
    return Column(name, Big, primary_key=True, autoincrement=True)


def when(condition: str) -> dict[str, Any]:
    """A partial index where the database has them; MariaDB has none and gets the whole one."""
    return {"postgresql_where": sql(condition), "sqlite_where": sql(condition)}
