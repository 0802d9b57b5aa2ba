"""Real errors of real servers, and what the store makes of them: repeated, replaced, in doubt, or told."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.errors import StoreError, StoreUnavailable
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.dialects import MARIADB, POSTGRESQL
from qsched.scheduler.store.schema import open_store
from qsched.scheduler.store.tx import Tx

from support.servers import MariaServer, PostgresServer, Server
from support.waiting import wait_until

BUMP = "UPDATE qsched_clusters SET epoch = epoch + 1"
SESSION = {POSTGRESQL: "SELECT pg_backend_pid()", MARIADB: "SELECT CONNECTION_ID()"}
END = {POSTGRESQL: "SELECT pg_terminate_backend({})", MARIADB: "KILL {}"}
CANCEL = {POSTGRESQL: "SELECT pg_cancel_backend({})", MARIADB: "KILL QUERY {}"}


@pytest.fixture(params=["postgresql", "mariadb"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Store, Store]]:
    """A store, and another on the same database that can do something to its sessions."""
    made = request.getfixturevalue(f"made_{request.param}")
    made.empty()
    with ExitStack() as stack:
        stores = [open_store(made.url, create=True) for _ in range(2)]
        for store in stores:
            stack.callback(store.close)
        yield stores[0], stores[1]


def _session(tx: Tx) -> int:
    return int(tx.run(SESSION[tx.dialect]).scalar_one())


def _do(store: Store, verb: dict[Any, str], session: int) -> None:
    store.read("do", lambda tx: tx.run(verb[store.dialect].format(session)))


def _gone(other: Store, session: int) -> bool:
    listing = {
        POSTGRESQL: "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = ?",
        MARIADB: "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ?",
    }
    return other.read("r", lambda tx: tx.run(listing[other.dialect], session).scalar()) == 0


def _end(other: Store, session: int) -> None:
    _do(other, END, session)
    wait_until(lambda: _gone(other, session), "the session to end")


def _epoch(store: Store) -> int:
    return store.read("r", lambda tx: int(tx.run("SELECT epoch FROM qsched_clusters").scalar_one()))


@pytest.mark.parametrize("urgent", [False, True])
def test_a_connection_that_died_idle_is_replaced_and_nobody_learns_of_it(
    pair: tuple[Store, Store], urgent: bool
) -> None:
    store, other = pair
    for _ in range(2):
        _end(other, store.transaction("s", _session, urgent=urgent))
        store.transaction("w", lambda tx: tx.run(BUMP), urgent=urgent)
    assert _epoch(store) == 2


def test_a_connection_that_dies_in_the_middle_is_replaced_and_all_of_it_done_again(
    pair: tuple[Store, Store],
) -> None:
    store, other = pair
    runs: list[int] = []

    def work(tx: Tx) -> None:
        tx.run(BUMP)
        runs.append(_session(tx))
        if len(runs) == 1:
            _end(other, runs[0])
        tx.run(BUMP)

    store.transaction("w", work)
    assert len(set(runs)) == 2
    assert _epoch(store) == 2


def test_a_connection_that_dies_again_and_again_is_told(pair: tuple[Store, Store]) -> None:
    store, other = pair
    runs: list[int] = []

    def work(tx: Tx) -> None:
        runs.append(1)
        tx.run(BUMP)
        _end(other, _session(tx))
        tx.run(BUMP)

    with pytest.raises(StoreUnavailable) as caught:
        store.transaction("w", work)
    assert not caught.value.in_doubt
    assert len(runs) == 2
    assert _epoch(store) == 0


def test_a_lost_answer_to_commit_is_in_doubt_and_never_repeated(pair: tuple[Store, Store]) -> None:
    store, other = pair
    runs: list[int] = []

    def work(tx: Tx) -> None:
        runs.append(1)
        tx.run(BUMP)
        _end(other, _session(tx))  # COMMIT will be the statement that finds out

    with pytest.raises(StoreUnavailable) as caught:
        store.transaction("w", work)
    assert caught.value.in_doubt
    assert runs == [1]
    store.transaction("w", lambda tx: tx.run(BUMP))
    assert _epoch(store) == 1


def test_a_statement_that_somebody_cancels_is_repeated(pair: tuple[Store, Store]) -> None:
    store, other = pair
    slow = {POSTGRESQL: "SELECT pg_sleep(30)", MARIADB: "SELECT SLEEP(30) FROM qsched_clusters"}
    sessions: list[int] = []

    def work(tx: Tx) -> None:
        sessions.append(_session(tx))
        tx.run(BUMP)
        if len(sessions) == 1:
            tx.run(slow[tx.dialect] if tx.dialect is POSTGRESQL else f"{BUMP} WHERE SLEEP(30) = 0")

    thread = threading.Thread(target=store.transaction, args=("w", work))
    thread.start()
    wait_until(lambda: sessions, "the transaction to begin")
    busy = {
        POSTGRESQL: "SELECT COUNT(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'",
        MARIADB: "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'",
    }
    wait_until(
        lambda: other.read("r", lambda tx: tx.run(busy[tx.dialect].replace("%", "%%")).scalar()) == 1,
        "it to sleep",
    )
    _do(other, CANCEL, sessions[0])
    thread.join(20)
    assert not thread.is_alive()
    assert len(sessions) == 2
    assert _epoch(store) == 1


def test_a_statement_beyond_its_deadline_is_given_up(pair: tuple[Store, Store], request: Any) -> None:
    store, _ = pair
    short = Store(store.url.render_as_string(hide_password=False), lease=1_000_000)
    slow = {POSTGRESQL: "SELECT pg_sleep(30)", MARIADB: "SELECT SLEEP(30)"}
    with pytest.raises(StoreUnavailable, match="stayed busy") as caught:
        short.transaction("w", lambda tx: tx.run(slow[tx.dialect]), patience=0.1)
    assert not caught.value.in_doubt
    short.close()


def test_a_stopped_node_cannot_keep_its_locks(pair: tuple[Store, Store]) -> None:
    store, _ = pair
    stopped = Store(store.url.render_as_string(hide_password=False), lease=2_000_000)
    taken, over = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def hold(tx: Tx) -> None:
        tx.run(BUMP)
        if not taken.is_set():
            taken.set()
            over.wait(20)
        tx.run(BUMP)

    def run() -> None:
        try:
            stopped.transaction("hold", hold)
        except StoreUnavailable as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert taken.wait(10)
    store.transaction("w", lambda tx: tx.run(BUMP))  # the server ends the idle session after half a lease
    over.set()
    thread.join(20)
    assert _epoch(store) + 2 * len(errors) == 3
    stopped.close()


@pytest.mark.parametrize("make", [PostgresServer, MariaServer])
def test_a_server_that_goes_away_and_comes_back(make: Callable[[], Server]) -> None:
    with make() as server:
        url = server.new_database()  # type: ignore[attr-defined]
        store = open_store(url, create=True)
        server.stop()
        for _ in range(2):
            with pytest.raises(StoreUnavailable) as caught:
                store.transaction("w", lambda tx: tx.run(BUMP))
            assert not caught.value.in_doubt
        assert "check that the server runs" in str(caught.value.hint)
        with pytest.raises(StoreUnavailable):
            open_store(url, create=True)
        server.start()
        store.transaction("w", lambda tx: tx.run(BUMP))
        assert _epoch(store) == 1
        server.kill()
        with pytest.raises(StoreUnavailable):
            store.transaction("w", lambda tx: tx.run(BUMP))
        store.close()


def test_a_server_that_turned_read_only_is_out_of_reach_for_now(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    store = open_store(url, create=True)
    postgres.execute(f"ALTER DATABASE {url.rpartition('/')[2]} SET default_transaction_read_only = on")  # type: ignore[arg-type]
    store.close()
    with pytest.raises(StoreUnavailable, match="read-only"):
        store.transaction("w", lambda tx: tx.run(BUMP))
    postgres.execute(f"ALTER DATABASE {url.rpartition('/')[2]} RESET default_transaction_read_only")  # type: ignore[arg-type]
    store.transaction("w", lambda tx: tx.run(BUMP))  # on a new connection
    store.close()


def _refusal(url: str, *, create: bool = True) -> StoreError:
    with pytest.raises(StoreError) as caught:
        open_store(url, create=create, lease=4_000_000)
    said = f"{caught.value} {caught.value.hint} {caught.value.__cause__!r} {caught.value.__cause__}"
    assert "s3cret" not in said
    assert caught.value.hint
    return caught.value


def test_refusals_of_postgresql_name_the_next_step(postgres: PostgresServer) -> None:
    where = f"127.0.0.1:{postgres.port}"
    error = _refusal(f"postgresql://nobody:s3cret@{where}/postgres")
    assert not isinstance(error, StoreUnavailable)
    assert "create the user" in str(error.hint)
    error = _refusal(f"postgresql://qsched:s3cret@{where}/nowhere")
    assert "CREATE DATABASE" in str(error.hint)
    error = _refusal("postgresql://qsched:s3cret@127.0.0.1:1/x")
    assert isinstance(error, StoreUnavailable)
    assert "check that the server runs" in str(error.hint)
    error = _refusal("postgresql://qsched:s3cret@no-such-host.invalid/x")
    assert "check the host name" in str(error.hint)


def test_a_wrong_password_is_said_and_not_shown(tmp_path: Path) -> None:
    with PostgresServer() as server:
        server.execute("ALTER USER qsched PASSWORD 'right'")  # type: ignore[arg-type]
        rules = server.folder / "data" / "pg_hba.conf"
        rules.write_text("host all all 127.0.0.1/32 scram-sha-256\n")
        server.execute("SELECT pg_reload_conf()")  # type: ignore[arg-type]
        where = f"127.0.0.1:{server.port}/postgres"
        wait_until(lambda: _is_refused(f"postgresql://qsched@{where}"), "the new rules to hold")
        assert "password" in str(_refusal(f"postgresql://qsched:s3cret@{where}").hint)
        open_store(f"postgresql://qsched:right@{where}", create=True).close()


def _is_refused(url: str) -> bool:
    store = Store(url)
    try:
        store.read("r", lambda tx: tx.run("SELECT 1"))
    except StoreError:
        return True
    finally:
        store.close()
    return False


def test_refusals_of_mariadb_name_the_next_step(mariadb: MariaServer) -> None:
    where = f"127.0.0.1:{mariadb.port}"
    error = _refusal(f"mariadb://qsched:s3cret@{where}/mysql")
    assert not isinstance(error, StoreUnavailable)
    assert "check user and password" in str(error.hint)
    assert "CREATE DATABASE" in str(_refusal(f"mariadb://qsched:qsched@{where}/nowhere").hint)
    assert "name the database" in str(_refusal(f"mariadb://qsched:qsched@{where}").hint)
    error = _refusal("mariadb://qsched:s3cret@127.0.0.1:1/x")
    assert isinstance(error, StoreUnavailable)
    assert "check that the server runs" in str(error.hint)
    assert "check the host name" in str(_refusal("mariadb://qsched:s3cret@no-such-host.invalid/x").hint)


def test_whoever_may_not_make_tables_is_told_what_may_be_done(
    postgresql_url: str, mariadb_url: str, postgres: PostgresServer, mariadb: MariaServer
) -> None:
    postgres.execute("DROP ROLE IF EXISTS reader")  # type: ignore[arg-type]
    postgres.execute("CREATE ROLE reader LOGIN")  # type: ignore[arg-type]
    name = mariadb_url.rpartition("/")[2]
    mariadb.execute("CREATE OR REPLACE USER reader", f"GRANT SELECT ON {name}.* TO reader")
    for url in (
        postgresql_url.replace("qsched@", "reader@"),
        mariadb_url.replace("qsched:qsched@", "reader@"),
    ):
        error = _refusal(url)
        assert not isinstance(error, StoreUnavailable)
        assert "qsched db sql" in str(error.hint)


def test_the_store_never_prints_its_password() -> None:
    store = Store("postgresql://u:s3cret@h/d")
    assert "s3cret" not in repr(store) + str(store) + repr(store.url) + str(store.url)
