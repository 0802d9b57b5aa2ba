"""A node's worker processes: as many as bodies at once, kept for a while, gone without a trace."""

import logging
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.context import JobContext
from qsched.scheduler.loaded_job import Allowed
from qsched.scheduler.running.process_pool import NotBegun, ProcessPool
from qsched.scheduler.running.runner import Runner
from qsched.scheduler.testing import ManualClock, context_for, request_for
from qsched.triggers.job import JobDefinition, JobPolicies

from support import process_jobs as jobs
from support.pool_owner import MakePool, Owner, ask
from support.process_kin import children_of, ended
from support.waiting import wait_until


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner(SystemClock(), grace=0.2)
    yield made
    made.close()


def pid_of(runner: Runner, function: Callable[..., Any] = jobs.who, **data: Any) -> int:
    outcome = runner.run(context_for(function, SystemClock(), fire_data=data))
    assert outcome.kind == "succeeded", outcome
    return int(outcome.result or "")


def guardian_of(worker: int) -> psutil.Process:
    return psutil.Process(psutil.Process(worker).ppid())


def test_no_process_is_started_before_one_is_needed_and_none_is_left_after() -> None:
    before = set(children_of(os.getpid()))
    runner = Runner(SystemClock())
    runner.renew(1e9)
    assert set(children_of(os.getpid())) == before
    worker = pid_of(runner)
    guardian = guardian_of(worker)
    assert guardian.ppid() == os.getpid()
    runner.close()
    assert ended(worker)
    assert ended(guardian.pid)
    assert set(children_of(os.getpid())) == before, "and no zombie"


def test_there_are_no_more_workers_than_bodies_at_once(runner: Runner) -> None:
    with ThreadPoolExecutor(3) as threads:
        outcomes = list(threads.map(runner.run, [context_for(jobs.who, SystemClock()) for _ in range(30)]))
    assert {outcome.kind for outcome in outcomes} == {"succeeded"}
    assert 1 <= len({outcome.result for outcome in outcomes}) <= 3


def test_two_hundred_bodies_leave_no_zombie_and_no_descriptor(runner: Runner) -> None:
    me, threads = psutil.Process(), ThreadPoolExecutor(3)

    def run(numbers: range) -> list[str]:
        return [outcome.kind for outcome in threads.map(runner.run, [_mixed(number) for number in numbers])]

    run(range(6))
    guardian = guardian_of(pid_of(runner))
    before = me.num_fds(), len(guardian.children()), guardian.num_fds()
    kinds = run(range(200))
    assert (kinds.count("succeeded"), kinds.count("failed")) == (131, 69)

    def now() -> tuple[int, int, int]:
        return me.num_fds(), len(guardian.children()), guardian.num_fds()

    wait_until(lambda: all(x <= y for x, y in zip(now(), before, strict=True)), f"{before} again")
    assert all(child.status() != psutil.STATUS_ZOMBIE for child in guardian.children())
    threads.shutdown()


def _mixed(number: int) -> JobContext:
    if number % 50 == 7:
        return context_for(jobs.leave, SystemClock(), fire_data={"status": 3})
    if number % 3 == 1:
        return context_for(jobs.fail, SystemClock(), fire_data={"kind": "loss"})
    return context_for(jobs.later if number % 3 else jobs.who, SystemClock())


def test_a_worker_that_nobody_needs_leaves_after_a_while() -> None:
    clock = ManualClock()
    pool = ProcessPool(clock, keep=60)
    channel = pool.take(Allowed())
    pool.give_back(channel, again=True)
    clock.advance(59)
    assert pool.retire_idle() == 0
    clock.advance(2)
    assert pool.retire_idle() == 1
    wait_until(lambda: channel.ward.fate is not None, "it to leave")
    assert channel.ward.fate is not None
    assert channel.ward.fate.status == 0, "by itself"
    pool.close()


def test_a_worker_whose_threads_do_not_end_leaves_as_well(runner: Runner) -> None:
    runner.run(context_for(jobs.leave_thread, SystemClock()))
    worker = pid_of(runner)
    runner.close()
    assert ended(worker)


def test_a_closed_pool_begins_nothing() -> None:
    pool = ProcessPool(SystemClock())
    pool.close()
    with pytest.raises(NotBegun):
        pool.take(Allowed())


def test_a_node_looks_once_more_when_a_process_took_its_time_to_start(
    make_pool: MakePool, owner: Owner
) -> None:
    looks = iter([True, False, True])
    owner.begins = lambda request: next(looks)
    pool = make_pool(1)
    pool.submit_many([ask(jobs.who, 1)])
    assert pool.wait_idle(30)
    assert (owner.given_back, owner.outcomes) == ([1], {})
    pool.submit_many([ask(jobs.who, 2)])
    assert pool.wait_idle(30)
    assert owner.kinds() == {2: "succeeded"}, "the worker is there now"


def test_when_no_process_can_be_started_the_firing_is_given_back(
    make_pool: MakePool, owner: Owner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    pool = make_pool(1)
    pool.submit_many([ask(jobs.who, 1)])
    assert pool.wait_idle(30)
    assert (owner.given_back, owner.outcomes) == ([1], {})
    assert "No such file or directory: '/nowhere/python'" in caplog.text


def test_commands_run_also_where_no_guardian_can_be_started(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    for _ in range(2):
        assert runner.run(command("echo hi")).result == "hi"
    assert caplog.text.count("command.unleased") == 1


def test_a_command_that_runs_when_the_runner_is_closed_goes_on_to_its_end(
    runner: Runner, tmp_path: Path
) -> None:
    mark, until = tmp_path / "mark", tmp_path / "until"
    with ThreadPoolExecutor(1) as threads:
        body = threads.submit(
            runner.run, command(f"touch {mark}; until [ -e {until} ]; do sleep 0.01; done; echo done")
        )
        wait_until(mark.exists, "it to begin")
        (guardian,) = [
            child for child in psutil.Process().children() if "process_guardian" in " ".join(child.cmdline())
        ]
        runner.close()
        until.touch()
        assert body.result(30).result == "done"
    wait_until(lambda: ended(guardian.pid), "the guardian to leave")


def command(text: str) -> JobContext:
    """One that another node might run again, so that it ends with the lease."""
    policies = JobPolicies(request_recovery=True)
    return JobContext(request_for(JobDefinition("c", "command", text, policies=policies)), SystemClock())


def test_a_guardian_that_is_killed_takes_its_workers_along_and_the_next_body_has_another(
    runner: Runner, tmp_path: Path
) -> None:
    worker = pid_of(runner)
    guardian = guardian_of(worker)
    mark = tmp_path / "mark"
    with ThreadPoolExecutor(1) as threads:
        body = threads.submit(
            runner.run, context_for(jobs.clean_up, SystemClock(), fire_data={"mark": str(mark), "deaf": True})
        )
        wait_until(mark.exists, "the body to begin")
        guardian.send_signal(signal.SIGKILL)
        outcome = body.result(30)
    assert (outcome.kind, outcome.error_type) == ("failed", "KilledBySignal")
    assert ended(worker)
    assert guardian_of(pid_of(runner)) != guardian


def test_a_forked_child_leaves_the_guardian_to_its_parent(runner: Runner) -> None:
    worker = pid_of(runner)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert pid_of(runner) == worker


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "import no_such_module",
            "in a process of its own: --app {name}: cannot import {name}: No module named 'no_such_module'",
        ),
        ("raise SystemExit(3)", "in a process of its own: --app {name}: cannot import {name}: SystemExit: 3"),
        ("import os; os._exit(3)", "importing the job's modules: its process died: exit code 3"),
    ],
    ids=["missing", "raises", "exits"],
)
def test_an_app_that_cannot_be_imported_in_a_process_is_a_failure_told_once(
    runner: Runner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    text: str,
    problem: str,
) -> None:
    name = f"shop_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(str(tmp_path))
    caplog.set_level(logging.INFO)
    for _ in range(2):
        ctx = context_for(jobs.who, SystemClock())
        ctx.request.job = replace(ctx.request.job, allowed=Allowed(apps=(name,)))
        outcome = runner.run(ctx)
        assert (outcome.kind, outcome.error_type) == ("failed", "AppError")
        assert (outcome.error_message or "").startswith(problem.format(name=name))
    assert caplog.text.count("process.cannot_load") == 1
