"""Async bodies in places: on the pool's loop or the application's, and no place lost with either."""

import asyncio
import threading
from contextvars import ContextVar

from qsched.scheduler.outcome import Outcome
from qsched.scheduler.running.run_async import JobLoop

from support.pool_owner import MakePool, Owner, ask, new_threads


def test_async_bodies_take_places_but_no_threads(make_pool: MakePool, owner: Owner) -> None:
    before, begun, go_on = set(threading.enumerate()), threading.Semaphore(0), threading.Event()

    async def work() -> None:
        begun.release()
        while not go_on.is_set():
            await asyncio.sleep(0.005)

    pool = make_pool(50)
    pool.submit_many([ask(work, n) for n in range(30)])
    for _ in range(30):
        assert begun.acquire(timeout=30)
    assert pool.free == 20
    assert len(new_threads(before)) == 1
    go_on.set()
    assert pool.wait_idle(30)
    assert len(owner.kinds()) == 30


def test_async_bodies_run_on_the_applications_loop_where_it_is_given(
    make_pool: MakePool, owner: Owner
) -> None:
    async def work() -> str:
        return str(id(asyncio.get_running_loop()))

    async def application() -> str:
        loop = asyncio.get_running_loop()
        pool = make_pool(4, loop=JobLoop(loop))
        pool.submit_many([ask(work)])
        assert await loop.run_in_executor(None, pool.wait_idle, 30)
        return str(id(loop))

    used = asyncio.run(application())
    assert owner.outcomes[1] == Outcome.success(used)


variable: ContextVar[str] = ContextVar("variable", default="fresh")


def test_an_async_body_sees_no_context_variable_of_its_submitter(make_pool: MakePool, owner: Owner) -> None:
    async def work() -> str:
        return variable.get()

    pool = make_pool()
    token = variable.set("the submitter's")
    pool.submit_many([ask(work)])
    variable.reset(token)
    assert pool.wait_idle(30)
    assert owner.outcomes[1].result == "fresh"


def test_on_a_loop_that_is_closed_async_jobs_are_released(make_pool: MakePool, owner: Owner) -> None:
    async def work() -> None: ...

    loop = asyncio.new_event_loop()
    loop.close()
    pool = make_pool(4, loop=JobLoop(loop))
    pool.submit_many([ask(work), ask(lambda: None, 2)])
    assert pool.wait_idle(30)
    assert owner.given_back == [1]
    assert owner.kinds() == {2: "succeeded"}


def test_an_application_that_cancels_every_task_ends_the_bodies(make_pool: MakePool, owner: Owner) -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    async def application() -> None:
        pool = make_pool(4, loop=JobLoop(asyncio.get_running_loop()))
        pool.submit_many([ask(work, 1), ask(work, 2)])
        await asyncio.sleep(0)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        assert len(tasks) == 2
        for task in tasks:  # they have not taken their first step yet
            task.cancel()

    asyncio.run(application())
    assert owner.kinds() == {1: "cancelled", 2: "cancelled"}
