"""A scope is opened for each attempt and closed with it; the body gets its values, and its errors reach the scope."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.context import JobContext
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.running.runner import Runner
from qsched.scheduler.testing import context_for
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session
from sqlalchemy.pool import QueuePool

from qsched import job, scope
from support.seen_scope import Seen, among


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner(SystemClock(), grace=0.2)
    yield made
    made.close()


@pytest.fixture
def seen() -> Seen:
    return Seen(session="S")


def outcome_of(runner: Runner, function: Callable[..., Any], **data: Any) -> Outcome:
    return runner.run(context_for(function, SystemClock(), fire_data=data))


# -- a real session ----------------------------------------------------------------------------------------------------


class Bookshop:
    """A database, and a scope of sessions in it."""

    def __init__(self, folder: Path) -> None:
        self.engine = create_engine(f"sqlite:///{folder / 'shop.db'}")
        self.sessions: list[Session] = []
        with self.engine.begin() as connection:
            connection.execute(text("CREATE TABLE orders (id INTEGER)"))

    def database(self, ctx: JobContext) -> Iterator[dict[str, Session]]:
        with Session(self.engine) as session, session.begin():
            self.sessions.append(session)
            yield {"session": session}

    def orders(self) -> list[int]:
        with self.engine.connect() as connection:
            return list(connection.execute(text("SELECT id FROM orders ORDER BY id")).scalars())

    def connections(self) -> int:
        assert isinstance(self.engine.pool, QueuePool)
        return self.engine.pool.checkedout()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Bookshop]:
    made = Bookshop(tmp_path)
    yield made
    made.engine.dispose()


def test_each_run_has_a_session_of_its_own_which_is_closed_also_when_it_fails(
    runner: Runner, shop: Bookshop
) -> None:
    def database(ctx: JobContext) -> Iterator[dict[str, Session]]:
        yield from shop.database(ctx)

    @job(scope=database)
    def order(session: Session, number: int) -> None:
        session.execute(text("INSERT INTO orders VALUES (:id)"), {"id": number})
        if number == 2:
            raise ValueError("sold out")

    ends = [outcome_of(runner, order, number=number) for number in (1, 2, 3)]
    assert [(end.kind, end.error_type) for end in ends] == [
        ("succeeded", None),
        ("failed", "ValueError"),
        ("succeeded", None),
    ]
    assert len({id(session) for session in shop.sessions}) == 3
    assert shop.orders() == [1, 3]
    assert shop.connections() == 0
    assert not any(session.in_transaction() for session in shop.sessions)


def test_bodies_that_run_together_share_no_session(runner: Runner, shop: Bookshop) -> None:
    together = threading.Barrier(2)
    sessions: list[Session] = []

    def database(ctx: JobContext) -> Iterator[dict[str, Session]]:
        with Session(shop.engine) as session:
            yield {"session": session}

    @job(scope=database)
    def look(session: Session) -> None:
        sessions.append(session)
        together.wait(30)

    threads = [threading.Thread(target=outcome_of, args=(runner, look)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sessions[0] is not sessions[1]


# -- what comes in, what comes out -------------------------------------------------------------------------------------


def test_a_body_gets_the_values_it_asks_for(runner: Runner) -> None:
    factory = Seen(session="S", tenant="T").factory()

    @job(scope=factory)
    def one(session: str, *, n: int) -> str:
        return f"{session}{n}"

    @job(scope=factory)
    def both(ctx: JobContext, **rest: Any) -> str:
        return ",".join(f"{name}={rest[name]}" for name in sorted(rest))

    @job(scope=factory)
    def none() -> str:
        return "none"

    assert outcome_of(runner, one, n=1).result == "S1"
    assert outcome_of(runner, both, n=1).result == "n=1,session=S,tenant=T"
    assert outcome_of(runner, none).result == "none"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"n": 1, "session": 2}, "'session' is given by a scope and cannot be in data"),
        ({}, "'n' is needed and not in data"),
        ({"n": 1, "sesion": 2}, "does not know 'sesion'"),
    ],
)
def test_data_that_do_not_fit_beside_a_scope_fail_for_good_and_are_named(
    runner: Runner, seen: Seen, data: dict[str, Any], says: str
) -> None:
    @job(scope=seen.factory())
    def work(session: str, n: int) -> None:
        raise AssertionError("it was begun")

    outcome = outcome_of(runner, work, **data)
    assert outcome.permanent
    assert says in (outcome.error_message or "")
    assert seen.events == ["open s", "thrown PermanentError s", "close s"]


def test_a_scope_cannot_give_the_context(runner: Runner) -> None:
    @job(scope=Seen(ctx=1).factory())
    def work(ctx: JobContext) -> None: ...

    assert "'ctx' is given by qsched" in (outcome_of(runner, work).error_message or "")


@pytest.mark.parametrize("value", ["session", 7, ["session"], {1: "session"}])
def test_a_scope_that_yields_no_mapping_fails_for_good_and_is_closed(runner: Runner, value: Any) -> None:
    closed = []

    def odd(ctx: JobContext) -> Iterator[Any]:
        try:
            yield value
        finally:
            closed.append(True)

    @job(scope=odd)
    def work() -> None: ...

    outcome = outcome_of(runner, work)
    assert outcome.permanent
    assert "odd yielded" in (outcome.error_message or "")
    assert closed == [True]


def test_a_scope_may_give_nothing_but_its_time(runner: Runner, seen: Seen) -> None:
    seen.values = None  # type: ignore[assignment]

    @job(scope=seen.factory())
    def work() -> str:
        return "done"

    assert outcome_of(runner, work) == Outcome.success("done")
    assert seen.events == ["open s", "close s"]


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), StopIteration()])
def test_whatever_a_body_raises_is_thrown_into_its_scope_and_stands(
    runner: Runner, seen: Seen, error: BaseException
) -> None:
    @job(scope=seen.factory())
    def work() -> None:
        raise error

    outcome = outcome_of(runner, work)
    assert (outcome.kind, outcome.error_type) == ("failed", type(error).__name__)
    assert seen.events == ["open s", f"thrown {type(error).__name__} s", "close s"]


def test_a_cancel_closes_the_scope(runner: Runner, seen: Seen) -> None:
    @job(scope=seen.factory())
    def work(ctx: JobContext) -> None:
        ctx.cancel("shutdown")
        ctx.check()

    assert outcome_of(runner, work).kind == "interrupted"
    assert seen.events == ["open s", "thrown JobCancelled s", "close s"]


def test_a_scope_that_swallows_an_error_makes_no_success_of_it(runner: Runner) -> None:
    def swallowing(ctx: JobContext) -> Iterator[None]:
        try:
            yield
        except ValueError:
            pass

    @job(scope=swallowing)
    def work() -> None:
        raise ValueError("sold out")

    assert outcome_of(runner, work).error_message == "sold out"


def test_an_error_of_opening_is_the_attempts_and_says_so(runner: Runner, seen: Seen) -> None:
    @job(scope=seen.factory(opening="no database"))
    def work() -> None:
        raise AssertionError("it was begun")

    outcome = outcome_of(runner, work)
    assert (outcome.error_type, outcome.error_message) == ("ConnectionError", "no database")
    assert "the body was not begun" in (outcome.traceback or "")


def test_an_error_of_closing_after_a_success_is_the_attempts_and_says_so(runner: Runner, seen: Seen) -> None:
    @job(scope=seen.factory(closing="disk full"))
    def work() -> str:
        return "done"

    outcome = outcome_of(runner, work)
    assert (outcome.kind, outcome.error_type, outcome.error_message) == ("failed", "OSError", "disk full")
    assert "the body itself had succeeded" in (outcome.traceback or "")


def test_an_error_of_closing_after_an_error_is_logged_and_the_bodys_stands(
    runner: Runner, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    @job(scope=seen.factory(closing="disk full"))
    def work() -> None:
        raise ValueError("sold out")

    assert outcome_of(runner, work).error_message == "sold out"
    (record,) = caplog.records
    assert "raised when it was closed" in record.message
    assert "disk full" in caplog.text


def test_the_traceback_of_a_body_begins_in_the_body(runner: Runner, seen: Seen) -> None:
    @job(scope=seen.factory())
    def work() -> None:
        raise ValueError("sold out")

    assert ", in work" in (outcome_of(runner, work).traceback or "").splitlines()[1]


# -- async -------------------------------------------------------------------------------------------------------------


def test_an_async_body_takes_scopes_of_both_kinds(runner: Runner, seen: Seen) -> None:
    @scope
    async def connection(ctx: JobContext) -> AsyncIterator[dict[str, str]]:
        await asyncio.sleep(0)
        seen.events.append("open async")
        try:
            yield {"connection": "C"}
        finally:
            await asyncio.sleep(0)
            seen.events.append("close async")

    async def work(session: str, connection: str) -> str:
        return session + connection

    chain = among(work, scope(seen.factory()), connection)
    assert chain is not None
    assert asyncio.run(chain.call_async(context_for(work), lambda given: work(**given))) == "SC"
    assert seen.events == ["open async", "open s", "close s", "close async"]


def test_a_cancel_of_an_async_body_closes_its_scope(runner: Runner) -> None:
    events: list[str] = []

    async def connection(ctx: JobContext) -> AsyncIterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            events.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            events.append("closed")

    @job(scope=connection)
    async def work(ctx: JobContext) -> None:
        threading.Thread(target=ctx.cancel, args=("asked by ayse",)).start()
        await asyncio.Event().wait()

    assert outcome_of(runner, work).kind == "cancelled"
    assert events == ["cancelled", "closed"]


@pytest.mark.parametrize("opens", [True, False])
def test_errors_of_async_scopes_are_judged_as_those_of_plain_ones(runner: Runner, opens: bool) -> None:
    async def connection(ctx: JobContext) -> AsyncIterator[None]:
        if not opens:
            raise ConnectionError("no database")
        yield
        raise OSError("disk full")

    @job(scope=connection)
    async def work() -> None: ...

    assert outcome_of(runner, work).error_type == ("OSError" if opens else "ConnectionError")
