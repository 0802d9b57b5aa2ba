"""Deadlocks, lock time-outs and lost connections as the databases really raise them, through SQLAlchemy and without."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier

import psycopg
import pytest
from qsched.scheduler.outcome import Outcome
from sqlalchemy import Connection, Engine, create_engine, exc, text

from support.waiting import wait_until


@pytest.fixture(params=["postgresql", "mariadb"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """The application's own engine, on a database with two rows."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    driver = {"postgresql": "postgresql+psycopg", "mariadb": "mariadb+pymysql"}[request.param]
    engine = create_engine(f"{driver}{url[url.index('://') :]}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE stock (id INT PRIMARY KEY, n INT NOT NULL)"))
        connection.execute(text("INSERT INTO stock VALUES (1, 0), (2, 0)"))
    yield engine
    engine.dispose()


@pytest.fixture
def two(engine: Engine) -> Iterator[tuple[Connection, Connection]]:
    """Two connections of it."""
    with ExitStack() as stack:
        yield stack.enter_context(engine.connect()), stack.enter_context(engine.connect())


def update(connection: Connection, row: int) -> None:
    connection.execute(text("UPDATE stock SET n = n + 1 WHERE id = :id"), {"id": row})


def transient(error: BaseException) -> bool:
    return "transient" in Outcome.of_exception(error).error_classes


def both_ways(error: exc.DBAPIError) -> bool:
    """What SQLAlchemy raised, and what its driver did."""
    assert error.orig is not None
    return transient(error) and transient(error.orig)


def test_the_victim_of_a_deadlock_may_try_again(two: tuple[Connection, Connection]) -> None:
    met = Barrier(2, timeout=30)

    def take(connection: Connection, first: int, second: int) -> exc.DBAPIError | None:
        try:
            update(connection, first)
            met.wait()
            update(connection, second)
            connection.commit()
        except exc.DBAPIError as error:
            connection.rollback()
            return error
        return None

    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(take, two[0], 1, 2), pool.submit(take, two[1], 2, 1)]
        victims = [error for end in ends if (error := end.result()) is not None]
    assert len(victims) == 1
    assert both_ways(victims[0])


def test_who_waited_too_long_for_a_lock_may_try_again(two: tuple[Connection, Connection]) -> None:
    holder, waiter = two
    update(holder, 1)
    mariadb = waiter.dialect.name in ("mariadb", "mysql")
    waiter.execute(text("SET innodb_lock_wait_timeout = 1" if mariadb else "SET lock_timeout = '50ms'"))
    with pytest.raises(exc.DBAPIError) as caught:
        update(waiter, 1)
    assert both_ways(caught.value)
    holder.rollback()


def test_a_statement_that_ran_out_of_its_time_may_be_tried_again(two: tuple[Connection, Connection]) -> None:
    slow, _ = two
    mariadb = slow.dialect.name in ("mariadb", "mysql")
    slow.execute(text("SET max_statement_time = 0.05" if mariadb else "SET statement_timeout = '50ms'"))
    with pytest.raises(exc.DBAPIError) as caught:
        slow.execute(text("SELECT SLEEP(30)" if mariadb else "SELECT pg_sleep(30)"))
    assert both_ways(caught.value)


def test_a_connection_that_somebody_ended_may_be_had_again(two: tuple[Connection, Connection]) -> None:
    ended, other = two
    if ended.dialect.name in ("mariadb", "mysql"):
        number = ended.execute(text("SELECT CONNECTION_ID()")).scalar_one()
        other.execute(text(f"KILL {number}"))
    else:
        number = ended.execute(text("SELECT pg_backend_pid()")).scalar_one()
        other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": number})
        wait_until(lambda: not _alive(other, number), "the backend to be gone")
    with pytest.raises(exc.DBAPIError) as caught:
        update(ended, 1)
    assert caught.value.connection_invalidated
    assert both_ways(caught.value)


def _alive(connection: Connection, pid: int) -> bool:
    connection.rollback()
    found = connection.execute(text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid"), {"pid": pid})
    return bool(found.scalar_one())


def test_a_serialization_failure_may_be_tried_again(postgresql_url: str) -> None:
    with psycopg.connect(postgresql_url) as one, psycopg.connect(postgresql_url) as two:
        one.execute("CREATE TABLE stock (n INT)")
        one.execute("INSERT INTO stock VALUES (0)")
        one.commit()
        for each in (one, two):
            each.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            each.execute("SELECT n FROM stock").fetchall()
        one.execute("UPDATE stock SET n = 1")
        one.commit()
        with pytest.raises(psycopg.errors.SerializationFailure) as caught:
            two.execute("UPDATE stock SET n = 2")
        assert transient(caught.value)


def test_what_breaks_a_constraint_stays_wrong(engine: Engine) -> None:
    for statement in (
        "INSERT INTO stock VALUES (1, 0)",
        "INSERT INTO stock VALUES (3, NULL)",
        "SELECT * FROM shelf",
    ):
        with pytest.raises(exc.DBAPIError) as caught, engine.begin() as connection:
            connection.execute(text(statement))
        assert caught.value.orig is not None
        assert not transient(caught.value)
        assert not transient(caught.value.orig)


def test_a_server_that_is_not_there_may_come_back_and_a_wrong_password_stays_wrong(engine: Engine) -> None:
    for url, passes in (
        (engine.url.set(port=1), True),
        (engine.url.set(username="nobody", password="x"), False),
    ):
        other = create_engine(url)
        with pytest.raises(exc.DBAPIError) as caught, other.connect():
            pass
        other.dispose()
        assert transient(caught.value) is passes, caught.value


def test_a_busy_sqlite_file_may_be_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(create_engine(f"sqlite:///{file}", connect_args={"timeout": 0.05}).connect())
            for _ in range(2)
        )
        one.execute(text("CREATE TABLE stock (n INT UNIQUE)"))
        one.execute(text("INSERT INTO stock VALUES (1)"))
        with pytest.raises(exc.OperationalError, match="locked") as caught:
            two.execute(text("INSERT INTO stock VALUES (2)"))
        assert both_ways(caught.value)
        one.commit()
        with pytest.raises(exc.IntegrityError) as broken:
            two.execute(text("INSERT INTO stock VALUES (1)"))
        assert not transient(broken.value)
        for connection in (one, two):
            connection.close()
            connection.engine.dispose()


def test_a_raw_sqlite_connection_says_the_same(tmp_path: Path) -> None:
    one, two = (sqlite3.connect(tmp_path / "raw.db", timeout=0.05, isolation_level=None) for _ in range(2))
    try:
        one.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError) as caught:
            two.execute("BEGIN IMMEDIATE")
        assert transient(caught.value)
    finally:
        one.close()
        two.close()
