"""What ends a body before its time: a cancel, a time-out, the end of the pool; and what does not."""

import threading

import pytest
from qsched.scheduler.context import JobContext
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.testing import ManualClock
from qsched.triggers.job import JobDefinition

from support.pool_owner import Gate, MakePool, Owner, ask, new_threads
from support.waiting import wait_until


def test_a_cancel_reaches_one_firing_or_one_take_of_it(make_pool: MakePool, owner: Owner) -> None:
    clock = ManualClock()
    pool = make_pool(4, clock)

    def work(ctx: JobContext) -> None:
        ctx.sleep(1e6)

    pool.submit_many([ask(work, 1), ask(work, 2), ask(work, 2, fence=5)])
    wait_until(lambda: clock.waiting == 3, "three bodies")
    assert not pool.cancel(7, "asked")
    assert not pool.cancel(2, "asked", fence=9)
    assert pool.cancel(1, "asked by ayse")
    wait_until(lambda: len(pool.running()) == 2, "the end of the first")
    assert owner.outcomes[1] == Outcome.cancelled("asked by ayse")
    assert pool.cancel(2, "asked", fence=5)
    wait_until(lambda: [entry.request.fence for entry in pool.running()] == [1], "the end of one take")
    assert pool.cancel_all("shutdown") == 1
    assert pool.wait_idle(None)
    assert owner.kinds() == {1: "cancelled", 2: "interrupted"}


@pytest.mark.parametrize(
    ("reason", "released"), [("shutdown", True), ("lease_lost", True), ("asked by ayse", False)]
)
def test_what_is_told_to_stop_before_its_body_begins_never_begins(
    make_pool: MakePool, owner: Owner, reason: str, released: bool
) -> None:
    pool, looking, go_on = make_pool(1), threading.Event(), threading.Event()

    async def block() -> None:
        looking.set()
        assert go_on.wait(60)

    async def work() -> None:
        raise AssertionError("it must not begin")

    pool = make_pool(4)
    pool.submit_many([ask(block, 1)])
    assert looking.wait(30)
    pool.submit_many([ask(work, 2)])
    assert pool.cancel(2, reason)
    go_on.set()
    assert pool.wait_idle(30)
    assert owner.given_back == ([2] if released else [])
    assert owner.kinds().get(2) == (None if released else "cancelled")


def test_a_thread_that_ignores_its_cancel_keeps_its_place_and_is_shown(
    make_pool: MakePool, owner: Owner
) -> None:
    clock = ManualClock()
    pool, gate = make_pool(2, clock), Gate()
    pool.submit_many([ask(gate, 1, timeout=30_000_000)])
    assert gate.inside.acquire(timeout=30)
    wait_until(lambda: clock.waiting == 1, "the watch over its time")
    assert pool.stuck() == []
    clock.advance(31)
    wait_until(pool.stuck, "the body to be told")
    assert pool.stuck(10) == []
    clock.advance(10)
    (entry,) = pool.stuck(10)
    assert (entry.request.firing_id, entry.began, entry.ctx.cancelled_at) == (1, 1000.0, 1031.0)
    assert pool.free == 1
    pool.submit_many([ask(lambda: None, 2)])
    wait_until(lambda: 2 in owner.outcomes, "another job beside it")
    gate.open.set()
    assert pool.wait_idle(None)
    assert owner.kinds() == {1: "timed_out", 2: "succeeded"}
    assert pool.stuck() == []


def test_a_closed_pool_begins_nothing_and_lets_what_runs_end(make_pool: MakePool, owner: Owner) -> None:
    pool, gate = make_pool(2), Gate()
    pool.submit_many([ask(gate)])
    assert gate.inside.acquire(timeout=30)
    pool.close()
    pool.submit_many([ask(lambda: None, 2)])
    assert owner.given_back == [2]
    gate.open.set()
    assert pool.wait_idle(30)
    assert owner.kinds() == {1: "succeeded"}


def test_closing_ends_every_idle_thread(make_pool: MakePool, owner: Owner) -> None:
    async def later() -> None: ...

    before = set(threading.enumerate())
    pool = make_pool(4)
    pool.submit_many([*(ask(lambda: None, n, timeout=60_000_000) for n in range(3)), ask(later, 3)])
    assert pool.wait_idle(30)
    pool.close()
    wait_until(lambda: not new_threads(before), "the threads to end")


def test_commands_run_in_places_and_a_lost_lease_leaves_them_no_grace(
    make_pool: MakePool, owner: Owner
) -> None:
    pool = make_pool(2)
    stubborn = JobDefinition("c", "command", "trap '' TERM; while :; do sleep 600; done")
    pool.submit_many([ask(JobDefinition("c", "command", "echo hi"), 1), ask(stubborn, 2)])
    wait_until(lambda: 1 in owner.outcomes, "the first")
    assert owner.outcomes[1].result == "hi"
    wait_until(lambda: all(entry.began for entry in pool.running()), "the second")
    pool.cancel_all("shutdown")
    pool.cancel_all("lease_lost")
    assert pool.wait_idle(4)  # the grace of a shutdown is 5 s
    assert owner.kinds()[2] == "interrupted"
