"""A body in a thread: whatever it returns or raises becomes an outcome, and its time is kept."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest
from qsched.scheduler.clock import SystemClock, Waitable
from qsched.scheduler.context import JobContext
from qsched.scheduler.errors import JobCancelled, PermanentError, RetryAfter, RetryNow
from qsched.scheduler.jobs import job
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.running.runner import Runner
from qsched.scheduler.testing import ManualClock, context_for, request_for

from support.waiting import wait_until


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner(SystemClock())
    yield made
    made.close()


def outcome_of(runner: Runner, function: Callable[..., Any], **data: Any) -> Outcome:
    return runner.run(context_for(function, fire_data=data))


class Sour(Exception):
    """An exception that cannot be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class VerySour(BaseException):
    def __str__(self) -> str:
        raise SystemExit

    __repr__ = __str__


def test_a_body_that_returns_has_succeeded(runner: Runner) -> None:
    assert outcome_of(runner, lambda: None) == Outcome.success()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("done", "done"),
        (7, "7"),
        ({"a": [1]}, '{"a": [1]}'),
        (object(), "<object: not stored, JSON cannot carry it>"),
        (lambda: None, "<function: not stored, JSON cannot carry it>"),
        ([object()], "<list: not stored, JSON cannot carry it>"),
    ],
)
def test_what_a_body_returns_is_kept_as_text_and_never_fails_it(
    runner: Runner, value: object, text: str
) -> None:
    assert outcome_of(runner, lambda: value) == Outcome.success(text)


def test_a_huge_return_value_costs_no_more_than_its_beginning(runner: Runner) -> None:
    class Endless(list[int]):
        def __iter__(self) -> Iterator[int]:
            for taken in range(10**9):
                assert taken < 10_000, "more was read than is kept"
                yield taken

        def __bool__(self) -> bool:
            return True

    outcome = outcome_of(runner, lambda: Endless([1]))
    assert outcome.kind == "succeeded"
    assert outcome.result is not None
    assert outcome.result.startswith("[0, 1, 2")


@pytest.mark.parametrize(
    ("error", "kind", "name"),
    [
        (ValueError("bad"), "failed", "ValueError"),
        (SystemExit(3), "failed", "SystemExit"),
        (KeyboardInterrupt(), "failed", "KeyboardInterrupt"),
        (GeneratorExit(), "failed", "GeneratorExit"),
        (MemoryError(), "failed", "MemoryError"),
        (Sour(), "failed", "Sour"),
        (VerySour(), "failed", "VerySour"),
        (JobCancelled("mine"), "cancelled", "JobCancelled"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_whatever_a_body_raises_ends_at_its_edge(
    runner: Runner, error: BaseException, kind: str, name: str
) -> None:
    def work() -> None:
        raise error

    outcome = outcome_of(runner, work)
    assert (outcome.kind, outcome.error_type) == (kind, name)


def test_endless_recursion_is_a_failure(runner: Runner) -> None:
    def work() -> None:
        work()

    assert outcome_of(runner, work).error_type == "RecursionError"


def test_the_traceback_begins_in_the_jobs_own_code(runner: Runner) -> None:
    def inner() -> None:
        raise ValueError("deep")

    def work() -> None:
        inner()

    text = outcome_of(runner, work).traceback
    assert text is not None
    assert "in work" in text
    assert "in inner" in text
    assert "run_thread" not in text


def test_the_words_of_a_job_reach_the_outcome(runner: Runner) -> None:
    def raising(error: Exception) -> Outcome:
        def work() -> None:
            raise error

        return outcome_of(runner, work)

    assert raising(PermanentError("no")).permanent
    assert raising(RetryAfter(5)).retry_after == 5_000_000
    assert raising(RetryNow("again")).retry_now


def test_data_become_arguments_and_the_context_is_passed_where_it_is_asked_for(runner: Runner) -> None:
    def plain(a: int, b: int = 5) -> int:
        return a + b

    def asking(a: int, ctx: JobContext) -> str:
        return f"{a} {ctx.trigger}"

    def annotated(context: JobContext | None) -> str:
        return str(context)

    def anything(**data: int) -> int:
        return sum(data.values())

    assert outcome_of(runner, plain, a=1).result == "6"
    assert outcome_of(runner, asking, a=1).result == "1 test"
    assert "JobContext annotated" in (outcome_of(runner, annotated).result or "")
    assert outcome_of(runner, anything, x=1, y=2).result == "3"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"a": 1, "bb": 2}, "it does not know 'bb' (did you mean 'b'?)"),
        ({}, "'a' is needed and not in data"),
        ({"a": 1, "ctx": 1}, "'ctx' is given by qsched"),
    ],
)
def test_an_argument_that_does_not_fit_is_a_permanent_failure_that_names_it(
    runner: Runner, data: dict[str, int], text: str
) -> None:
    def work(ctx: JobContext, a: int, b: int = 1) -> None:
        raise AssertionError("the body must not begin")

    outcome = outcome_of(runner, work, **data)
    assert outcome.permanent
    assert text in (outcome.error_message or "")
    assert "work" in (outcome.error_message or "")


def test_an_unset_variable_fails_the_run_and_names_it(runner: Runner) -> None:
    def work(a: str) -> None: ...

    outcome = runner.run(context_for(work, trigger_data={"a": "${QSCHED_TEST_UNSET}"}))
    assert outcome.kind == "failed"
    assert "QSCHED_TEST_UNSET" in (outcome.error_message or "")


def test_a_coroutine_that_nobody_awaits_is_no_success(runner: Runner) -> None:
    async def work() -> None: ...

    def wrapped() -> Any:
        return work()

    outcome = outcome_of(runner, wrapped)
    assert outcome.permanent
    assert "coroutine" in (outcome.error_message or "")


variable: ContextVar[str] = ContextVar("variable", default="fresh")


def test_no_body_sees_what_another_left_in_a_context_variable(runner: Runner) -> None:
    def work() -> str:
        seen = variable.get()
        variable.set("left over")
        return seen

    assert [outcome_of(runner, work).result for _ in range(2)] == ["fresh", "fresh"]
    assert variable.get() == "fresh"


def test_at_its_time_out_a_body_is_told_and_has_timed_out() -> None:
    clock = ManualClock()
    runner = Runner(clock)

    @job(timeout="30s")
    def work(ctx: JobContext) -> None:
        while True:
            ctx.sleep(1000)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, context_for(work, clock))
        wait_until(lambda: clock.waiting == 2, "the body and the watch over its time")
        clock.advance(29.9)
        assert not running.done()
        clock.set_wall(0)
        clock.advance(0.2)
        assert running.result(timeout=30) == Outcome.timeout(30_000_000)
    runner.close()


@pytest.mark.parametrize("raises", [True, False])
def test_a_body_that_ends_after_its_time_has_timed_out_whatever_it_says(raises: bool) -> None:
    clock = ManualClock()
    runner = Runner(clock)

    def work() -> None:
        clock.advance(30)
        if raises:
            raise ValueError

    ctx = JobContext(replace(request_for(work), timeout=30_000_000), clock)
    assert runner.run(ctx) == Outcome.timeout(30_000_000)
    runner.close()


def test_a_body_that_keeps_its_time_is_not_touched_by_it() -> None:
    clock = ManualClock()
    runner = Runner(clock)
    ctx = JobContext(replace(request_for(lambda: None), timeout=1), clock)
    assert runner.run(ctx) == Outcome.success()
    clock.advance(60)
    wait_until(lambda: clock.waiting == 1, "the watch to look again")
    assert not ctx.cancelled
    runner.close()


def test_a_body_told_to_stop_before_its_time_is_judged_by_that_reason() -> None:
    clock = ManualClock()
    runner = Runner(clock)

    def work(ctx: JobContext) -> None:
        ctx.cancel("shutdown")
        clock.advance(30)
        ctx.check()

    ctx = JobContext(replace(request_for(work), timeout=30_000_000), clock)
    assert runner.run(ctx).kind == "interrupted"
    runner.close()


def test_a_body_that_finishes_its_work_in_spite_of_a_cancel_has_succeeded(runner: Runner) -> None:
    def work(ctx: JobContext) -> None:
        ctx.cancel("shutdown")

    assert outcome_of(runner, work).kind == "succeeded"


def test_each_of_many_time_outs_is_kept_in_its_turn() -> None:
    clock = ManualClock()
    runner = Runner(clock)
    contexts = [
        JobContext(replace(request_for(_until_told), timeout=seconds * 1_000_000), clock)
        for seconds in (30, 10, 20)
    ]
    with ThreadPoolExecutor(3) as pool:
        running = []
        for ctx in contexts:
            running.append(pool.submit(runner.run, ctx))
            expected = len(running) + 1
            wait_until(lambda: clock.waiting == expected, "the bodies and the watch")  # noqa: B023
        for index in (1, 2, 0):
            assert not running[index].done()
            clock.advance(10)
            assert running[index].result(timeout=30).kind == "timed_out"
    runner.close()


class SleepSeen(SystemClock):
    """The system's clock, which shows when the watch over the time-outs has gone to sleep for long."""

    def __init__(self) -> None:
        self.asleep = threading.Event()

    def wait(self, waitable: Waitable, timeout: float | None) -> bool:
        if isinstance(waitable, threading.Condition) and timeout is not None and timeout > 100:
            self.asleep.set()
        return super().wait(waitable, timeout)


def test_a_short_time_out_is_kept_beside_a_long_one_that_began_before() -> None:
    clock = SleepSeen()
    runner = Runner(clock)
    long, short = (
        JobContext(replace(request_for(_until_told), timeout=timeout), clock)
        for timeout in (600_000_000, 50_000)
    )
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(runner.run, long)
        assert clock.asleep.wait(30)
        second = pool.submit(runner.run, short)
        try:
            assert second.result(timeout=20).kind == "timed_out"
        finally:
            long.cancel("shutdown")
            short.cancel("shutdown")
        assert first.result(timeout=30).kind == "interrupted"
    runner.close()


def test_an_async_body_can_be_run_in_the_foreground(runner: Runner) -> None:
    async def work(a: int) -> int:
        await asyncio.sleep(0)
        return a

    assert outcome_of(runner, work, a=3).result == "3"


def test_closing_ends_the_thread_of_the_time_outs() -> None:
    runner = Runner(SystemClock())
    before = set(threading.enumerate())
    runner.run(JobContext(replace(request_for(lambda: None), timeout=1_000_000), SystemClock()))
    assert len(set(threading.enumerate()) - before) == 1
    runner.close()
    assert set(threading.enumerate()) <= before


def _until_told(ctx: JobContext) -> None:
    ctx.sleep(1e6)
