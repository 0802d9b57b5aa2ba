"""A server that is frozen, or that nothing comes back from: every call ends, and says whether its COMMIT is in doubt."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import psycopg
import pymysql
import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.errors import StoreUnavailable
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.deadline import _bounded
from qsched.scheduler.store.schema import open_store
from qsched.scheduler.store.tx import Tx

from support.servers import MariaServer, PostgresServer, Server
from support.waiting import wait_until

BUMP = "UPDATE qsched_clusters SET epoch = epoch + 1"
LEASE = 1_200_000
_clock = SystemClock()


@pytest.fixture(scope="module", params=[PostgresServer, MariaServer])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One that a test may freeze, and thaws itself."""
    with request.param() as started:
        yield started


@pytest.fixture
def store(server: Any) -> Iterator[Store]:
    opened = open_store(server.new_database(), create=True, lease=LEASE)
    for urgent in (False, True):
        _bump(opened, urgent=urgent)
    with ExitStack() as stack:
        stack.callback(opened.close)
        stack.callback(server.resume)
        yield opened


def _epoch(store: Store) -> int:
    return store.read("r", lambda tx: int(tx.run("SELECT epoch FROM qsched_clusters").scalar_one()))


def _bump(store: Store, *, urgent: bool = False) -> None:
    """Until it is done: a busy machine may need longer to connect than this short lease gives a check-in."""

    def done() -> bool:
        with suppress(StoreUnavailable):
            store.transaction("w", lambda tx: tx.run(BUMP), urgent=urgent)
            return True
        return False

    wait_until(done, "a transaction")


def _thawed(server: Server, store: Store) -> int:
    server.resume()
    return _epoch(store)


def _given_up(call: Callable[[], object]) -> tuple[StoreUnavailable, float]:
    began = _clock.monotonic()
    with pytest.raises(StoreUnavailable) as caught:
        call()
    return caught.value, _clock.monotonic() - began


@pytest.mark.parametrize("urgent", [True, False])
def test_a_statement_that_a_frozen_server_does_not_answer_is_given_up(
    server: Server, store: Store, urgent: bool
) -> None:
    server.pause()
    error, took = _given_up(lambda: store.transaction("w", lambda tx: tx.run(BUMP), urgent=urgent))
    assert not error.in_doubt
    assert took < 20  # without a deadline: for ever
    before = _thawed(server, store)
    _bump(store, urgent=urgent)
    assert _epoch(store) > before


@pytest.mark.parametrize("urgent", [True, False])
def test_a_commit_that_a_frozen_server_does_not_answer_is_in_doubt(
    server: Server, store: Store, urgent: bool
) -> None:
    def work(tx: Tx) -> None:
        tx.run(BUMP)
        server.pause()

    error, took = _given_up(lambda: store.transaction("w", work, urgent=urgent))
    assert error.in_doubt
    assert took < 20
    before = _thawed(server, store)
    _bump(store)  # nobody holds its lock for ever
    assert _epoch(store) > before


def test_a_read_that_a_frozen_server_does_not_answer_is_given_up(server: Server, store: Store) -> None:
    server.pause()
    error, took = _given_up(lambda: _epoch(store))
    assert not error.in_doubt
    assert took < 20


@pytest.mark.parametrize("scheme", ["postgresql", "mariadb"])
@pytest.mark.parametrize("urgent", [True, False])
def test_a_connection_that_nobody_answers_is_given_up(scheme: str, urgent: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # the kernel takes calls, and that is all
        store = Store(f"{scheme}://u:p@127.0.0.1:{deaf.getsockname()[1]}/d", lease=LEASE)
        error, took = _given_up(lambda: store.read("r", lambda tx: tx.run("SELECT 1"), urgent=urgent))
        assert not error.in_doubt
        assert took < 20
        store.close()


def test_answers_in_time_cost_a_connection_nothing(server: Server, store: Store) -> None:
    slow = "SELECT pg_sleep(0.6)" if isinstance(server, PostgresServer) else "SELECT SLEEP(0.6)"
    # Each within the deadline, all of them together not.
    store.transaction("w", lambda tx: [tx.run(slow).all(), tx.run(slow).all(), tx.run(slow).all()])


def test_an_answer_that_is_there_after_a_long_stop_is_an_answer() -> None:
    def query() -> Any:
        while not (yield 1):
            pass
        return "rows"

    waiting = _bounded(query(), 0.0, None)
    next(waiting)
    with pytest.raises(StopIteration) as ended:
        waiting.send(1)  # the deadline has passed, and something has come
    assert ended.value.value == "rows"

    waiting = _bounded(query(), 0.0, None)
    next(waiting)
    with pytest.raises(psycopg.OperationalError, match="did not answer"):
        waiting.send(0)


def test_a_mariadb_that_is_away_is_asked_again_without_reading_certificates_again(
    monkeypatch: pytest.MonkeyPatch, mariadb: MariaServer
) -> None:
    made: list[Any] = []
    driver: Any = pymysql.connections.Connection
    real = driver._create_ssl_ctx

    def reads(*said: Any) -> Any:
        made.append(said)
        return real(*said)

    monkeypatch.setattr(driver, "_create_ssl_ctx", reads)
    away = Store("mariadb://u:p@127.0.0.1:1/d?ssl_disabled=false")
    for _ in range(5):
        _given_up(lambda: away.read("r", lambda tx: tx.run("SELECT 1"), urgent=True))
    assert len(made) == 1
    away.close()
    there = Store(mariadb.url, lease=LEASE)
    raw = there.connection()
    assert raw.dbapi_connection._read_timeout == 1.5  # and not what a connection may take
    raw.close()
    there.close()
