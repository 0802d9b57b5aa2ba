"""A body in a process can be made to stop: told first, then by SIGTERM, then by force, with all that it started."""

import ctypes
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.context import JobContext
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.running.process_pool import NotBegun
from qsched.scheduler.running.runner import Runner
from qsched.scheduler.testing import context_for

from support import process_jobs as jobs
from support.process_kin import ended
from support.waiting import wait_until


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    made = Runner(SystemClock(), grace=0.2)
    yield made
    made.close()


@pytest.fixture(scope="module")
def patient() -> Iterator[Runner]:
    """A runner whose grace no test lives to see."""
    made = Runner(SystemClock(), grace=600)
    yield made
    made.close()


class Begun:
    """A body that has begun in a process, as its mark says."""

    def __init__(self, runner: Runner, function: Callable[..., Any], mark: Path, **data: Any) -> None:
        timeout = data.pop("timeout", None)
        data["mark"] = str(mark)
        self.ctx = context_for(function, SystemClock(), fire_data=data, timeout=timeout)
        self._threads = ThreadPoolExecutor(1)
        self._future: Future[Outcome] = self._threads.submit(runner.run, self.ctx)
        wait_until(lambda: mark.exists() or self._future.done(), "the body to begin")

    def outcome(self) -> Outcome:
        found = self._future.result(60)
        self._threads.shutdown()
        return found


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("shutdown", "interrupted"),
        ("overlap: a later slot has come", "cancelled"),
    ],
)
def test_a_body_that_hears_a_cancel_ends_with_its_reason(
    patient: Runner, mark: Path, reason: str, kind: str
) -> None:
    body = Begun(patient, jobs.cooperate, mark)
    body.ctx.cancel(reason)
    outcome = body.outcome()
    assert (outcome.kind, outcome.error_message) == (kind, reason)


def test_a_cancel_arrives_in_an_async_body_as_asyncio_has_it(patient: Runner, mark: Path) -> None:
    body = Begun(patient, jobs.later_still, mark)
    body.ctx.cancel("shutdown")
    assert body.outcome().kind == "interrupted"
    assert mark.read_text() == "ended"


def test_a_body_that_ends_well_all_the_same_has_succeeded(patient: Runner, mark: Path) -> None:
    body = Begun(patient, jobs.ignore_cancel, mark)
    body.ctx.cancel("shutdown")
    assert body.outcome() == Outcome.success("ended all the same, told shutdown")


def test_a_shield_holds_a_cancel_back_and_a_time_out_in_its_grace(
    patient: Runner, mark: Path, tmp_path: Path
) -> None:
    until = tmp_path / "until"
    body = Begun(patient, jobs.shielded, mark, until=str(until), timeout=200_000)
    wait_until(lambda: body.ctx.cancelled, "the time-out")
    until.touch()
    assert body.outcome() == Outcome.timeout(200_000)
    assert mark.read_text() == "finished"


@pytest.mark.parametrize(
    ("function", "left"),
    [(jobs.spin, ""), (jobs.clean_up, "JobCancelled")],
    ids=["busy", "waiting"],
)
def test_a_body_that_is_deaf_to_its_time_out_is_ended_by_sigterm_and_may_clean_up(
    runner: Runner, mark: Path, function: Callable[..., Any], left: str
) -> None:
    assert Begun(runner, function, mark, timeout=200_000).outcome() == Outcome.timeout(200_000)
    assert mark.read_text() == left


def test_a_body_that_holds_the_interpreters_lock_is_killed_and_others_run_on(
    runner: Runner, mark: Path
) -> None:
    assert hasattr(ctypes.PyDLL(None), "sleep")
    hog = Begun(runner, jobs.hold_gil, mark, timeout=500_000)
    assert runner.run(context_for(jobs.who, SystemClock())).kind == "succeeded"
    assert hog.outcome() == Outcome.timeout(500_000)


def test_a_time_out_ends_what_the_body_started_as_well(runner: Runner, mark: Path) -> None:
    body = Begun(runner, jobs.breed, mark, timeout=300_000)
    assert body.outcome() == Outcome.timeout(300_000)
    child = int(mark.read_text())
    wait_until(lambda: ended(child), "the child to end", within=5)


def test_a_lost_lease_leaves_no_grace(patient: Runner, mark: Path) -> None:
    body = Begun(patient, jobs.clean_up, mark, deaf=True)
    body.ctx.cancel("lease_lost")
    outcome = body.outcome()
    assert (outcome.kind, outcome.error_message) == ("lost", "lease_lost")


def test_a_lost_lease_ends_also_what_was_told_something_else_before(patient: Runner, mark: Path) -> None:
    body = Begun(patient, jobs.clean_up, mark, deaf=True)
    body.ctx.cancel("shutdown")
    assert patient.kill_processes(leaving=False) >= 1
    assert body.outcome().kind == "interrupted"
    assert patient.run(context_for(jobs.who, SystemClock())).kind == "succeeded", "the node lives on"


def test_what_is_told_to_stop_before_it_begins_is_not_begun(patient: Runner) -> None:
    for reason in ("shutdown", "lease_lost"):
        ctx = context_for(jobs.leave, SystemClock(), fire_data={"status": 3})
        ctx.cancel(reason)
        with pytest.raises(NotBegun):
            patient.run(ctx)
    ctx = context_for(jobs.leave, SystemClock(), fire_data={"status": 3})
    ctx.cancel("an operator said so")
    assert patient.run(ctx).kind == "cancelled"


def test_after_the_last_kill_nothing_is_begun(mark: Path) -> None:
    runner = Runner(SystemClock(), grace=600)
    body = Begun(runner, jobs.clean_up, mark, deaf=True)
    assert runner.kill_processes() == 1
    outcome = body.outcome()
    assert (outcome.kind, outcome.error_message) == ("interrupted", "shutdown")
    with pytest.raises(NotBegun):
        runner.run(context_for(jobs.who, SystemClock()))
    runner.close()


def test_a_cancel_that_comes_late_does_not_reach_the_next_body(patient: Runner, mark: Path) -> None:
    told: list[Callable[[], object]] = []

    class Slow(JobContext):
        """Its teller is slow: it calls when the body has long ended."""

        __slots__ = ()

        def when_cancelled(self, tell: Callable[[], object] | None) -> None:
            if tell is not None:
                told.append(tell)

    first = Slow(context_for(jobs.who, SystemClock()).request, SystemClock())
    worker = patient.run(first).result
    body = Begun(patient, jobs.cooperate, mark)
    first.cancel("shutdown")
    for tell in told:
        tell()
    assert not threading.Event().wait(0.1)
    body.ctx.cancel("only now")
    assert body.outcome().error_message == "only now"
    assert patient.run(context_for(jobs.who, SystemClock())).result == worker
