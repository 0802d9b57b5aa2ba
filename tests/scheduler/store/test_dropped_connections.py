"""Connections that outlived their server: what one met no other meets again, and nothing stays open, idle or locked."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from qsched.scheduler.errors import StoreError, StoreUnavailable
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.dialects import MARIADB, POSTGRESQL
from qsched.scheduler.store.schema import open_store
from qsched.scheduler.store.tx import Tx
from sqlalchemy import Connection, event

from support.waiting import wait_until

BUMP = "UPDATE qsched_clusters SET epoch = epoch + 1"
SESSION = {POSTGRESQL: "SELECT pg_backend_pid()", MARIADB: "SELECT CONNECTION_ID()"}
END = {POSTGRESQL: "SELECT pg_terminate_backend({})", MARIADB: "KILL {}"}
SLOW = {POSTGRESQL: "SELECT pg_sleep(5)", MARIADB: "SELECT SLEEP(5)"}
READ_ONLY = {
    POSTGRESQL: "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    MARIADB: "SET SESSION TRANSACTION READ ONLY",
}
OURS = {
    POSTGRESQL: "SELECT pid, state FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    MARIADB: "SELECT p.id, CASE WHEN t.trx_id IS NULL THEN 'idle' ELSE 'idle in transaction' END"
    " FROM information_schema.processlist p"
    " LEFT JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id"
    " WHERE p.db = DATABASE() AND p.id <> CONNECTION_ID()",
}
"""Everybody else's sessions on this database."""


@pytest.fixture(params=["postgresql", "mariadb"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Store, Store]]:
    """A store, and another that looks at what it does to the server."""
    yield from _new_pair(request.getfixturevalue(f"made_{request.param}"))


@pytest.fixture
def postgresql_pair(made_postgresql: Any) -> Iterator[tuple[Store, Store]]:
    """The same on PostgreSQL, whose connections are told to give up instead of being cut off."""
    yield from _new_pair(made_postgresql)


def _new_pair(made: Any) -> Iterator[tuple[Store, Store]]:
    made.empty()
    with ExitStack() as stack:
        stores = [open_store(made.url, create=True) for _ in range(2)]
        for store in stores:
            stack.callback(store.close)
        yield stores[0], stores[1]


def _session(tx: Tx) -> int:
    return int(tx.run(SESSION[tx.dialect]).scalar_one())


def _states(other: Store) -> dict[int, str]:
    return {
        int(session): str(state)
        for session, state in other.read("r", lambda tx: tx.rows(OURS[other.dialect]))
    }


def _end(other: Store, *sessions: int) -> None:
    for session in sessions:
        with suppress(StoreError):
            other.read("end", lambda tx, s=session: tx.run(END[tx.dialect].format(s)))  # type: ignore[misc]
    wait_until(lambda: not set(sessions) & _states(other).keys(), "the sessions to end")


def _side_by_side(store: Store, count: int, work: Callable[[Tx], Any] = _session) -> list[Any]:
    """What so many transactions answer that are open at the same time, each on a connection of its own."""
    together = threading.Barrier(count, timeout=30)
    answers: list[Any] = []

    def run() -> None:
        def each(tx: Tx) -> Any:
            answer = work(tx)
            together.wait()
            return answer

        answers.append(store.transaction("side by side", each))

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


def test_connections_that_became_read_only_are_left_for_new_ones(pair: tuple[Store, Store]) -> None:
    """A fail-over: what is connected still answers, and takes no writes any more; new connections do."""
    store, other = pair
    old = _side_by_side(store, 4, lambda tx: (_session(tx), tx.run(READ_ONLY[tx.dialect]))[0])
    old.append(
        store.transaction("w", lambda tx: (_session(tx), tx.run(READ_ONLY[tx.dialect]))[0], urgent=True)
    )
    assert len(set(old)) == 5
    store.transaction("w", lambda tx: tx.run(BUMP))  # nobody learns of it
    store.transaction("w", lambda tx: tx.run(BUMP), urgent=True)
    for _ in range(10):
        assert store.transaction("w", lambda tx: (tx.run(BUMP), _session(tx))[1]) not in old
    wait_until(lambda: not set(old) & _states(other).keys(), "the old sessions to be left")


def test_a_connection_in_use_while_the_others_were_dropped_is_closed_when_it_comes_back(
    pair: tuple[Store, Store],
) -> None:
    store, other = pair
    inside, go_on = threading.Event(), threading.Event()
    held: list[int] = []

    def hold(tx: Tx) -> None:
        held.append(_session(tx))
        inside.set()
        assert go_on.wait(30)
        tx.run(BUMP)

    thread = threading.Thread(target=store.transaction, args=("hold", hold))
    thread.start()
    assert inside.wait(30)
    _end(other, store.transaction("s", _session))
    store.transaction("w", lambda tx: tx.run(BUMP))  # finds it dead, and drops what is idle
    go_on.set()
    thread.join(30)
    wait_until(lambda: held[0] not in _states(other), "its session to be left")


def test_a_check_in_that_lost_its_connection_drops_the_working_ones_and_not_the_other_way_about(
    pair: tuple[Store, Store],
) -> None:
    store, other = pair
    working = _side_by_side(store, 3)
    checking = store.transaction("s", _session, urgent=True)
    _end(other, checking)
    fresh = store.transaction("s", _session, urgent=True)
    assert store.transaction("s", _session) not in working
    _end(other, *_side_by_side(store, 2))
    store.transaction("s", _session)
    assert store.transaction("s", _session, urgent=True) == fresh  # it holds the node's session lock


def test_what_a_library_does_after_its_connection_was_lost_is_no_error_of_its_own(
    pair: tuple[Store, Store],
) -> None:
    """A server that is stopped while the schema is made: the node that makes it waits, as for any lost connection."""
    store, other = pair

    def work(conn: Connection) -> None:
        _end(other, _session(Tx(conn, store.dialect, 0, None)))
        try:
            conn.exec_driver_sql("SELECT 1")
        finally:
            conn.exec_driver_sql("SELECT 'cleaned up'")

    with pytest.raises(StoreUnavailable) as caught:
        store.change_schema("make the schema", work)
    assert not caught.value.in_doubt
    assert "rollback() fully" not in str(caught.value)


def test_a_call_that_waits_in_vain_is_cut_when_check_ins_land_again(pair: tuple[Store, Store]) -> None:
    store, _ = pair
    store.lease = 400_000  # whoever waits longer than a tenth of a second is cut
    runs: list[int] = []
    waiting = threading.Event()

    def work(tx: Tx) -> None:
        runs.append(_session(tx))
        if len(runs) == 1:
            waiting.set()
            tx.run(SLOW[tx.dialect])
        tx.run(BUMP)

    thread = threading.Thread(target=store.transaction, args=("w", work))
    thread.start()
    assert waiting.wait(30)
    while thread.is_alive() and len(runs) == 1:
        store.cut_silent()
        thread.join(0.05)
    thread.join(30)
    assert len(set(runs)) == 2  # done again, over another connection
    assert store.read("r", lambda tx: tx.run("SELECT epoch FROM qsched_clusters").scalar()) == 1


def test_a_call_that_was_answered_when_it_was_to_be_cut_costs_the_next_one_nothing(
    postgresql_pair: tuple[Store, Store],
) -> None:
    store, _ = postgresql_pair
    store.lease = 0  # whatever is under way has waited too long

    def answered(tx: Tx) -> int:
        session = _session(tx)
        store.cut_silent()
        return session

    before = store.transaction("w", answered)
    slow = lambda tx: (tx.run("SELECT pg_sleep(0.5)").all(), _session(tx))[1]  # noqa: E731
    assert store.transaction("w", slow) == before  # and not over a new connection


def test_a_commit_is_put_in_doubt_by_its_own_silence_only(pair: tuple[Store, Store]) -> None:
    store, _ = pair
    store.transaction("w", lambda tx: tx.run(BUMP))
    store.lease = 1_200_000
    slow = {POSTGRESQL: "SELECT pg_sleep(0.4)", MARIADB: "SELECT SLEEP(0.4)"}
    # Check-ins land again at the moment at which COMMIT is sent.
    event.listen(store._engines["work"], "commit", lambda conn: store.cut_silent())
    store.transaction("w", lambda tx: (tx.run(slow[tx.dialect]).all(), tx.run(BUMP)))
    assert store.read("r", lambda tx: tx.run("SELECT epoch FROM qsched_clusters").scalar()) == 2


def test_a_thousand_operations_with_faults_leave_no_connection_open_in_a_transaction(
    pair: tuple[Store, Store], long_form: bool
) -> None:
    """Bugs, deadlocks' victims, refused rows and killed sessions, from six threads and a check-in."""
    store, other = pair
    each = (1000 if long_form else 210) // 7
    errors: list[BaseException] = []

    def operate(seed: int, urgent: bool) -> None:
        chance = random.Random(seed)
        for _ in range(each):
            try:
                store.transaction("w", lambda tx: _mistreated(tx, other, chance), urgent=urgent)
            except (StoreError, ZeroDivisionError):
                pass
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=operate, args=(seed, seed == 6)) for seed in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert not errors
    assert not any(thread.is_alive() for thread in threads)
    assert [engine.pool.checkedout() for engine in store._engines.values()] == [0, 0]  # type: ignore[attr-defined]
    assert not store._busy
    store.transaction("w", lambda tx: tx.run(BUMP))
    wait_until(
        lambda: not any(state.startswith("idle in transaction") for state in _states(other).values()),
        "no session to be idle in a transaction",
    )


def _mistreated(tx: Tx, other: Store, chance: random.Random) -> None:
    for _ in range(3):
        tx.run(f"{BUMP} WHERE id = 1")
        fault = chance.randrange(24)
        if fault == 0:
            raise ZeroDivisionError
        if fault == 1:
            tx.run("INSERT INTO qsched_clusters (name, uuid, created_at) VALUES ('default', 'u', 1)")
        if fault == 2:
            tx.run("SELECT nothing FROM nowhere")
        if fault == 3:
            statement = END[tx.dialect].format(_session(tx))
            with suppress(StoreError):
                other.read("end", lambda tx, s=statement: tx.run(s))  # type: ignore[misc]


def test_a_pool_that_is_used_up_says_so_and_the_check_in_has_its_own(pair: tuple[Store, Store]) -> None:
    store, _ = pair
    store.close()
    store.lease = 4_000_000  # its pool waits for a second
    full, go_on = threading.Barrier(11, timeout=30), threading.Event()

    def hold(tx: Tx) -> None:
        full.wait()
        assert go_on.wait(30)

    threads = [threading.Thread(target=store.read, args=("hold", hold)) for _ in range(10)]
    for thread in threads:
        thread.start()
    full.wait()
    with pytest.raises(StoreUnavailable, match="no connection became free"):
        store.transaction("w", lambda tx: tx.run(BUMP))
    for _ in range(3):
        store.transaction("check-in", lambda tx: tx.run(BUMP), urgent=True)
    go_on.set()
    for thread in threads:
        thread.join(30)
    store.transaction("w", lambda tx: tx.run(BUMP))
