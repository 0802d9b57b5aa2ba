"""Work that is asked for, on real nodes: from inside every kind of job, across a restart, and cancelled from elsewhere."""

import signal
from pathlib import Path

import pytest
from qsched.scheduler.clock import SystemClock
from qsched.triggers.instant import SECOND

from qsched import Scheduler
from support.declared import rows
from support.ledger import Ledger
from support.nodes import JOBS, Nodes
from support.waiting import wait_until

ASKING = "support.asking_jobs"


def test_every_kind_of_job_has_others_run_and_hears_what_cannot_be(sqlite_url: str, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    kinds = {"ask_in_thread": "thread", "ask_on_loop": "loop", "ask_in_process": "process"}
    with Scheduler(sqlite_url) as scheduler, Nodes(tmp_path, sqlite_url) as nodes:
        for name in kinds:
            scheduler.enqueue(f"{ASKING}:{name}", {"ledger": str(ledger.path)})
        nodes.start("one", "--app", ASKING).wait_ready()
        wait_until(
            lambda: len(ledger.lines("ran")) >= 3 and ledger.lines("refused"), "all of them", within=60
        )
        assert {line["by"] for line in ledger.lines("ran")} == set(kinds.values())
        assert {line["trigger"] for line in ledger.lines("ran")} == {None}
        for line in ledger.lines("asked"):
            assert line["first"][1] is True
            assert line["again"] == [line["first"][0], False]
            unknown, data, priority = line["problems"]
            assert unknown.startswith("UnknownJob: no job 'nobody'")
            assert data.startswith(
                "DefinitionError: data of the enqueue of 'support.asking_jobs:asked': x is {1}"
            )
            assert priority.startswith("DefinitionError: enqueue: priority must be")
        assert "cannot be used in a process job" in ledger.lines("refused")[0]["why"]
        assert nodes.stop() == [0]
        assert nodes.troubles() == []


@pytest.mark.parametrize("gone", [signal.SIGTERM, signal.SIGKILL])
def test_a_delayed_one_survives_the_restart_of_the_only_node(
    sqlite_url: str, tmp_path: Path, gone: int
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    with Scheduler(sqlite_url) as scheduler, Nodes(tmp_path, sqlite_url) as nodes:
        first = nodes.start("first")
        first.wait_ready()
        done = scheduler.enqueue(f"{JOBS}:note", {"ledger": str(ledger.path)}, delay="3s")
        first.signal(gone)
        first.wait()
        assert ledger.lines("ran") == []
        nodes.start("second").wait_ready()
        wait_until(lambda: ledger.lines("ran"), "the delayed job", within=60)
        (ran,) = ledger.lines("ran")
        assert (ran["firing"], ran["node"]) == (done.id, "second")
        assert ran["began"] >= ran["slot"]


def test_a_cancel_reaches_a_body_on_another_node_within_a_poll(sqlite_url: str, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    with Scheduler(sqlite_url, who="ann") as scheduler, Nodes(tmp_path, sqlite_url) as nodes:
        for name in ("one", "two"):
            nodes.start(name).wait_ready()
        done = scheduler.enqueue(f"{JOBS}:linger", {"ledger": str(ledger.path), "seconds": 60})
        assert done.id is not None
        wait_until(lambda: ledger.lines("began"), "the body", within=30)
        clock = SystemClock()
        asked_at = clock.wall()
        assert scheduler.cancel(done.id, reason="wrong day") == "asked"
        store = scheduler._open(create=False)
        statement = "SELECT state, outcome, finished_at FROM qsched_firings WHERE id = ?"
        wait_until(lambda: rows(store, statement, done.id)[0][0] == "cancelled", "its end", within=30)
        ((_, outcome, finished_at),) = rows(store, statement, done.id)
        assert outcome == "cancelled"
        assert finished_at - asked_at < 2 * SECOND  # a check-in is one second
        assert ledger.lines("ended") == []
