"""SQLite's file: readers change nothing, writers of several processes all get their turn, check-ins first."""

import hashlib
import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.errors import StoreError, StoreMissing, StoreUnavailable
from qsched.scheduler.store import sqlite_file
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND

from support.waiting import wait_until

Program = Callable[..., "subprocess.Popen[str]"]

BUMP = "UPDATE qsched_clusters SET epoch = epoch + 1"


def _url(path: Path) -> str:
    return f"sqlite:///{quote(str(path))}"


@pytest.fixture
def file() -> Iterator[Path]:
    """A made store in a folder that everybody may enter."""
    folder = Path(tempfile.mkdtemp(prefix="qsched-file-"))
    folder.chmod(0o755)
    path = folder / "a store?#%41.db"  # a name that means something else in a URI
    open_store(_url(path), create=True).close()
    yield path
    folder.chmod(0o755)
    shutil.rmtree(folder)


def _epoch(store: Store) -> int:
    return store.read("r", lambda tx: int(tx.run("SELECT epoch FROM qsched_clusters").scalar_one()))


def _bytes(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _as_nobody(program: Program, path: Path, text: str) -> str:
    """What the program says, run without the right to write to the store's folder or file."""
    lower = ""
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        lower = f"os.setgroups([]); os.setgid({nobody.pw_gid}); os.setuid({nobody.pw_uid})"
    start = (
        "import os, sys, importlib\n"
        "from qsched.scheduler.errors import StoreError\n"
        "from qsched.scheduler.store.schema import open_store\n"
        "import sqlalchemy.dialects.sqlite, alembic.command\n"
        f"{lower}\n"
        "url = sys.argv[1]\n"
    )
    said, _ = program(start + text, _url(path)).communicate(timeout=60)
    return str(said).strip()


def test_the_file_is_write_ahead_and_fully_synchronous(file: Path) -> None:
    store = open_store(_url(file), create=False)
    assert store.read("r", lambda tx: {name: tx.run(f"PRAGMA {name}").scalar() for name in MODES}) == MODES
    store.close()


MODES = {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 0}


@pytest.mark.parametrize("left", [False, True])
def test_readers_change_no_byte_of_the_file(file: Path, left: bool, program: Program) -> None:
    if left:  # a process that was killed leaves what it wrote in the -wal file
        killed = program(HOLDER, str(file))
        assert killed.stdout is not None
        assert killed.stdout.readline() == "held\n"
        killed.kill()
        killed.wait()
    before = {path.name: _bytes(path) for path in file.parent.iterdir() if not path.name.endswith("-shm")}
    assert len(before) == 1 + left
    for _ in range(3):
        reader = open_store(_url(file), create=False, read_only=True)
        assert _epoch(reader) == 0
        reader.close()
    after = {path.name: _bytes(path) for path in file.parent.iterdir() if not path.name.endswith("-shm")}
    assert after == before
    assert left or not list(file.parent.glob("*-shm"))


def test_readers_see_what_writers_just_committed(file: Path) -> None:
    writer = open_store(_url(file), create=False)
    reader = open_store(_url(file), create=False, read_only=True)
    for expected in (1, 2):
        writer.transaction("w", lambda tx: tx.run(BUMP))
        assert _epoch(reader) == expected
    reader.close()
    writer.close()


def test_a_folder_that_must_not_be_written_to_can_be_read(file: Path, program: Program) -> None:
    file.chmod(0o444)
    file.parent.chmod(0o555)
    before = sorted(path.name for path in file.parent.iterdir())
    text = (
        "store = open_store(url, create=False, read_only=True)\n"
        "print(store.read('r', lambda tx: tx.run('SELECT name FROM qsched_clusters').scalar()))\n"
        "store.close()\n"
    )
    assert _as_nobody(program, file, text) == "default"
    assert sorted(path.name for path in file.parent.iterdir()) == before


def test_a_file_that_may_only_be_read_is_said_so_to_who_writes(file: Path, program: Program) -> None:
    file.chmod(0o444)
    text = (
        "try:\n"
        "    store = open_store(url, create=True)\n"
        "    store.transaction('w', lambda tx: tx.run('UPDATE qsched_clusters SET epoch = 1'))\n"
        "except StoreError as error:\n"
        "    print(type(error).__name__, '|', error, '|', error.hint)\n"
    )
    said = _as_nobody(program, file, text)
    assert said.startswith(("StoreError |", "StoreUnavailable |"))
    assert "may read and write the file and its folder" in said


def test_a_folder_that_is_missing_or_closed_is_named(file: Path, program: Program) -> None:
    with pytest.raises(StoreError, match="no folder") as caught:
        open_store(f"sqlite:///{file.parent}/none/x.db", create=True)
    assert not isinstance(caught.value, StoreMissing)
    assert caught.value.hint
    with pytest.raises(StoreMissing, match="no folder"):
        open_store(f"sqlite:///{file.parent}/none/x.db", create=False)
    file.parent.chmod(0o555)
    text = (
        "try:\n    open_store(url, create=True)\n"
        "except StoreError as error:\n    print(error, '|', error.hint)\n"
    )
    said = _as_nobody(program, file.parent / "new.db", text)
    assert "new.db cannot be made" in said
    assert f"let this user write to {file.parent}" in said


def test_something_that_is_no_database_is_said_so(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("not a database, " * 100)
    for options in ({"create": True}, {"create": False, "read_only": True}):
        with pytest.raises(StoreError, match="not a database") as caught:
            open_store(f"sqlite:///{other}", **options)  # type: ignore[arg-type]
        assert "name another" in str(caught.value.hint)
    assert other.read_text().startswith("not a database")


def test_a_file_that_is_deleted_under_a_store_does_not_come_back_empty(file: Path) -> None:
    store = open_store(_url(file), create=False)
    store.close()
    file.unlink()
    with pytest.raises(StoreError):
        store.transaction("w", lambda tx: tx.run(BUMP))
    assert not file.exists()


def test_a_relative_url_stays_with_the_folder_it_was_opened_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///here.db", create=True)
    store.close()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert _epoch(store) == 0
    store.close()
    assert (tmp_path / "here.db").exists()


def test_a_file_of_another_journal_mode_is_turned_to_write_ahead(file: Path) -> None:
    with sqlite3.connect(file) as plain:
        assert plain.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    plain.close()
    reader = open_store(_url(file), create=False, read_only=True)
    assert reader.read("r", lambda tx: tx.run("PRAGMA journal_mode").scalar()) == "delete"
    reader.close()
    writer = open_store(_url(file), create=False)
    assert writer.read("r", lambda tx: tx.run("PRAGMA journal_mode").scalar()) == "wal"
    writer.close()


def test_a_file_system_that_cannot_share_a_file_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "_pragma", lambda connection, text: "delete")
    with pytest.raises(StoreError, match="cannot hold a shared SQLite file") as caught:
        open_store(_url(file), create=False)
    assert "local disk" in str(caught.value.hint)


def test_a_full_disk_is_waited_out_and_not_in_doubt(file: Path) -> None:
    store = open_store(_url(file), create=False)
    store.read("r", lambda tx: tx.run("PRAGMA max_page_count = 1").scalar())
    with pytest.raises(StoreUnavailable, match="full") as caught:
        store.transaction(
            "w",
            lambda tx: tx.run(
                "INSERT INTO qsched_audit (cluster, at, verb, object, detail) VALUES (1, 1, 'v', 'o', ?)",
                "x" * 1_000_000,
            ),
        )
    assert "free space" in str(caught.value.hint)
    assert not caught.value.in_doubt
    store.read("r", lambda tx: tx.run("PRAGMA max_page_count = 100000").scalar())
    store.transaction("w", lambda tx: tx.run(BUMP))
    assert _epoch(store) == 1
    store.close()


HOLDER = """
import sqlite3, sys
holder = sqlite3.connect(sys.argv[1], isolation_level=None)
holder.execute("BEGIN IMMEDIATE")
holder.execute("UPDATE qsched_clusters SET epoch = epoch + 1")
print("held", flush=True)
sys.stdin.readline()
holder.execute("COMMIT")
"""


def test_a_process_that_holds_the_file_for_seconds_is_waited_for(
    file: Path, program: Program, long_form: bool
) -> None:
    store = open_store(_url(file), create=False)
    holder = program(HOLDER, str(file))
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    timer = threading.Timer(3.0 if long_form else 1.0, lambda: holder.communicate("go\n"))
    timer.start()
    assert _epoch(store) == 0  # readers never wait
    with pytest.raises(StoreUnavailable, match="stayed busy"):
        store.transaction("w", lambda tx: tx.run(BUMP), patience=0.05)
    store.transaction("w", lambda tx: tx.run(BUMP))
    assert _epoch(store) == 2
    timer.join()
    store.close()


WRITER = """
import sys
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND
store = open_store(sys.argv[1], create=False)
print("ready", flush=True)
written = 0
sys.stdin.readline()
import threading
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), done.set()), daemon=True).start()
while not done.is_set():
    store.transaction("w", lambda tx: tx.run("UPDATE qsched_clusters SET epoch = epoch + 1"))
    written += 1
print(written, flush=True)
store.close()
"""


@pytest.mark.alone
def test_a_check_in_gets_through_however_busy_the_others_are(
    file: Path, program: Program, long_form: bool
) -> None:
    # A check-in has a quarter of its lease. A busy machine may be slow: the real lease is for the long form.
    lease = 15 if long_form else 40
    store = open_store(_url(file), create=False, lease=lease * SECOND)
    writers = [program(WRITER, _url(file)) for _ in range(4 if long_form else 2)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    clock, done, own = SystemClock(), threading.Event(), [0]

    def busy() -> None:
        while not done.is_set():
            store.transaction("w", lambda tx: tx.run(BUMP))
            own[0] += 1

    threads = [threading.Thread(target=busy) for _ in range(4)]
    for thread in threads:
        thread.start()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    took = []
    try:
        for _ in range(60 if long_form else 25):
            begun = clock.monotonic()
            store.transaction("check in", lambda tx: tx.run(BUMP), urgent=True)
            took.append(clock.monotonic() - begun)
            clock.wait(threading.Event(), 0.05)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    theirs = [int(writer.communicate("stop\n", timeout=30)[0]) for writer in writers]
    assert max(took) < lease / 4
    assert min(theirs) > 0.05 * max(theirs), "no process starves another"
    assert _epoch(store) == sum(theirs) + own[0] + len(took)
    store.close()


def test_two_stores_of_one_process_share_the_file(file: Path) -> None:
    stores = [open_store(_url(file), create=False) for _ in range(2)]

    def run(store: Store) -> None:
        for _ in range(40):
            store.transaction("w", lambda tx: tx.run(BUMP))

    threads = [threading.Thread(target=run, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: _epoch(stores[0]) == 80, "both to be done")
    for store in stores:
        store.close()


def test_a_file_that_another_is_just_making_is_there(tmp_path: Path) -> None:
    """Of several that start at once one turns the new file over to its log, and nobody may read it meanwhile."""
    file = tmp_path / "qsched.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        other.execute("CREATE TABLE made (id INTEGER)")
        sqlite_file.make_file(file)
        other.execute("COMMIT")
    sqlite_file.make_file(file)
    with closing(sqlite3.connect(file)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("made",)]
