"""Async bodies: one loop for all, cancelled where they wait, contained like the others."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.context import JobContext
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.running.run_async import JobLoop
from qsched.scheduler.running.runner import Runner
from qsched.scheduler.testing import ManualClock, context_for, request_for


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner(SystemClock())
    yield made
    made.close()


async def outcome_of(runner: Runner, function: Callable[..., Any], **data: Any) -> Outcome:
    return await runner.run_async(context_for(function, fire_data=data))


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_an_async_body_raises_ends_at_its_edge(runner: Runner, error: type[BaseException]) -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise error

    outcome = asyncio.run(outcome_of(runner, work))
    assert (outcome.kind, outcome.error_type) == ("failed", error.__name__)


@pytest.mark.parametrize(
    ("reason", "kind"), [("shutdown", "interrupted"), ("lease_lost", "lost"), ("asked by ayse", "cancelled")]
)
def test_a_cancel_from_another_thread_ends_the_wait_of_an_async_body(
    runner: Runner, reason: str, kind: str
) -> None:
    async def work(ctx: JobContext) -> None:
        threading.Thread(target=ctx.cancel, args=(reason,)).start()
        await asyncio.Event().wait()

    assert asyncio.run(outcome_of(runner, work)).kind == kind


def test_an_async_body_is_cancelled_at_its_time_out() -> None:
    clock = ManualClock()
    runner = Runner(clock)

    async def work() -> None:
        clock.advance(5)
        await asyncio.Event().wait()

    ctx = JobContext(replace(request_for(work), timeout=5_000_000), clock)
    assert asyncio.run(runner.run_async(ctx)) == Outcome.timeout(5_000_000)
    runner.close()


def test_a_shield_holds_the_cancel_of_a_task_back(runner: Runner) -> None:
    steps: list[str] = []

    async def work(ctx: JobContext) -> None:
        with ctx.shield():
            ctx.cancel("shutdown")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            steps.append("saved")
        steps.append("never")

    assert asyncio.run(outcome_of(runner, work)).kind == "interrupted"
    assert steps == ["saved"]


def test_a_cancellation_that_nobody_asked_for_is_a_failure(runner: Runner) -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    outcome = asyncio.run(outcome_of(runner, work))
    assert (outcome.kind, outcome.error_type) == ("failed", "CancelledError")


def test_a_loop_survives_what_a_job_leaves_on_it() -> None:
    loop, rings = JobLoop(), [threading.Event(), threading.Event()]

    async def leave() -> None:
        raise SystemExit

    def ended(task: asyncio.Task[None]) -> None:
        assert isinstance(task.exception(), SystemExit)
        rings[0].set()

    def left_behind() -> None:
        task = asyncio.get_running_loop().create_task(leave())
        task.add_done_callback(ended)

    loop.call(left_behind)
    assert rings[0].wait(30)
    loop.call(rings[1].set)
    assert rings[1].wait(30)
    loop.close()


def test_a_closed_loop_refuses() -> None:
    loop = JobLoop()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call(print)


def test_closing_waits_for_what_runs_before_it_stops_the_loop() -> None:
    loop, go_on, ended = JobLoop(), threading.Event(), threading.Event()

    async def work() -> None:
        while not go_on.is_set():
            await asyncio.sleep(0.001)
        ended.set()

    tasks: list[asyncio.Task[None]] = []
    loop.call(lambda: tasks.append(asyncio.get_running_loop().create_task(work())))
    loop.close(timeout=0.01)
    loop.close()
    go_on.set()
    assert ended.wait(30)
