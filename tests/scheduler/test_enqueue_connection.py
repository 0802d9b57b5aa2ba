"""Enqueueing in the caller's own transaction: it stands or falls with the rest, and never ends it."""

import asyncio
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from qsched.scheduler.apply import apply
from qsched.scheduler.client import Scheduler
from qsched.scheduler.enqueue import enqueue
from qsched.scheduler.enqueue_order import Enqueued, order_of
from qsched.scheduler.errors import SchedulerError, StoreError, UnknownJob
from qsched.scheduler.jobs import job
from qsched.scheduler.store.database import Store
from sqlalchemy import Connection, Engine, NullPool, create_engine, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from support.declared import Hands, command, declared, rows, write


@job
def mail(order_id: int = 0) -> None:
    """A job of this module."""


@pytest.fixture
def shop(store: Store) -> Iterator[Store]:
    """A store with the command `report`, beside an application's own table."""
    apply(store, declared(jobs=(command("report"),)))
    write(store, "CREATE TABLE shop_orders (id INTEGER PRIMARY KEY)")
    yield store
    write(store, "DROP TABLE shop_orders")


@pytest.fixture
def engine(shop: Store) -> Iterator[Engine]:
    """The application's own, as SQLAlchemy makes it."""
    engine = create_engine(shop.url, poolclass=NullPool)
    yield engine
    engine.dispose()


def ask(store: Store, connection: Any, what: Any = "report", **options: Any) -> Enqueued:
    return enqueue(store, order_of(what, {"order_id": 1} if what is mail else None, options), connection)


def order(connection: Connection | Session, number: int) -> None:
    """What the application itself writes."""
    connection.execute(text("INSERT INTO shop_orders VALUES (:id)"), {"id": number})


def written(store: Store) -> tuple[list[int], list[int]]:
    """The application's rows and the firings, as others see them."""
    return (
        [row[0] for row in rows(store, "SELECT id FROM shop_orders ORDER BY id")],
        [row[0] for row in rows(store, "SELECT id FROM qsched_firings ORDER BY id")],
    )


@pytest.mark.parametrize("enqueued_first", [True, False])
def test_it_is_there_with_the_commit_and_not_before(
    shop: Store, engine: Engine, enqueued_first: bool
) -> None:
    with engine.connect() as connection:
        if not enqueued_first:
            order(connection, 1)
        done = ask(shop, connection)
        if enqueued_first:
            order(connection, 1)
        assert written(shop) == ([], [])
        connection.commit()
    assert done.created
    assert written(shop) == ([1], [done.id])


@pytest.mark.parametrize("enqueued_first", [True, False])
def test_it_is_gone_with_the_rollback(shop: Store, engine: Engine, enqueued_first: bool) -> None:
    with engine.connect() as connection:
        if not enqueued_first:
            order(connection, 1)
        assert ask(shop, connection).created
        assert ask(shop, connection, mail).created
        if enqueued_first:
            order(connection, 1)
        connection.rollback()
    assert written(shop) == ([], [])
    assert rows(shop, "SELECT name FROM qsched_jobs") == [("report",)]


def test_a_conflict_inside_leaves_the_transaction_whole(shop: Store, engine: Engine) -> None:
    there = ask(shop, None, unique_key="order-1", request_key="r")
    with engine.begin() as connection:
        order(connection, 1)
        assert ask(shop, connection, unique_key="order-1") == (there.id, False)
        assert ask(shop, connection, request_key="r") == (there.id, False)
        new = ask(shop, connection, unique_key="order-2")
        assert ask(shop, connection, unique_key="order-2") == (new.id, False)
    assert written(shop) == ([1], [there.id, new.id])


def test_an_error_inside_leaves_the_transaction_whole(shop: Store, engine: Engine) -> None:
    with engine.begin() as connection:
        order(connection, 1)
        with pytest.raises(UnknownJob):
            ask(shop, connection, "reprot")
        done = ask(shop, connection)
    assert written(shop) == ([1], [done.id])


def test_a_key_that_was_taken_behind_the_callers_snapshot_is_found(shop: Store, engine: Engine) -> None:
    """MariaDB's transactions read as of their first read: what was committed since is seen all the same."""
    if shop.dialect.name == "sqlite":
        pytest.skip("one writer at a time: nobody can commit behind a writer")
    with engine.begin() as connection:
        connection.execute(text("SELECT * FROM shop_orders")).all()
        there = ask(shop, None, unique_key="order-1")
        order(connection, 1)
        assert ask(shop, connection, unique_key="order-1") == (there.id, False)
        code = ask(shop, None, mail)
        assert ask(shop, connection, mail).created
    firings = written(shop)[1]
    assert [there.id, code.id] == firings[:2]
    assert len(firings) == 3


def test_who_wants_a_key_that_an_open_transaction_has_taken_waits_for_its_end(
    shop: Store, engine: Engine
) -> None:
    answers: list[Enqueued] = []
    with engine.connect() as connection:
        first = ask(shop, connection, unique_key="k")
        other = Thread(target=lambda: answers.append(ask(shop, None, unique_key="k")))
        other.start()
        connection.commit()
        other.join(20)
    assert answers == [(first.id, False)]


def test_two_transactions_of_one_key_leave_one_firing(shop: Store, engine: Engine) -> None:
    answers: list[Enqueued] = []

    def second() -> None:
        with engine.begin() as connection:
            answers.append(ask(shop, connection, unique_key="k"))

    with engine.connect() as connection:
        ask(shop, connection, unique_key="k")
        other = Thread(target=second)
        other.start()
        connection.rollback()
        other.join(20)
    assert [answer.created for answer in answers] == [True]
    assert written(shop)[1] == [answers[0].id]


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_session_is_as_good_and_the_nodes_hear_of_its_commit(shop: Store, engine: Engine) -> None:
    woken: list[str] = []
    with Session(engine) as session:
        order(session, 1)
        done = enqueue(shop, order_of("report", None, {}), session, lambda: woken.append("once"))
        enqueue(shop, order_of("report", None, {}), session, lambda: woken.append("once"))
        with session.begin_nested():
            order(session, 2)
        assert woken == []
        session.commit()
        assert woken == ["once"]
        order(session, 3)
        session.commit()
    assert woken == ["once"]
    assert written(shop) == ([1, 2, 3], [done.id, (done.id or 0) + 1])


def test_a_session_that_rolls_back_enqueues_nothing(shop: Store, engine: Engine) -> None:
    with Session(engine) as session:
        assert ask(shop, session).created
        session.rollback()
        order(session, 1)
        session.commit()
    assert written(shop) == ([1], [])


def test_a_scoped_session_is_one_too(shop: Store, engine: Engine) -> None:
    sessions = scoped_session(sessionmaker(engine))
    woken: list[str] = []
    enqueue(shop, order_of("report", None, {}), sessions, lambda: woken.append("once"))
    sessions.commit()
    sessions.remove()
    assert woken == ["once"]
    assert len(written(shop)[1]) == 1


# -- what it cannot be -------------------------------------------------------------------------------------------------


def test_a_connection_to_another_database_is_refused(shop: Store, tmp_path: Any, hands: Hands) -> None:
    from support.declared import new_store

    url = f"sqlite:///{tmp_path / 'other.db'}"
    engine = create_engine(url)
    try:
        said = "not the job store's" if shop.dialect.name == "sqlite" else "connection= is to sqlite"
        with engine.connect() as connection, pytest.raises(StoreError, match=said):
            ask(shop, connection)
        new_store(url, hands).close()  # now there is a store too, and it is another
        with engine.connect() as connection, pytest.raises(StoreError, match=said):
            ask(shop, connection)
    finally:
        engine.dispose()


def test_autocommit_is_refused_where_it_can_be_seen(shop: Store, engine: Engine) -> None:
    if shop.dialect.name == "sqlite":
        pytest.skip("sqlite3 does not say it")
    at_once = engine.execution_options(isolation_level="AUTOCOMMIT")
    with at_once.connect() as connection, pytest.raises(StoreError, match="autocommit"):
        ask(shop, connection)


@pytest.mark.parametrize("given", [7, "sqlite://", object()])
def test_what_is_no_connection_says_so(shop: Store, given: object) -> None:
    with pytest.raises(SchedulerError, match="not a Connection or Session"):
        ask(shop, given)


def test_a_closed_connection_says_so(shop: Store, engine: Engine) -> None:
    connection = engine.connect()
    connection.close()
    with pytest.raises(StoreError, match="closed"):
        ask(shop, connection)


def test_an_async_session_is_told_how(shop: Store) -> None:
    from sqlalchemy.ext.asyncio import AsyncSession

    async def use() -> None:
        with pytest.raises(StoreError) as caught:
            ask(shop, AsyncSession())
        assert "run_sync" in str(caught.value.hint)

    asyncio.run(use())


def test_the_client_hands_it_on(sqlite_url: str) -> None:
    with Scheduler(sqlite_url) as scheduler:
        scheduler.enqueue(mail)
        engine = create_engine(sqlite_url)
        with engine.begin() as connection:
            done = scheduler.enqueue(mail, {"order_id": 2}, delay="1h", connection=connection)
        engine.dispose()
        found = rows(scheduler._open(create=False), "SELECT id, state FROM qsched_firings ORDER BY id")
    assert found == [(1, "due"), (done.id, "due")]
