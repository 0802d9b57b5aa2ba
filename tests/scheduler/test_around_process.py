"""What is around bodies holds in worker processes as in threads, and for each kind of job."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.context import JobContext
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.registry import JobRegistry
from qsched.scheduler.running.runner import Runner
from qsched.scheduler.testing import context_for, request_for
from qsched.triggers.job import JobDefinition

from support import around_jobs
from support.ledger import Ledger

APP = around_jobs.__name__


APP = around_jobs.__name__


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner(SystemClock(), grace=0.2)
    yield made
    made.close()


def outcome_of(runner: Runner, function: Callable[..., Any], **data: Any) -> Outcome:
    return runner.run(context_for(function, SystemClock(), fire_data=data))


# -- in processes ------------------------------------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """What the app of support/around_jobs.py says."""
    monkeypatch.setenv(around_jobs.LEDGER, str(tmp_path / "ledger"))
    return Ledger(tmp_path / "ledger")


def whats(ledger: Ledger) -> list[str]:
    return [line["what"] for line in ledger.lines()]


def test_all_of_it_holds_in_a_worker_process(runner: Runner, ledger: Ledger) -> None:
    assert outcome_of(runner, around_jobs.count_apart).result == "1"
    outcome = outcome_of(runner, around_jobs.count_apart, fails=True)
    assert (outcome.kind, outcome.error_type) == ("failed", "KeyError")
    startup = ["first", "warm_up", "warm_loop"]
    assert whats(ledger) == [
        *startup,
        *("outer", "opened", "body", "closed"),
        *("outer", "opened", "body", "thrown", "closed"),
    ]
    assert len({line["pid"] for line in ledger.lines()}) == 1


def test_a_process_that_is_stopped_closes_its_scope(runner: Runner, ledger: Ledger) -> None:
    assert outcome_of(runner, around_jobs.linger_apart).kind == "timed_out"
    assert whats(ledger)[-2:] == ["thrown", "closed"]
    assert ledger.lines("thrown")[0]["error"] == "JobCancelled"


def test_a_startup_hook_that_fails_in_a_worker_process_is_its_bodies_failure(
    runner: Runner, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(around_jobs.FAILING, "startup")
    outcome = outcome_of(runner, around_jobs.count_apart)
    assert (outcome.kind, outcome.error_type) == ("failed", "AppError")
    assert "warm_up failed: ValueError: the cache is cold" in (outcome.error_message or "")


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("count", "1"),
        ("count_async", "1"),
        ("count_own", "-1"),
        ("count_ready_made", "ready-made"),
        ("count_nothing", "0"),
    ],
)
def test_each_kind_of_job_gets_its_scope(runner: Runner, name: str, result: str) -> None:
    loaded = JobRegistry([APP]).resolve(JobDefinition(name, "python", name))
    function = loaded.function
    assert function is not None
    request = replace(request_for(function), job=loaded)
    assert runner.run(JobContext(request, SystemClock())).result == result
