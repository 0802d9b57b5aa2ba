"""Middleware is around each body of its kind: it sees what the body returns and raises, and may answer in its place."""

import asyncio
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest
from qsched.scheduler.around.chain import Chain
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.context import JobContext
from qsched.scheduler.errors import RetryAfter
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.running.runner import Runner
from qsched.scheduler.testing import request_for

from qsched import middleware, scope
from support.seen_scope import Seen, among

Next = Callable[[], Any]


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner(SystemClock())
    yield made
    made.close()


def run(runner: Runner, function: Callable[..., Any], *marked: Callable[..., Any]) -> Outcome:
    """How a job ends whose node finds these marks."""
    request = request_for(function)
    job = replace(request.job, chain=among(function, *marked))
    return runner.run(JobContext(replace(request, job=job), SystemClock()))


def named(name: str, events: list[str], order: int = 0) -> Callable[..., Any]:
    """A middleware that says when it is passed."""

    @middleware(order=order)
    def passed(ctx: JobContext, call_next: Next) -> Any:
        events.append(f"in {name}")
        try:
            return call_next()
        finally:
            events.append(f"out {name}")

    return passed


def test_the_first_one_is_outermost_unless_its_order_says_otherwise(runner: Runner) -> None:
    events: list[str] = []
    one, two, zero = named("one", events), named("two", events), named("zero", events, order=-1)
    assert run(runner, lambda: events.append("body"), two, zero, one) == Outcome.success()
    assert events == ["in zero", "in one", "in two", "body", "out two", "out one", "out zero"]


def test_it_is_around_the_scopes(runner: Runner) -> None:
    seen = Seen()
    assert run(runner, lambda: None, scope(seen.factory()), named("m", seen.events)) == Outcome.success()
    assert seen.events == ["in m", "open s", "close s", "out m"]


def test_it_sees_what_the_body_returns_and_may_return_something_else(runner: Runner) -> None:
    @middleware
    def double(ctx: JobContext, call_next: Next) -> int:
        return 2 * int(call_next())

    assert run(runner, lambda: 21, double) == Outcome.success("42")


def test_it_sees_what_the_body_raises_and_may_make_it_a_success(runner: Runner) -> None:
    @middleware
    def forgiving(ctx: JobContext, call_next: Next) -> str:
        try:
            return str(call_next())
        except ZeroDivisionError as error:
            return f"{ctx.job}: {error}"

    assert (run(runner, lambda: 1 // 0, forgiving).result or "").endswith("by zero")


def test_what_it_raises_is_the_bodys_error(runner: Runner) -> None:
    @middleware
    def busy(ctx: JobContext, call_next: Next) -> Any:
        raise RetryAfter(30)

    outcome = run(runner, lambda: None, busy)
    assert (outcome.kind, outcome.retry_after) == ("failed", 30_000_000)


def test_it_may_leave_the_body_out_and_answer_for_it(runner: Runner) -> None:
    ran: list[bool] = []

    @middleware
    def holiday(ctx: JobContext, call_next: Next) -> str:
        return "closed today"

    assert run(runner, lambda: ran.append(True), holiday) == Outcome.success("closed today")
    assert not ran


def test_it_may_run_the_body_again_in_a_fresh_scope(runner: Runner) -> None:
    seen = Seen()

    @middleware
    def twice(ctx: JobContext, call_next: Next) -> Any:
        call_next()
        return call_next()

    run(runner, lambda: seen.events.append("body"), scope(seen.factory()), twice)
    assert seen.events == ["open s", "body", "close s"] * 2


def test_what_it_sets_the_body_sees_and_no_other_run(runner: Runner) -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="none")

    @middleware
    def set_tenant(ctx: JobContext, call_next: Next) -> Any:
        tenant.set("acme")
        return call_next()

    def look() -> str:
        return tenant.get()

    assert run(runner, look, set_tenant) == Outcome.success("acme")
    assert run(runner, look) == Outcome.success("none")


def test_a_time_out_counts_for_all_that_is_around_the_body(runner: Runner) -> None:
    @middleware
    def slow(ctx: JobContext, call_next: Next) -> Any:
        ctx.sleep(60)

    request = request_for(lambda: None)
    chain = Chain((slow,), ())
    ctx = JobContext(replace(request, timeout=10_000, job=replace(request.job, chain=chain)), SystemClock())
    assert runner.run(ctx) == Outcome.timeout(10_000)


def test_each_kind_is_around_bodies_of_its_kind(runner: Runner) -> None:
    events: list[str] = []

    @middleware
    async def on_loop(ctx: JobContext, call_next: Next) -> Any:
        await asyncio.sleep(0)
        events.append("in async")
        try:
            return await call_next()
        except ValueError:
            return "async"

    async def work() -> None:
        raise ValueError

    plain = named("plain", events)
    assert run(runner, work, plain, on_loop) == Outcome.success("async")
    assert run(runner, lambda: "plain", plain, on_loop) == Outcome.success("plain")
    assert events == ["in async", "in plain", "out plain"]


def test_an_async_middleware_that_forgets_to_await_is_told(runner: Runner) -> None:
    @middleware
    async def forgetful(ctx: JobContext, call_next: Next) -> Any:
        return call_next()

    async def work() -> None: ...

    outcome = run(runner, work, forgetful)
    assert outcome.permanent
    assert "nothing awaits" in (outcome.error_message or "")
