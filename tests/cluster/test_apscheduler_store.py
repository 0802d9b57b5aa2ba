"""The contract of APScheduler's job stores, as QschedJobStore keeps it: jobs that are added again, acts upon jobs, refusals."""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_JOB_SUBMITTED
from apscheduler.jobstores.base import ConflictingIdError, JobLookupError
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler
from qsched.scheduler.errors import SchedulerError
from qsched.scheduler.store.schema import open_store
from qsched.triggers.errors import DefinitionError

from qsched import QschedJobStore
from support.declared import rows
from support.waiting import wait_until

ran: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
NEVER = {"trigger": "cron", "month": 2, "day": 29, "hour": 3}


def note(*words: Any, **more: Any) -> None:
    """A job."""
    ran.put((*words, *more.items()))


def fail() -> None:
    """A job that raises."""
    raise ValueError("not today")


async def note_async(word: str) -> None:
    """An async job."""
    await asyncio.sleep(0)
    ran.put((word, threading.current_thread().name))


class Apps:
    """Schedulers as several processes would have them, all on one store."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.all: list[Any] = []

    def app(self, kind: Callable[..., Any] = BackgroundScheduler, **options: Any) -> Any:
        scheduler = kind(jobstores={"default": QschedJobStore(self.url, **options)}, timezone="UTC")
        self.all.append(scheduler)
        return scheduler

    def started(self, *jobs: dict[str, Any], paused: bool = False) -> Any:
        scheduler = self.app()
        for each in jobs:
            scheduler.add_job(**{"func": note, "replace_existing": True, **each})
        scheduler.start(paused=paused)
        return scheduler

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        store = open_store(self.url, create=False)
        try:
            return [tuple(row) for row in rows(store, text)]
        finally:
            store.close()

    def clock(self) -> list[tuple[Any, ...]]:
        """All that is stored of the triggers, when they were last written included."""
        return self.rows("SELECT * FROM qsched_triggers") + self.rows("SELECT * FROM qsched_trigger_clocks")


@pytest.fixture
def apps(made_url: str) -> Iterator[Apps]:
    made = Apps(made_url)
    yield made
    for scheduler in made.all:
        if scheduler.running:
            scheduler.shutdown()


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger("apscheduler").setLevel(logging.CRITICAL)
    while not ran.empty():
        ran.get()


def test_a_job_that_is_added_again_is_not_written(apps: Apps) -> None:
    jobs = ({"id": "leap", **NEVER}, {"id": "often", "trigger": "interval", "days": 5})
    apps.started(*jobs)
    before = apps.clock()
    apps.started(*jobs)
    assert apps.clock() == before


def test_a_pause_outlives_a_restart_and_ends_with_resume(apps: Apps) -> None:
    job = {"id": "leap", **NEVER}
    apps.started(job).pause_job("leap")
    later = apps.started(job)
    assert later.get_job("leap").next_run_time is None
    later.resume_job("leap")
    assert later.get_job("leap").next_run_time is not None


def test_a_changed_trigger_changes_the_next_run_and_runs_nothing(apps: Apps) -> None:
    app = apps.started({"id": "leap", **NEVER})
    app.reschedule_job("leap", trigger="cron", year=2096, month=2, day=29)
    assert app.get_job("leap").next_run_time.year == 2096
    assert apps.rows("SELECT COUNT(*) FROM qsched_firings") == [(0,)]


def test_the_same_id_without_replace_existing_is_a_conflict(apps: Apps) -> None:
    app = apps.started({"id": "leap", **NEVER})
    with pytest.raises(ConflictingIdError):
        app.add_job(note, id="leap", **NEVER)


def test_jobs_come_back_as_they_were_added(apps: Apps) -> None:
    said = {"args": ["a"], "kwargs": {"b": 1}, "name": "Leap", "coalesce": False, "max_instances": 3}
    app = apps.started({"id": "leap", "misfire_grace_time": 90, **said, **NEVER})
    (job,) = app.get_jobs()
    assert {name: getattr(job, name) for name in said} == {**said, "args": ("a",)}
    assert (job.func, job.misfire_grace_time, str(job.trigger)) == (
        note, 90, "cron[month='2', day='29', hour='3']"
    )  # fmt: skip


def test_a_removed_job_is_gone_and_its_name_is_free(apps: Apps) -> None:
    app = apps.started({"id": "leap", **NEVER})
    app.remove_job("leap")
    assert app.get_job("leap") is None
    with pytest.raises(JobLookupError):
        app.remove_job("leap")
    app.add_job(note, id="leap", **NEVER)
    app.remove_all_jobs()
    assert app.get_jobs() == []


def test_now_is_said_as_a_next_run_time_that_has_come(apps: Apps) -> None:
    app = apps.started({"id": "leap", "args": [1], "kwargs": {"b": 2}, **NEVER})
    job = app.get_job("leap")
    app.modify_job("leap", next_run_time=job.next_run_time.replace(year=2020))
    assert ran.get(timeout=10) == (1, ("b", 2))
    assert app.get_job("leap").next_run_time == job.next_run_time


def test_listeners_hear_of_a_run_and_the_ledger_of_its_error(apps: Apps) -> None:
    heard: SimpleQueue[Any] = SimpleQueue()
    app = apps.started({"id": "bad", "func": fail, **NEVER})
    app.add_listener(heard.put, EVENT_JOB_SUBMITTED | EVENT_JOB_ERROR | EVENT_JOB_EXECUTED)
    app.modify_job("bad", next_run_time=app.get_job("bad").next_run_time.replace(year=2020))
    codes = {heard.get(timeout=10).code for _ in range(2)}
    assert codes == {EVENT_JOB_SUBMITTED, EVENT_JOB_ERROR}
    wait_until(lambda: apps.rows("SELECT 1 FROM qsched_firings WHERE state = 'failed'"), "its end")
    assert "not today" in apps.rows("SELECT error FROM qsched_firings")[0][0]


def test_a_paused_scheduler_takes_nothing_and_others_do(apps: Apps) -> None:
    job = {"id": "leap", **NEVER}
    paused, other = apps.started(job, paused=True), apps.started(job, paused=True)
    other.modify_job("leap", next_run_time=other.get_job("leap").next_run_time.replace(year=2020))
    assert apps.rows("SELECT COUNT(*) FROM qsched_nodes") == [(0,)]
    other.resume()
    ran.get(timeout=10)
    assert apps.rows("SELECT COUNT(*) FROM qsched_nodes") == [(1,)]
    del paused


@pytest.mark.parametrize("database", ["sqlite"])
def test_async_jobs_run_on_the_loop_of_their_scheduler(database: str, request: pytest.FixtureRequest) -> None:
    apps = Apps(request.getfixturevalue(f"{database}_url"))

    async def main() -> tuple[Any, ...]:
        app = apps.app(AsyncIOScheduler)
        app.add_job(note_async, "cron", second="*", id="a", args=["word"])
        app.start()
        try:
            return await asyncio.to_thread(ran.get, timeout=10)
        finally:
            await asyncio.to_thread(app.shutdown)
            await asyncio.sleep(0)

    assert asyncio.run(main()) == ("word", threading.main_thread().name)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ({"func": lambda: None, "id": "a"}, "lambda"),
        ({"func": note, "id": "a", "args": [object()]}, "not JSON"),
        ({"func": note, "id": "a", "args": [(1, 2)]}, "changed from JSON"),
        ({"func": note, "id": "a/b"}, "without '/'"),
        ({"func": note, "id": "a", "week": 3}, "ISO weeks"),
    ],
)
def test_what_other_processes_could_not_run_is_refused(
    sqlite_url: str, job: dict[str, Any], why: str
) -> None:
    apps = Apps(sqlite_url)
    app = apps.started()
    with pytest.raises(DefinitionError, match=why):
        app.add_job(**{**NEVER, **job})
    app.shutdown()


def test_a_scheduler_that_no_node_can_reach_is_refused(sqlite_url: str) -> None:
    gevent = type("GeventScheduler", (BackgroundScheduler,), {})
    with pytest.raises(SchedulerError, match="GeventScheduler"):
        QschedJobStore(sqlite_url).start(gevent(timezone="UTC"), "default")


def test_a_forked_child_runs_nothing_of_its_parents_jobs(sqlite_url: str) -> None:
    apps = Apps(sqlite_url)
    app = apps.started({"id": "leap", **NEVER})
    wait_until(lambda: apps.rows("SELECT 1 FROM qsched_nodes"), "the node")
    if (child := os.fork()) == 0:
        left = [thread for thread in threading.enumerate() if thread.name.startswith("qsched-")]
        os._exit(len(left))
    assert os.waitpid(child, 0)[1] == 0
    app.shutdown()
