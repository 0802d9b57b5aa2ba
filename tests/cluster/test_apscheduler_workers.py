"""Four workers of one APScheduler application: each slot many times without the adapter, once with it (field-bugs B01)."""

import signal
from collections import Counter
from pathlib import Path

import pytest
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND

from support.aps_app import JOBS
from support.aps_workers import Slot, Workers
from support.declared import rows


def test_in_memory_every_worker_runs_every_slot(tmp_path: Path) -> None:
    with Workers(tmp_path, "memory") as workers:
        workers.wait_for(2)
        assert workers.twice()


def test_in_a_shared_sqlalchemy_store_workers_run_slots_beside_each_other(
    tmp_path: Path, postgresql_url: str
) -> None:
    url = postgresql_url.replace("postgresql://", "postgresql+psycopg://")
    with Workers(tmp_path, f"sqlalchemy {url}") as workers:
        workers.wait_for(2)
        assert workers.twice()


@pytest.mark.parametrize(
    "database", ["sqlite", "postgresql", pytest.param("mariadb", marks=pytest.mark.long)]
)
def test_in_a_qsched_store_each_slot_runs_once_and_after_a_kill_too(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{database}_url")
    with Workers(tmp_path, f"qsched {url}") as workers:
        workers.wait_for(2)
        killed = workers.kill_one_at_work()
        workers.wait_for(3)
        others = [process for process in workers.processes if process.pid != killed]
        for process in others:
            process.signal(signal.SIGTERM)
        assert [process.wait() for process in others] == [0, 0, 0], workers.logs()

        assert not workers.twice()
        assert len({pid for _, _, pid in workers.lines("slot")}) == 4  # all of them have worked
        first, last = workers.full_seconds()[0], workers.full_seconds()[-1]
        decided = _decided(url)
        assert workers.slots().keys() <= decided.keys()

        # No slot is missing: what did not run has its row too. A job of the killed worker is busy until it is known to be dead.
        assert all((f"job-{n:02}", at) in decided for n in range(JOBS) for at in range(first, last + 1))
        assert {slot for slot, state in decided.items() if state == "succeeded"} <= workers.slots().keys()
        others_say = Counter(state for state in decided.values() if state != "succeeded")
        assert others_say.keys() <= {"lost", "skipped overlap"}
        assert 1 <= others_say["lost"] <= JOBS


def _decided(url: str) -> dict[Slot, str]:
    """Each slot that a row decides, and what became of it."""
    text = (
        "SELECT trigger_name, first_scheduled_at, scheduled_at, state, misfire_cause FROM qsched_firings"
        " ORDER BY id"
    )
    store = open_store(url, create=False)
    found = rows(store, text)
    store.close()
    return {
        (name.removeprefix("apscheduler/"), at): " ".join(filter(None, (state, cause)))
        for name, first, last, state, cause in found
        for at in range(first // SECOND, last // SECOND + 1)
    }
