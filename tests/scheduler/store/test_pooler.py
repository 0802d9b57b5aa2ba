"""Behind a pooler (B52): one that drops the session's time-outs is refused, and nothing is prepared on sessions it may change."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from qsched.scheduler.errors import StoreError
from qsched.scheduler.store import deadline
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store

IDLE = "idle_in_transaction_session_timeout"


@pytest.fixture
def pooler(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A pooler that lets in whoever it is (`ignore_startup_parameters = options`), and gives keys of its own."""

    answering = deadline.answering

    def without_options(*within: float | None) -> Any:
        connect = answering(*within)

        def ignoring(*given: Any, options: str, **others: Any) -> Any:
            del options
            return connect(*given, **others)

        return ignoring

    monkeypatch.setattr(deadline, "answering", without_options)
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", property(lambda _: 987654))
    return monkeypatch


@pytest.fixture
def role_sets(postgresql_url: str) -> Iterator[Any]:
    """Sets the time-out for whoever connects to the test's database."""
    plain = postgresql_url.replace("postgresql+psycopg", "postgresql")

    def run(what: str) -> None:
        with psycopg.connect(plain, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{connection.info.dbname}" {what}')

    yield lambda value: run(f"SET {IDLE} = '{value}'")
    run(f"RESET {IDLE}")


def prepared(store: Store) -> int:
    """How many statements one connection has prepared after it was used a while."""
    for _ in range(10):
        store.read("often", lambda tx: tx.run("SELECT 41 + 1").scalar())
    return int(
        store.read("asked", lambda tx: tx.run("SELECT count(*) FROM pg_prepared_statements").scalar_one())
    )


def test_a_node_does_not_start_where_its_time_outs_do_not_arrive(
    postgresql_url: str, pooler: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="settings did not arrive") as caught:
        open_store(postgresql_url, create=True)
    assert "keeps sessions" in str(caught.value.hint)


@pytest.mark.parametrize("lane", ["work", "check_in"])
def test_it_starts_where_they_come_from_the_role(
    postgresql_url: str, pooler: pytest.MonkeyPatch, role_sets: Any, lane: str
) -> None:
    role_sets("5s")
    store = Store(postgresql_url)
    assert (
        store.transaction("start", lambda tx: tx.run(f"SHOW {IDLE}").scalar(), urgent=lane == "check_in")
        == "5s"
    )
    store.close()
    role_sets("1min")  # and a lease of 15 s
    store = Store(postgresql_url)
    with pytest.raises(StoreError, match="60000 ms, and 7500 ms was asked for"):
        store.transaction("start", lambda tx: tx.now())
    store.close()


def test_what_only_reads_holds_no_locks_and_is_let_be(
    postgresql_url: str, pooler: pytest.MonkeyPatch
) -> None:
    store = Store(postgresql_url, read_only=True)
    assert store.read("look", lambda tx: tx.run(f"SHOW {IDLE}").scalar()) == "0"
    store.close()


def test_nothing_is_prepared_on_a_poolers_sessions(
    postgresql_url: str, pooler: pytest.MonkeyPatch, role_sets: Any
) -> None:
    role_sets("5s")
    store = Store(postgresql_url)
    assert prepared(store) == 0
    store.close()


def test_without_a_pooler_statements_are_prepared(postgresql_url: str) -> None:
    store = Store(postgresql_url)
    assert prepared(store) > 0
    store.close()


@pytest.mark.parametrize("value", ["4s", "0", "1min"])
def test_a_time_out_that_the_url_names_is_the_one_that_is_asked_for(postgresql_url: str, value: str) -> None:
    store = Store(f"{postgresql_url}?options=-c%20{IDLE}%3D{value}")
    assert store.transaction("start", lambda tx: tx.run(f"SHOW {IDLE}").scalar()) == value
    store.close()
