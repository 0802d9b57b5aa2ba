"""`open_store` makes a schema once, completes a half-made one, and refuses what it must."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from qsched.scheduler.errors import SchemaOutdated, SchemaTooNew, StoreError, StoreMissing
from qsched.scheduler.store import schema
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.dialects import MARIADB, POSTGRESQL, SQLITE
from qsched.scheduler.store.migrations import views_0001
from qsched.scheduler.store.migrations.views_0001 import VIEWS
from qsched.scheduler.store.schema import VERSION_TABLE, current, open_store, upgrade, upgrade_sql
from qsched.scheduler.store.tables import metadata
from qsched.scheduler.store.tx import Tx
from sqlalchemy import Connection

from support.waiting import wait_until

Program = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def bare(store_url: str) -> Iterator[Store]:
    """A store on an empty database, not looked at yet."""
    if store_url.startswith("sqlite"):
        Path(store_url.removeprefix("sqlite:///")).touch()
    store = Store(store_url)
    yield store
    store.close()


def _difference(store: Store) -> list[Any]:
    def compare(connection: Any) -> list[Any]:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        found = compare_metadata(context, metadata)
        # Alembic asks for an index that another database alone is to have.
        return [each for each in found if store.dialect is not MARIADB or not _of_others(each)]

    return store.change_schema("compare", compare)


def _of_others(difference: Any) -> bool:
    return bool(difference[0] == "add_index" and difference[1].name == "ix_qsched_firings_enqueued")


def _say(store: Store, *statements: str) -> None:
    def work(tx: Tx) -> None:
        for statement in statements:
            tx.run(statement)

    store.transaction("say", work)


def test_the_known_revisions_are_those_of_the_migrations_folder() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)
    assert [script.revision for script in reversed(list(scripts.walk_revisions()))] == list(schema.REVISIONS)
    assert scripts.get_current_head() == schema.HEAD


def test_an_empty_database_gets_exactly_the_declared_tables(store_url: str) -> None:
    store = open_store(store_url, create=True)
    assert _difference(store) == []
    assert current(store) == schema.HEAD
    shown = store.read("r", lambda tx: [tx.run(f"SELECT * FROM {view}").fetchall() for view in VIEWS])
    assert shown == [[]] * len(VIEWS)
    upgrade(store)
    assert _difference(store) == []
    store.close()


def test_reading_never_makes_a_store(store_url: str) -> None:
    for options in (
        {"create": False},
        {"create": False, "read_only": True},
        {"create": True, "read_only": True},
    ):
        with pytest.raises(StoreMissing) as caught:
            open_store(store_url, **options)  # type: ignore[arg-type]
        assert caught.value.hint
    if store_url.startswith("sqlite"):
        assert not list(Path(store_url.removeprefix("sqlite:///")).parent.iterdir())
    else:
        store = Store(store_url)
        assert current(store) is None
        store.close()


def test_an_older_schema_is_refused_and_the_command_named(
    made_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "REVISIONS", (schema.HEAD, "9999"))
    monkeypatch.setattr(schema, "HEAD", "9999")
    for create in (False, True):
        with pytest.raises(SchemaOutdated, match="9999") as caught:
            open_store(made_url, create=create)
        assert "qsched db upgrade" in str(caught.value.hint)


def test_a_newer_schema_is_refused_also_by_an_upgrade(made_url: str) -> None:
    store = open_store(made_url, create=True)
    _say(store, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    try:
        for create in (False, True):
            with pytest.raises(SchemaTooNew, match="9999") as caught:
                open_store(made_url, create=create)
            assert caught.value.hint
        with pytest.raises(SchemaTooNew):
            upgrade(store)
    finally:
        _say(store, f"UPDATE {VERSION_TABLE} SET version_num = '{schema.HEAD}'")
        store.close()


def test_a_half_made_schema_is_completed(store_url: str) -> None:
    store = open_store(store_url, create=True)
    index = "DROP INDEX ix_qsched_firings_due"
    _say(
        store,
        f"DELETE FROM {VERSION_TABLE}",
        "DROP VIEW qsched_nodes_view",
        "DROP TABLE qsched_outputs",
        index + (" ON qsched_firings" if store.dialect is MARIADB else ""),
        "INSERT INTO qsched_clusters (name, uuid, created_at) VALUES ('kept', 'u', 1)",
    )
    store.close()
    with pytest.raises(StoreMissing, match="half made"):
        open_store(store_url, create=False)
    again = open_store(store_url, create=True)
    assert _difference(again) == []
    assert again.read("r", lambda tx: tx.run("SELECT COUNT(*) FROM qsched_clusters").scalar()) == 2
    assert again.read("r", lambda tx: tx.run("SELECT * FROM qsched_nodes_view").fetchall()) == []
    again.close()


def test_a_creation_that_breaks_off_is_taken_up_by_the_next(
    bare: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views_0001, "VIEWS", ("no view of that", "name", "at all"))
    with pytest.raises(StoreError):
        upgrade(bare)
    assert current(bare) is None
    monkeypatch.undo()
    upgrade(bare)
    assert _difference(bare) == []


def test_an_unknown_cluster_is_made_by_who_writes_and_named_to_who_reads(made_url: str) -> None:
    first = open_store(made_url, create=True)
    second = open_store(made_url, create=True, cluster="second one")
    assert first.cluster_id != second.cluster_id
    reader = open_store(made_url, create=False, read_only=True, cluster="second one")
    assert reader.cluster_id == second.cluster_id
    reader.close()
    with pytest.raises(StoreMissing, match=r"'thrid'.*default, second one"):
        open_store(made_url, create=False, cluster="thrid")
    with pytest.raises(StoreError, match="cannot name a cluster"):
        open_store(made_url, create=True, cluster=" x")
    uuids = first.read("r", lambda tx: {row[0] for row in tx.run("SELECT uuid FROM qsched_clusters")})
    assert len(uuids) == 2
    assert {len(text) for text in uuids} == {36}
    first.close()
    second.close()


def test_a_store_in_memory_works_and_is_its_own() -> None:
    one, two = (open_store("sqlite://", create=True) for _ in range(2))
    _say(one, "UPDATE qsched_clusters SET epoch = 5")
    assert two.read("r", lambda tx: tx.run("SELECT epoch FROM qsched_clusters").scalar()) == 0
    with pytest.raises(StoreMissing):
        open_store("sqlite://", create=False)
    one.close()
    two.close()


def test_opening_a_made_store_does_without_alembic(made_url: str) -> None:
    open_store(made_url, create=True).close()
    program = (
        "import sys\nfrom qsched.scheduler.store.schema import open_store\n"
        f"open_store({made_url!r}, create=True).close()\n"
        f"open_store({made_url!r}, create=False, read_only=True).close()\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('alembic', 'mako', 'click')])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == []


@pytest.mark.parametrize("scheme", ["postgresql", "mariadb", "sqlite"])
def test_the_sql_for_a_person_is_the_whole_schema(scheme: str, request: pytest.FixtureRequest) -> None:
    url = str(request.getfixturevalue(f"{scheme}_url"))
    script = upgrade_sql(url)
    if scheme == "sqlite":
        Path(url.removeprefix("sqlite:///")).touch()
    store = Store(url)

    def work(connection: Any) -> None:
        for statement in script.split(";\n"):
            words = "\n".join(line for line in statement.splitlines() if not line.startswith("--")).strip()
            if words and words not in ("BEGIN", "COMMIT"):
                connection.exec_driver_sql(words.replace("%", "%%") if scheme != "sqlite" else words)

    store.change_schema("run the script", work)
    assert _difference(store) == []
    store.close()
    open_store(url, create=True).close()


def test_an_older_store_is_brought_up_to_date_with_all_that_is_in_it(store_url: str) -> None:
    if store_url.startswith("sqlite"):
        Path(store_url.removeprefix("sqlite:///")).touch()
    store = Store(store_url)

    def make_the_first(connection: Connection) -> None:
        config = schema._config()
        config.attributes["connection"] = connection
        command.upgrade(config, schema.REVISIONS[0])

    store.change_schema("the first schema", make_the_first)
    _say(store, "INSERT INTO qsched_clusters (name, uuid, created_at) VALUES ('kept', 'u', 1)")
    with pytest.raises(SchemaOutdated, match="qsched needs"):
        open_store(store_url, create=True)
    upgrade(store)
    assert _difference(store) == []
    kept = "SELECT name, elector FROM qsched_clusters"
    assert [tuple(row) for row in store.read("r", lambda tx: tx.run(kept).all())] == [("kept", None)]
    store.close()
    open_store(store_url, create=True, cluster="kept").close()


def test_who_meets_a_schema_half_way_waits_for_whoever_makes_it(mariadb_url: str) -> None:
    maker = open_store(mariadb_url, create=True)
    half, whole = (
        f"UPDATE {VERSION_TABLE} SET version_num = '{version}'" for version in schema.REVISIONS[-2:]
    )
    with ThreadPoolExecutor(1) as pool:

        def make(connection: Connection) -> "Future[Store]":
            with schema._mariadb_lock(connection):
                connection.exec_driver_sql(half)
                connection.commit()
                late = pool.submit(open_store, mariadb_url, create=True)
                waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'"
                wait_until(lambda: connection.exec_driver_sql(waits).scalar(), "the other one to wait")
                assert not late.done()
                connection.exec_driver_sql(whole)
                connection.commit()
            return late

        late = maker.change_schema("make it slowly", make)
        late.result(timeout=60).close()
    maker.close()


@pytest.mark.parametrize("scheme", ["postgresql", "mariadb", "sqlite"])
def test_the_sql_for_a_person_can_begin_where_the_store_is(scheme: str) -> None:
    script = upgrade_sql(f"{scheme}://" + ("" if scheme == "sqlite" else "nobody@192.0.2.1/x"), "0001")
    assert "fallen_back_at" in script
    assert "CREATE TABLE qsched_firings" not in script
    with pytest.raises(StoreError, match="no schema revision '7'"):
        upgrade_sql("sqlite://", "7")


def test_the_sql_for_a_person_connects_to_nothing() -> None:
    assert "CREATE TABLE" in upgrade_sql("postgresql://nobody:s3cret@192.0.2.1/x")
    assert "s3cret" not in upgrade_sql("mariadb://nobody:s3cret@192.0.2.1/x")


STARTER = r"""
import os, sys
from alembic import command
from qsched.scheduler.store.schema import open_store

for url in sys.argv[1:]:
    waiting, go = os.pipe()
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(waiting, 1)  # ends for all of them at one moment, when the parent closes its end
            store = open_store(url, create=True)
            os.write(1, f"cluster {store.cluster_id}\n".encode())  # in one piece
            store.close()
            os._exit(0)
        children.append(child)
    os.close(waiting)
    os.close(go)
    print([os.waitpid(child, 0)[1] for child in children], flush=True)
"""


@pytest.mark.parametrize("scheme", ["sqlite", "postgresql", "mariadb"])
def test_eight_that_start_at_once_make_one_schema(
    scheme: str, request: pytest.FixtureRequest, tmp_path: Path, program: Program, long_form: bool
) -> None:
    times = 20 if long_form else 1
    if scheme == "sqlite":
        urls = [f"sqlite:///{tmp_path}/{number}.db" for number in range(times)]
    else:
        server = request.getfixturevalue("postgres" if scheme == "postgresql" else scheme)
        urls = [str(server.new_database()) for _ in range(times)]
    said, _ = program(STARTER, *urls).communicate(timeout=250)
    assert sorted(said.splitlines()) == sorted((["cluster 1"] * 8 + [str([0] * 8)]) * times)
    for url in urls:
        store = open_store(url, create=False)
        assert _difference(store) == []
        assert store.read("r", lambda tx: tx.run(f"SELECT COUNT(*) FROM {VERSION_TABLE}").scalar()) == 1
        store.close()


@pytest.mark.parametrize("version", [(13, 9), (12,)])
def test_an_old_server_is_refused_with_the_version_it_needs(
    postgresql_url: str, version: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_OLDEST", {POSTGRESQL: (999, 1), MARIADB: (999,), SQLITE: (999,)})
    with pytest.raises(StoreError, match="too old") as caught:
        open_store(postgresql_url, create=True)
    assert "999.1" in str(caught.value.hint)
