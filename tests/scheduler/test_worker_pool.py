"""Places and bodies: a last look before each, an end after each, and no place lost whatever a body does."""

import asyncio
import gc
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest
from qsched.scheduler.clock import Clock, SystemClock
from qsched.scheduler.context import JobContext, RunRequest
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.testing import ManualClock, request_for
from qsched.scheduler.worker_pool import WorkerPool
from qsched.triggers.job import JobDefinition

from support.waiting import wait_until


class Owner:
    """Remembers what a pool tells it."""

    def __init__(self) -> None:
        self.begins: Callable[[RunRequest], bool] = lambda request: True
        self.ends: Callable[[RunRequest], None] = lambda request: None
        self.outcomes: dict[int, Outcome] = {}
        self.ended_at: dict[int, float] = {}
        self.given_back: list[int] = []

    def may_begin(self, request: RunRequest) -> bool:
        return self.begins(request)

    def ended(self, request: RunRequest, outcome: Outcome, ended_at: float) -> None:
        self.outcomes[request.firing_id] = outcome
        self.ended_at[request.firing_id] = ended_at
        self.ends(request)

    def released(self, request: RunRequest) -> None:
        self.given_back.append(request.firing_id)

    def kinds(self) -> dict[int, str]:
        return {number: outcome.kind for number, outcome in sorted(self.outcomes.items())}


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def make(owner: Owner) -> Iterator[Callable[..., WorkerPool]]:
    made: list[WorkerPool] = []

    def pool(capacity: int = 4, clock: Clock | None = None, **said: Any) -> WorkerPool:
        made.append(WorkerPool(capacity, owner, clock or SystemClock(), **said))
        return made[-1]

    yield pool
    for each in made:
        each.close()


MakePool = Callable[..., WorkerPool]


def ask(job: Callable[..., Any] | JobDefinition, number: int = 1, **fields: Any) -> RunRequest:
    return replace(request_for(job), firing_id=number, **fields)


def new_threads(before: set[threading.Thread]) -> set[threading.Thread]:
    return set(threading.enumerate()) - before


class Gate:
    """A body that waits until it is let through."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.inside = threading.Semaphore(0)

    def __call__(self) -> None:
        self.inside.release()
        assert self.open.wait(60)

    __name__ = "gate"


def test_each_request_runs_once_and_ends_at_its_owner(make: MakePool, owner: Owner) -> None:
    pool, ran = make(), Counter[int]()

    def work(n: int) -> None:
        ran[n] += 1

    for first in range(0, 400, 4):
        pool.submit_many([ask(work, n, fire_data={"n": n}) for n in range(first, first + 4)])
        assert pool.wait_idle(30)
    assert ran == Counter(range(400))
    assert set(owner.kinds()) == set(range(400))
    assert set(owner.kinds().values()) == {"succeeded"}
    assert pool.free == 4


def test_as_many_bodies_run_at_once_as_there_are_places(make: MakePool, owner: Owner) -> None:
    pool, gate = make(3), Gate()
    pool.submit_many([ask(gate, n) for n in range(3)])
    for _ in range(3):
        assert gate.inside.acquire(timeout=30)
    assert pool.free == 0
    assert len(pool.running()) == 3
    assert not pool.wait_idle(0.01)
    gate.open.set()
    assert pool.wait_idle(30)
    assert pool.free == 3


def test_threads_are_started_only_when_they_are_needed(make: MakePool, owner: Owner) -> None:
    before = set(threading.enumerate())
    pool = make(50)
    assert new_threads(before) == set()
    for n in range(5):
        pool.submit_many([ask(lambda: None, n)])
        assert pool.wait_idle(30)
    assert len(new_threads(before)) == 1


def test_what_finds_no_place_is_released_and_not_queued(make: MakePool, owner: Owner) -> None:
    pool, gate = make(1), Gate()
    pool.submit_many([ask(gate, 1), ask(gate, 2)])
    assert owner.given_back == [2]
    assert pool.free == 0
    gate.open.set()
    assert pool.wait_idle(30)
    assert owner.kinds() == {1: "succeeded"}


def test_a_body_begins_only_when_the_last_look_allows_it(make: MakePool, owner: Owner) -> None:
    pool, ran = make(), []
    owner.begins = lambda request: request.firing_id % 2 == 0
    pool.submit_many([ask(lambda: ran.append(1), n) for n in range(4)])
    assert pool.wait_idle(30)
    assert sorted(owner.given_back) == [1, 3]
    assert owner.kinds() == {0: "succeeded", 2: "succeeded"}
    assert len(ran) == 2


@pytest.mark.parametrize("kind", ["thread", "async"])
def test_a_last_look_that_fails_releases(make: MakePool, owner: Owner, kind: str) -> None:
    async def work() -> None: ...

    def look(request: RunRequest) -> bool:
        raise SystemExit

    pool = make()
    owner.begins = look
    pool.submit_many([ask(work if kind == "async" else lambda: None, n) for n in range(3)])
    assert pool.wait_idle(30)
    assert sorted(owner.given_back) == [0, 1, 2]
    owner.begins = lambda request: True
    pool.submit_many([ask(lambda: None, 9)])
    assert pool.wait_idle(30)
    assert owner.kinds() == {9: "succeeded"}


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, MemoryError, RecursionError])
def test_no_place_is_lost_whatever_bodies_raise(
    make: MakePool, owner: Owner, error: type[BaseException]
) -> None:
    async def later() -> None:
        raise error

    def now() -> None:
        raise error

    pool = make(2)
    for n in range(0, 40, 2):
        pool.submit_many([ask(now, n), ask(later, n + 1)])
        assert pool.wait_idle(30)
    assert pool.free == 2
    assert len(owner.kinds()) == 40
    assert set(owner.kinds().values()) == {"failed"}


def test_an_owner_that_fails_costs_neither_thread_nor_place(make: MakePool, owner: Owner) -> None:
    def ends(request: RunRequest) -> None:
        raise KeyboardInterrupt

    async def later() -> None: ...

    pool = make(2)
    owner.ends = ends
    for n in range(0, 10, 2):
        pool.submit_many([ask(lambda: None, n), ask(later, n + 1)])
        assert pool.wait_idle(30)
    assert len(owner.outcomes) == 10
    assert pool.free == 2


def test_a_place_is_free_when_its_owner_hears_of_the_end(make: MakePool, owner: Owner) -> None:
    pool, seen = make(1), []
    owner.ends = lambda request: seen.append(pool.free)
    pool.submit_many([ask(lambda: None)])
    assert pool.wait_idle(30)
    assert seen == [1]


def test_idle_means_that_every_end_has_been_told(make: MakePool, owner: Owner) -> None:
    pool, telling, go_on = make(1), threading.Event(), threading.Event()

    def ends(request: RunRequest) -> None:
        telling.set()
        assert go_on.wait(60)

    owner.ends = ends
    pool.submit_many([ask(lambda: None)])
    assert telling.wait(30)
    assert not pool.wait_idle(0.01)
    go_on.set()
    assert pool.wait_idle(30)


def test_the_time_of_an_end_is_the_bodys_and_the_wait_for_a_thread_is_not_charged(
    make: MakePool, owner: Owner
) -> None:
    clock = ManualClock()
    pool = make(1, clock)

    def look(request: RunRequest) -> bool:
        clock.advance(29)  # as if the thread had been busy that long
        return True

    owner.begins = look
    pool.submit_many([ask(lambda: clock.advance(2), timeout=30_000_000)])
    assert pool.wait_idle(None)
    assert owner.kinds() == {1: "succeeded"}
    assert owner.ended_at == {1: 1031.0}


def test_async_bodies_take_places_but_no_threads(make: MakePool, owner: Owner) -> None:
    before, begun, go_on = set(threading.enumerate()), threading.Semaphore(0), threading.Event()

    async def work() -> None:
        begun.release()
        while not go_on.is_set():
            await asyncio.sleep(0.005)

    pool = make(50)
    pool.submit_many([ask(work, n) for n in range(30)])
    for _ in range(30):
        assert begun.acquire(timeout=30)
    assert pool.free == 20
    assert len(new_threads(before)) == 1
    go_on.set()
    assert pool.wait_idle(30)
    assert len(owner.kinds()) == 30


def test_async_bodies_run_on_the_applications_loop_where_it_is_given(make: MakePool, owner: Owner) -> None:
    async def work() -> str:
        return str(id(asyncio.get_running_loop()))

    async def application() -> str:
        loop = asyncio.get_running_loop()
        pool = make(4, loop=loop)
        pool.submit_many([ask(work)])
        assert await loop.run_in_executor(None, pool.wait_idle, 30)
        return str(id(loop))

    used = asyncio.run(application())
    assert owner.outcomes[1] == Outcome.success(used)


variable: ContextVar[str] = ContextVar("variable", default="fresh")


def test_an_async_body_sees_no_context_variable_of_its_submitter(make: MakePool, owner: Owner) -> None:
    async def work() -> str:
        return variable.get()

    pool = make()
    token = variable.set("the submitter's")
    pool.submit_many([ask(work)])
    variable.reset(token)
    assert pool.wait_idle(30)
    assert owner.outcomes[1].result == "fresh"


def test_on_a_loop_that_is_closed_async_jobs_are_released(make: MakePool, owner: Owner) -> None:
    async def work() -> None: ...

    loop = asyncio.new_event_loop()
    loop.close()
    pool = make(4, loop=loop)
    pool.submit_many([ask(work), ask(lambda: None, 2)])
    assert pool.wait_idle(30)
    assert owner.given_back == [1]
    assert owner.kinds() == {2: "succeeded"}


def test_an_application_that_cancels_every_task_ends_the_bodies(make: MakePool, owner: Owner) -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    async def application() -> None:
        pool = make(4, loop=asyncio.get_running_loop())
        pool.submit_many([ask(work, 1), ask(work, 2)])
        await asyncio.sleep(0)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        assert len(tasks) == 2
        for task in tasks:  # they have not taken their first step yet
            task.cancel()

    asyncio.run(application())
    assert owner.kinds() == {1: "cancelled", 2: "cancelled"}


def test_a_cancel_reaches_one_firing_or_one_take_of_it(make: MakePool, owner: Owner) -> None:
    clock = ManualClock()
    pool = make(4, clock)

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
    make: MakePool, owner: Owner, reason: str, released: bool
) -> None:
    pool, looking, go_on = make(1), threading.Event(), threading.Event()

    async def block() -> None:
        looking.set()
        assert go_on.wait(60)

    async def work() -> None:
        raise AssertionError("it must not begin")

    pool = make(4)
    pool.submit_many([ask(block, 1)])
    assert looking.wait(30)
    pool.submit_many([ask(work, 2)])
    assert pool.cancel(2, reason)
    go_on.set()
    assert pool.wait_idle(30)
    assert owner.given_back == ([2] if released else [])
    assert owner.kinds().get(2) == (None if released else "cancelled")


def test_a_thread_that_ignores_its_cancel_keeps_its_place_and_is_shown(make: MakePool, owner: Owner) -> None:
    clock = ManualClock()
    pool, gate = make(2, clock), Gate()
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


def test_a_closed_pool_begins_nothing_and_lets_what_runs_end(make: MakePool, owner: Owner) -> None:
    pool, gate = make(2), Gate()
    pool.submit_many([ask(gate)])
    assert gate.inside.acquire(timeout=30)
    pool.close()
    pool.submit_many([ask(lambda: None, 2)])
    assert owner.given_back == [2]
    gate.open.set()
    assert pool.wait_idle(30)
    assert owner.kinds() == {1: "succeeded"}


def test_a_machine_without_threads_releases_what_it_cannot_run(
    make: MakePool, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, gate = make(4), Gate()
    pool.submit_many([ask(gate, 1)])
    assert gate.inside.acquire(timeout=30)

    def none_left(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_left)
        pool.submit_many([ask(gate, 2), ask(gate, 3)])
    assert owner.given_back == [2, 3]
    pool.submit_many([ask(gate, 4)])
    gate.open.set()
    assert pool.wait_idle(30)
    assert owner.kinds() == {1: "succeeded", 4: "succeeded"}


def test_closing_ends_every_idle_thread(make: MakePool, owner: Owner) -> None:
    async def later() -> None: ...

    before = set(threading.enumerate())
    pool = make(4)
    pool.submit_many([*(ask(lambda: None, n, timeout=60_000_000) for n in range(3)), ask(later, 3)])
    assert pool.wait_idle(30)
    pool.close()
    wait_until(lambda: not new_threads(before), "the threads to end")


def test_a_waiting_thread_keeps_nothing_of_its_last_job_alive(make: MakePool, owner: Owner) -> None:
    class Large:
        pass

    pool, large = make(1), Large()
    gone = weakref.ref(large)
    pool.submit_many([ask(lambda x: None, fire_data={"x": large})])
    assert pool.wait_idle(30)
    del large

    def collected() -> bool:
        gc.collect()
        return gone() is None

    wait_until(collected, "the data to be freed")


def test_commands_run_in_places_and_a_lost_lease_leaves_them_no_grace(make: MakePool, owner: Owner) -> None:
    pool = make(2)
    stubborn = JobDefinition("c", "command", "trap '' TERM; while :; do sleep 600; done")
    pool.submit_many([ask(JobDefinition("c", "command", "echo hi"), 1), ask(stubborn, 2)])
    wait_until(lambda: 1 in owner.outcomes, "the first")
    assert owner.outcomes[1].result == "hi"
    wait_until(lambda: all(entry.began for entry in pool.running()), "the second")
    pool.cancel_all("shutdown")
    pool.cancel_all("lease_lost")
    assert pool.wait_idle(4)  # the grace of a shutdown is 5 s
    assert owner.kinds()[2] == "interrupted"


def test_the_count_of_places_is_right_after_a_thousand_mixed_ends(make: MakePool, owner: Owner) -> None:
    pool = make(8)

    async def later(n: int) -> None:
        await asyncio.sleep(0)
        if n % 3 == 0:
            raise ValueError

    def now(n: int, ctx: JobContext) -> None:
        if n % 5 == 0:
            raise SystemExit
        if n % 7 == 0:
            ctx.cancel("asked")
            ctx.check()

    def feed(start: int) -> None:
        for n in range(start, 1000, 2):
            wait_until(lambda: pool.free >= 2, "a free place")
            pool.submit_many([ask(later if n % 4 < 2 else now, n, fire_data={"n": n})])

    with ThreadPoolExecutor(2) as feeders:
        list(feeders.map(feed, range(2)))
    assert pool.wait_idle(60)
    assert pool.free == 8
    assert len(owner.outcomes) + len(owner.given_back) == 1000
