"""Places and bodies: a last look before each, an end after each, and no place lost whatever a body does."""

import asyncio
import gc
import threading
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from qsched.scheduler.context import JobContext, RunRequest
from qsched.scheduler.testing import ManualClock

from support.pool_owner import Gate, MakePool, Owner, ask, new_threads
from support.waiting import wait_until


def test_each_request_runs_once_and_ends_at_its_owner(make_pool: MakePool, owner: Owner) -> None:
    pool, ran = make_pool(), Counter[int]()

    def work(n: int) -> None:
        ran[n] += 1

    for first in range(0, 400, 4):
        pool.submit_many([ask(work, n, fire_data={"n": n}) for n in range(first, first + 4)])
        assert pool.wait_idle(30)
    assert ran == Counter(range(400))
    assert set(owner.kinds()) == set(range(400))
    assert set(owner.kinds().values()) == {"succeeded"}
    assert pool.free == 4


def test_as_many_bodies_run_at_once_as_there_are_places(make_pool: MakePool, owner: Owner) -> None:
    pool, gate = make_pool(3), Gate()
    pool.submit_many([ask(gate, n) for n in range(3)])
    for _ in range(3):
        assert gate.inside.acquire(timeout=30)
    assert pool.free == 0
    assert len(pool.running()) == 3
    assert not pool.wait_idle(0.01)
    gate.open.set()
    assert pool.wait_idle(30)
    assert pool.free == 3


def test_threads_are_started_only_when_they_are_needed(make_pool: MakePool, owner: Owner) -> None:
    before = set(threading.enumerate())
    pool = make_pool(50)
    assert new_threads(before) == set()
    for n in range(5):
        pool.submit_many([ask(lambda: None, n)])
        assert pool.wait_idle(30)
    assert len(new_threads(before)) == 1


def test_what_finds_no_place_is_released_and_not_queued(make_pool: MakePool, owner: Owner) -> None:
    pool, gate = make_pool(1), Gate()
    pool.submit_many([ask(gate, 1), ask(gate, 2)])
    assert owner.given_back == [2]
    assert pool.free == 0
    gate.open.set()
    assert pool.wait_idle(30)
    assert owner.kinds() == {1: "succeeded"}


def test_a_body_begins_only_when_the_last_look_allows_it(make_pool: MakePool, owner: Owner) -> None:
    pool, ran = make_pool(), []
    owner.begins = lambda request: request.firing_id % 2 == 0
    pool.submit_many([ask(lambda: ran.append(1), n) for n in range(4)])
    assert pool.wait_idle(30)
    assert sorted(owner.given_back) == [1, 3]
    assert owner.kinds() == {0: "succeeded", 2: "succeeded"}
    assert len(ran) == 2


@pytest.mark.parametrize("kind", ["thread", "async"])
def test_a_last_look_that_fails_releases(make_pool: MakePool, owner: Owner, kind: str) -> None:
    async def work() -> None: ...

    def look(request: RunRequest) -> bool:
        raise SystemExit

    pool = make_pool()
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
    make_pool: MakePool, owner: Owner, error: type[BaseException]
) -> None:
    async def later() -> None:
        raise error

    def now() -> None:
        raise error

    pool = make_pool(2)
    for n in range(0, 40, 2):
        pool.submit_many([ask(now, n), ask(later, n + 1)])
        assert pool.wait_idle(30)
    assert pool.free == 2
    assert len(owner.kinds()) == 40
    assert set(owner.kinds().values()) == {"failed"}


def test_an_owner_that_fails_costs_neither_thread_nor_place(make_pool: MakePool, owner: Owner) -> None:
    def ends(request: RunRequest) -> None:
        raise KeyboardInterrupt

    async def later() -> None: ...

    pool = make_pool(2)
    owner.ends = ends
    for n in range(0, 10, 2):
        pool.submit_many([ask(lambda: None, n), ask(later, n + 1)])
        assert pool.wait_idle(30)
    assert len(owner.outcomes) == 10
    assert pool.free == 2


def test_a_place_is_free_when_its_owner_hears_of_the_end(make_pool: MakePool, owner: Owner) -> None:
    pool, seen = make_pool(1), []
    owner.ends = lambda request: seen.append(pool.free)
    pool.submit_many([ask(lambda: None)])
    assert pool.wait_idle(30)
    assert seen == [1]


def test_idle_means_that_every_end_has_been_told(make_pool: MakePool, owner: Owner) -> None:
    pool, telling, go_on = make_pool(1), threading.Event(), threading.Event()

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
    make_pool: MakePool, owner: Owner
) -> None:
    clock = ManualClock()
    pool = make_pool(1, clock)

    def look(request: RunRequest) -> bool:
        clock.advance(29)  # as if the thread had been busy that long
        return True

    owner.begins = look
    pool.submit_many([ask(lambda: clock.advance(2), timeout=30_000_000)])
    assert pool.wait_idle(None)
    assert owner.kinds() == {1: "succeeded"}
    assert owner.ended_at == {1: 1031.0}


def test_a_machine_without_threads_releases_what_it_cannot_run(
    make_pool: MakePool, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, gate = make_pool(4), Gate()
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


def test_a_waiting_thread_keeps_nothing_of_its_last_job_alive(make_pool: MakePool, owner: Owner) -> None:
    class Large:
        pass

    pool, large = make_pool(1), Large()
    gone = weakref.ref(large)
    pool.submit_many([ask(lambda x: None, fire_data={"x": large})])
    assert pool.wait_idle(30)
    del large

    def collected() -> bool:
        gc.collect()
        return gone() is None

    wait_until(collected, "the data to be freed")


def test_the_count_of_places_is_right_after_a_thousand_mixed_ends(make_pool: MakePool, owner: Owner) -> None:
    pool = make_pool(8)

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
