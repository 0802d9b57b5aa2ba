"""What can befall an SQLite file under a running node: another's lock, a full disk, another file in its place."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from qsched.scheduler.errors import StoreUnavailable
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.scheduler.store.tx import Tx

BUMP = "UPDATE qsched_clusters SET epoch = epoch + 1"


@pytest.fixture
def file(made_sqlite: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made_sqlite, tmp_path / "here.db"))


@pytest.fixture
def store(file: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{file}", create=True)
    opened.transaction("w", lambda tx: tx.run(BUMP))
    yield opened
    opened.close()


def _epoch(store: Store) -> int:
    return store.read("r", lambda tx: int(tx.run("SELECT epoch FROM qsched_clusters").scalar_one()))


def _is_refused(store: Store) -> StoreUnavailable:
    with pytest.raises(StoreUnavailable, match="not the file that was opened") as caught:
        store.transaction("w", lambda tx: tx.run(BUMP))
    with pytest.raises(StoreUnavailable, match="not the file that was opened"):
        _epoch(store)
    assert not caught.value.in_doubt
    return caught.value


def test_a_file_that_was_replaced_is_not_written_to_by_whoever_had_the_old_one_open(
    file: Path, store: Store
) -> None:
    """Two nodes that see two files would fire everything twice."""
    replacement = file.with_name("new.db")
    with closing(sqlite3.connect(file)) as copier:
        copier.execute("VACUUM INTO ?", (str(replacement),))
    before = replacement.read_bytes()
    replacement.rename(file)
    assert "start anew" in str(_is_refused(store).hint)
    assert file.read_bytes() == before
    for suffix in ("-wal", "-shm"):
        file.with_name(file.name + suffix).unlink()
    store.close()  # as a node that is started anew
    store.transaction("w", lambda tx: tx.run(BUMP))
    assert _epoch(store) == 2


def test_a_file_that_was_moved_away_is_waited_for(file: Path, store: Store) -> None:
    away = file.with_name("away.db")
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).rename(away.with_name(away.name + suffix))
    _is_refused(store)
    assert not file.exists()
    for suffix in ("", "-wal", "-shm"):
        away.with_name(away.name + suffix).rename(file.with_name(file.name + suffix))
    store.transaction("w", lambda tx: tx.run(BUMP))
    assert _epoch(store) == 2


def test_a_full_disk_is_out_of_reach_for_now_and_half_of_nothing_is_written(store: Store) -> None:
    def limit(pages: int) -> None:
        store.read("limit", lambda tx: tx.run(f"PRAGMA max_page_count = {pages}").scalar())

    def work(tx: Tx) -> None:
        tx.run(BUMP)
        tx.run("UPDATE qsched_clusters SET uuid = ?", "x" * 200_000)

    limit(1)  # it is as small as it can be: no page more
    with pytest.raises(StoreUnavailable, match="full") as caught:
        store.transaction("w", work)
    assert not caught.value.in_doubt
    assert "free space" in str(caught.value.hint)
    assert _epoch(store) == 1
    limit(1_000_000)
    store.transaction("w", work)
    assert _epoch(store) == 2


def test_a_file_that_another_process_keeps_locked_is_busy_and_readable(file: Path, store: Store) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="stayed busy") as caught:
        store.transaction("w", lambda tx: tx.run(BUMP), patience=0.2)
    assert not caught.value.in_doubt
    assert _epoch(store) == 1
    other.execute("COMMIT")
    other.close()
    store.transaction("w", lambda tx: tx.run(BUMP))
    assert _epoch(store) == 2
