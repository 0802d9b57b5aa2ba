"""The migrations, which nothing changes behind their back, lead to what tables.py declares, down to the catalogue."""

import ast
import re
from pathlib import Path

import pytest
from qsched.scheduler.store import schema
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.dialects import MARIADB, POSTGRESQL
from qsched.scheduler.store.schema import open_store
from qsched.scheduler.store.tables import metadata
from qsched.scheduler.store.tx import Tx

from support.servers import MariaServer, PostgresServer

MIGRATIONS = Path(schema.__file__).parent / "migrations"
FREE_TO_IMPORT = {
    "qsched.scheduler.store.schema",  # for the name of the version's table
    "qsched.scheduler.store.migrations",
    "qsched.scheduler.store.migrations.steps",
}

Catalogue = dict[str, list[str]]


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def two_urls(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Two empty databases on each of the three in turn."""
    if request.param == "sqlite":
        (tmp_path / "declared.db").touch()
        return [f"sqlite:///{tmp_path}/{name}.db" for name in ("migrated", "declared")]
    server = request.getfixturevalue("postgres" if request.param == "postgresql" else "mariadb")
    assert isinstance(server, PostgresServer | MariaServer)
    return [server.new_database() for _ in range(2)]


def test_a_migrated_database_is_what_the_declared_tables_make(two_urls: list[str]) -> None:
    """Also what Alembic does not compare: fill factors, conditions of indexes, collations, ids never reused."""
    migrated = open_store(two_urls[0], create=True)
    declared = Store(two_urls[1])
    declared.change_schema("make the declared tables", metadata.create_all)
    catalogues = [_catalogue(store) for store in (migrated, declared)]
    assert catalogues[0] == catalogues[1]
    assert catalogues[0].keys() == metadata.tables.keys()
    migrated.close()
    declared.close()


def test_a_migration_depends_on_nothing_that_is_going_to_change() -> None:
    strays = [
        f"{path.name}: {module}"
        for path in MIGRATIONS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (module := node.module or "").startswith("qsched")
        if module not in FREE_TO_IMPORT
    ]
    assert strays == []


def _catalogue(store: Store) -> Catalogue:
    """What the database says of every table of ours and its indexes, but for the version's."""
    shown = store.read("read the catalogue", lambda tx: {name: _shown(tx, name) for name in metadata.tables})
    return {name: lines for name, lines in shown.items() if lines}


def _parts(statement: str) -> list[str]:
    """What an SQLite statement lists, sorted: an added column stands behind the constraints, and on the same line."""
    text = " ".join(statement.split()).replace("( ", "(").replace(" )", ")")
    return sorted(part.strip().removesuffix(")").strip() for part in re.split(r",(?![^()]*\)[^)]*,)", text))


def _shown(tx: Tx, table: str) -> list[str]:
    if tx.dialect is MARIADB:
        text = re.sub(r" AUTO_INCREMENT=\d+", "", str(tx.run(f"SHOW CREATE TABLE {table}").one()[1]))
        return sorted(
            line.rstrip(",") for line in text.splitlines()
        )  # keys stand in the order they were made
    if tx.dialect is not POSTGRESQL:
        rows = tx.run("SELECT sql FROM sqlite_master WHERE tbl_name = ? ORDER BY name", table)
        return [part for row in rows if row[0] is not None for part in _parts(row[0])]
    questions = (
        "SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE oid = ?::regclass",
        "SELECT concat_ws(' ', attname, format_type(atttypid, atttypmod), attnotnull, attidentity,"
        " pg_get_expr(adbin, adrelid)) FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum"
        " WHERE attrelid = ?::regclass AND attnum > 0 ORDER BY attnum",
        "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = ?::regclass ORDER BY 1",
        "SELECT conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = ?::regclass ORDER BY 1",
    )
    return [str(row[0]) for question in questions for row in tx.run(question, table)]
