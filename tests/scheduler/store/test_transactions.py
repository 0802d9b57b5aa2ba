"""`Store.transaction` on the three databases: whole or nothing, repeated where that is right, and never in the way."""

import sqlite3
import threading
from collections.abc import Callable

import psycopg
import pymysql
import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.errors import StoreError, StoreUnavailable
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.dialects import SQLITE
from qsched.scheduler.store.schema import open_store
from qsched.scheduler.store.tables import clusters
from qsched.scheduler.store.tx import Tx
from sqlalchemy import exc


def _add(tx: Tx, name: str) -> None:
    tx.run("INSERT INTO qsched_clusters (name, uuid, created_at) VALUES (?, 'u', 1)", name)


def _names(store: Store) -> set[str]:
    return store.read("r", lambda tx: {row[0] for row in tx.run("SELECT name FROM qsched_clusters")})


def _bump(tx: Tx, name: str) -> int:
    return tx.run("UPDATE qsched_clusters SET epoch = epoch + 1 WHERE name = ?", name).rowcount


def _epoch(store: Store, name: str) -> int:
    return store.read(
        "r", lambda tx: int(tx.run("SELECT epoch FROM qsched_clusters WHERE name = ?", name).scalar_one())
    )


CLUSTER = ("name", "uuid", "created_at")


class Sour(Exception):
    """What a caller's own code raises."""


def _raising(error: BaseException) -> Callable[[Tx], None]:
    def work(tx: Tx) -> None:
        _add(tx, "half")
        raise error

    return work


def test_what_was_done_before_an_error_is_undone(store: Store) -> None:
    with pytest.raises(Sour):
        store.transaction("w", _raising(Sour()))
    assert _names(store) == {"default"}


def test_nothing_stays_locked_after_a_hundred_errors(store: Store, made_url: str) -> None:
    def work(tx: Tx) -> None:
        _bump(tx, "default")
        raise Sour

    for _ in range(100):
        with pytest.raises(Sour):
            store.transaction("w", work)
    other = open_store(made_url, create=False)
    assert other.transaction("w", lambda tx: _bump(tx, "default"), patience=1.0) == 1
    assert store.transaction("w", lambda tx: _bump(tx, "default"), patience=1.0) == 1
    other.close()


def test_ctrl_c_in_the_middle_leaves_nothing_behind(store: Store) -> None:
    with pytest.raises(KeyboardInterrupt):
        store.transaction("w", _raising(KeyboardInterrupt()))
    assert _names(store) == {"default"}
    store.transaction("w", lambda tx: _add(tx, "after"))


def test_bad_sql_is_a_store_error_that_shows_no_values(store: Store) -> None:
    with pytest.raises(StoreError) as caught:
        store.transaction("sums", lambda tx: tx.run("SELECT ? FROM nonsense ,,", "s3cret"))
    assert str(caught.value).startswith("sums: ")
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in str(caught.value.__cause__)
    assert not isinstance(caught.value, StoreUnavailable)


def test_a_null_where_none_may_be_names_the_column_and_not_the_row(store: Store) -> None:
    with pytest.raises(StoreError) as caught:
        store.transaction(
            "w", lambda tx: tx.run("INSERT INTO qsched_clusters (name, uuid) VALUES ('s3cret', 's3cret')")
        )
    assert "created_at" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_two_that_wait_for_each_other_both_arrive(store: Store) -> None:
    store.transaction("w", lambda tx: tx.insert(clusters, CLUSTER, [("a", "u", 1), ("b", "u", 1)]))
    meeting = threading.Barrier(2)
    met = threading.Event()
    runs: list[str] = []

    def work(first: str, second: str) -> Callable[[Tx], None]:
        def run(tx: Tx) -> None:
            runs.append(first)
            _bump(tx, first)
            if store.dialect is not SQLITE and not met.is_set():
                meeting.wait(10)  # both hold their first row: now each wants the other's
                met.set()
            _bump(tx, second)

        return run

    one = threading.Thread(target=store.transaction, args=("w", work("a", "b")))
    two = threading.Thread(target=store.transaction, args=("w", work("b", "a")))
    for thread in (one, two):
        thread.start()
    for thread in (one, two):
        thread.join()
    assert (_epoch(store, "a"), _epoch(store, "b")) == (2, 2)
    if store.dialect is not SQLITE:
        assert len(runs) == 3, "the deadlock's victim ran once more"


def test_a_lock_held_for_longer_than_the_time_out_is_waited_for(made_url: str) -> None:
    held, done = threading.Event(), threading.Event()
    holder = open_store(made_url, create=True)
    waiter = open_store(made_url, create=False, lease=4_000_000)  # lock time-out: 1 s

    def hold(tx: Tx) -> None:
        _bump(tx, "default")
        held.set()
        done.wait(20)

    thread = threading.Thread(target=holder.transaction, args=("hold", hold))
    thread.start()
    assert held.wait(10)
    with pytest.raises(StoreUnavailable, match="stayed busy") as caught:
        waiter.transaction("w", lambda tx: _bump(tx, "default"), patience=0.2)
    assert not caught.value.in_doubt
    runs: list[int] = []

    def late(tx: Tx) -> int:
        runs.append(1)
        if len(runs) == 2:
            done.set()
        return _bump(tx, "default")

    if holder.dialect is SQLITE:
        threading.Timer(0.3, done.set).start()  # the lock is taken by BEGIN, before `late` can run
    assert waiter.transaction("w", late) == 1
    thread.join()
    assert _epoch(waiter, "default") == 2
    waiter.close()
    holder.close()


def test_reading_sees_what_is_committed_and_only_that(store: Store, made_url: str) -> None:
    other = open_store(made_url, create=False)

    def work(tx: Tx) -> set[str]:
        _add(tx, "mine")
        return _names(other)

    assert store.transaction("w", work) == {"default"}
    assert _names(other) == {"default", "mine"}
    other.close()


def test_time_is_the_databases_and_one_instant_in_a_transaction(store: Store) -> None:
    def work(tx: Tx) -> tuple[int, int, int]:
        seen = tx.run(f"SELECT {tx.now_column}").scalar_one()
        return tx.now(), tx.now(), tx.saw_now(seen)

    first, again, saw = store.transaction("w", work)
    assert first == again == saw
    later = store.read("r", lambda tx: tx.now())
    assert 0 < later - first < 60_000_000


def test_a_given_clock_replaces_the_databases(made_url: str) -> None:
    store = open_store(made_url, create=True, now=lambda: 42)

    def work(tx: Tx) -> tuple[int, int]:
        return tx.saw_now(tx.run(f"SELECT {tx.now_column}").scalar_one()), tx.now()

    assert store.transaction("w", work) == (42, 42)
    store.close()


def test_many_threads_lose_no_update(store: Store) -> None:
    def run() -> None:
        for _ in range(15):
            store.transaction("w", lambda tx: _bump(tx, "default"))
            store.transaction("w", lambda tx: _bump(tx, "default"), urgent=True)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _epoch(store, "default") == 180


def test_a_store_that_was_closed_opens_itself_again(store: Store) -> None:
    store.close()
    store.close()
    assert _names(store) == {"default"}


def test_a_raw_connection_is_the_callers_own(store: Store) -> None:
    raw = store.connection()
    cursor = raw.cursor()
    cursor.execute("SELECT 1")
    assert cursor.fetchone()[0] == 1
    cursor.close()
    if store.dialect is not SQLITE:
        raw.close()
        again = store.connection()
        assert again.dbapi_connection is not raw.dbapi_connection
        again.close()


def test_reading_only_refuses_to_write(made_url: str) -> None:
    open_store(made_url, create=True).close()
    reader = open_store(made_url, create=False, read_only=True)
    with pytest.raises(StoreError, match="reading only"):
        reader.transaction("w", lambda tx: _add(tx, "x"))
    with pytest.raises(StoreError):
        reader.read("r", lambda tx: _add(tx, "x"))
    assert _names(reader) == {"default"}
    reader.close()


def test_a_transaction_inside_another_is_told_off_where_it_would_wait_for_ever(store: Store) -> None:
    def work(tx: Tx) -> set[str]:
        return _names(store)

    if store.dialect is SQLITE:
        with pytest.raises(RuntimeError, match="inside another"):
            store.transaction("w", work)
    assert _names(store) == {"default"}


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_text_that_no_database_can_hold_is_no_lost_connection(store: Store, text: str) -> None:
    unavailable = False
    try:
        store.transaction(
            "w", lambda tx: tx.insert(clusters, ("name", "uuid", "created_at"), [(text, "u", 1)])
        )
    except StoreUnavailable:
        unavailable = True
    except (StoreError, UnicodeError):
        pass  # SQLite and MariaDB keep a NUL
    assert not unavailable
    assert "default" in _names(store)


def _fault(code: object) -> exc.DBAPIError:
    """The error that SQLAlchemy raises when the driver says `code`."""
    cause: Exception
    if isinstance(code, str):
        cause = psycopg.OperationalError("injected")
        cause.sqlstate = code
    elif code == sqlite3.SQLITE_BUSY:
        cause = sqlite3.OperationalError("database is locked")
        cause.sqlite_errorcode = sqlite3.SQLITE_BUSY
    else:
        cause = pymysql.err.OperationalError(code, "injected")
    return exc.OperationalError("injected", (), cause)


FAULTS: dict[str, list[object]] = {
    "postgresql": ["40001", "40P01", "55P03"],
    "mariadb": [1213, 1205, 1020],
    "sqlite": [sqlite3.SQLITE_BUSY] * 3,
}


@pytest.mark.parametrize("place", range(4))
def test_three_faults_at_any_statement_change_nothing_in_the_result(store: Store, place: int) -> None:
    faults = list(FAULTS[store.dialect.name])

    def work(tx: Tx) -> int:
        def meet_a_fault(here: int) -> None:
            if here == place and faults:
                raise _fault(faults.pop())

        meet_a_fault(0)
        _add(tx, "a")
        meet_a_fault(1)
        ids = tx.insert_ids(clusters, CLUSTER, [("b", "u", 1), ("c", "u", 1)])
        meet_a_fault(2)
        _bump(tx, "default")
        meet_a_fault(3)
        return len(ids)

    assert store.transaction("w", work) == 2
    assert not faults
    assert _names(store) == {"default", "a", "b", "c"}
    assert _epoch(store, "default") == 1


def test_a_check_in_gives_up_after_a_quarter_of_the_lease(made_url: str) -> None:
    store = open_store(made_url, create=True, lease=2_000_000)
    store.transaction("connect", lambda tx: _bump(tx, "default"), urgent=True)
    clock, runs = SystemClock(), []

    def work(tx: Tx) -> None:
        runs.append(clock.monotonic())
        raise _fault(FAULTS[store.dialect.name][0])

    with pytest.raises(StoreUnavailable, match="stayed busy"):
        store.transaction("check in", work, urgent=True)
    assert len(runs) > 3
    assert runs[-1] - runs[0] < 5
    store.close()
