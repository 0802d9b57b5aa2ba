"""A body in a worker process: it is told what a thread is told, and whatever it does there becomes an outcome."""

import json
import logging
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.context import JobContext
from qsched.scheduler.outcome import MESSAGE_BYTES, TRACEBACK_BYTES, Outcome
from qsched.scheduler.running.runner import Runner
from qsched.scheduler.testing import START, context_for
from qsched.triggers.retry import RetryPolicy

from support import containment_jobs
from support import process_jobs as jobs
from support.process_kin import ended
from support.waiting import wait_until


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    """One for all: that a body may do anything and the next runs all the same is what these tests say."""
    made = Runner(SystemClock(), grace=0.2)
    yield made
    made.close()


def context(function: Callable[..., Any], data: dict[str, Any] | None = None, **fields: Any) -> JobContext:
    return context_for(function, SystemClock(), fire_data=data or {}, **fields)


def outcome_of(runner: Runner, function: Callable[..., Any], **data: Any) -> Outcome:
    return runner.run(context(function, data))


def told(outcome: Outcome) -> Any:
    assert outcome.kind == "succeeded", outcome
    return json.loads(outcome.result or "null")


def test_a_body_learns_of_its_run_what_it_would_learn_in_a_thread(runner: Runner) -> None:
    fields = {
        "firing_id": 7,
        "fence": 3,
        "trigger": "etl/nightly",
        "scheduled_at": START,
        "fired_at": START + 2_500_000,
        "late": 2_500_000,
        "attempt": 2,
        "recovering": True,
        "node": "a",
    }
    data = {"a": [1, None, 2.5, "ü\0"], "b": {"c": True}}
    there = told(runner.run(context(jobs.tell_all, data, **fields)))
    here = context(jobs.tell_all, data, **fields)
    assert there == jobs.tell_all(here, **data)
    assert (there["attempt"], there["recovering"], there["late"]) == (2, True, 2.5)


def test_the_idempotency_key_is_made_of_its_template(runner: Runner) -> None:
    assert outcome_of(runner, jobs.keyed, order=7).result == "order:7"


def test_data_are_overlaid_and_expanded_before_they_leave_the_node(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_REGION", "north")
    data = {"region": "${SHOP_REGION}", "shelf": "A"}
    ctx = context(jobs.tell_all, {"shelf": "B", "raw": "${SHOP_REGION}"}, trigger_data=data)
    assert told(runner.run(ctx))["passed"] == {"region": "north", "shelf": "B", "raw": "${SHOP_REGION}"}
    missing = context(jobs.tell_all, trigger_data={"region": "${NOWHERE}"})
    assert "NOWHERE" in (runner.run(missing).error_message or "")


@pytest.mark.parametrize(
    ("value", "text"),
    [("done", "done"), (7, "7"), ({"a": [1]}, '{"a": [1]}'), (None, None), ("x" * 100_000, "x" * 4093 + "…")],
    ids=["text", "number", "mapping", "nothing", "long"],
)
def test_what_a_body_returns_is_kept_as_text(runner: Runner, value: object, text: str | None) -> None:
    assert outcome_of(runner, jobs.give, value=value) == Outcome.success(text)


def test_what_json_cannot_carry_is_told_plainly(runner: Runner) -> None:
    assert outcome_of(runner, jobs.give_object).result == "<object: not stored, JSON cannot carry it>"
    refused = outcome_of(runner, jobs.give, value={1, 2})
    assert refused.error_message == "Object of type set is not JSON serializable"
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert outcome_of(runner, jobs.give, value=deep).error_message == "it is nested too deeply"
    assert "is the most" in (outcome_of(runner, jobs.give, value="x" * 5_000_000).error_message or "")
    assert outcome_of(runner, jobs.give, value="x" * 1_000_000).kind == "succeeded"


def test_async_functions_run_on_a_loop_of_their_own(runner: Runner) -> None:
    assert outcome_of(runner, jobs.later).result == "later"


def test_an_argument_the_function_does_not_know_fails_for_good_and_is_named(runner: Runner) -> None:
    outcome = outcome_of(runner, jobs.keyed, order=1, colour="red")
    assert outcome.permanent
    assert "does not know 'colour'" in (outcome.error_message or "")


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("ValueError", "ValueError", "bad value"),
        ("SystemExit", "SystemExit", "3"),
        ("KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("MemoryError", "MemoryError", "full"),
        ("surrogate", "ValueError", "a\ufffdb\ufffdc"),
    ],
)
def test_whatever_a_body_raises_ends_at_its_edge(runner: Runner, kind: str, name: str, message: str) -> None:
    outcome = outcome_of(runner, jobs.fail, kind=kind)
    assert (outcome.kind, outcome.error_type, outcome.error_message) == ("failed", name, message)
    assert not outcome.permanent


def test_the_traceback_is_the_jobs_own_and_bounded(runner: Runner) -> None:
    trace = outcome_of(runner, jobs.fail, kind="ValueError").traceback or ""
    assert trace.startswith("Traceback")
    assert "process_jobs.py" in trace
    assert "process_worker" not in trace
    assert "run_thread" not in trace
    long = outcome_of(runner, jobs.fail, kind="long")
    assert len((long.error_message or "").encode()) <= MESSAGE_BYTES
    assert len((long.traceback or "").encode()) <= TRACEBACK_BYTES
    assert outcome_of(runner, jobs.recurse).error_type == "RecursionError"


def test_an_error_keeps_its_classes_so_that_a_policy_can_name_them(runner: Runner) -> None:
    outcome = outcome_of(runner, jobs.fail, kind="StockError")
    for name, retried in {
        "StockError": True,
        "ShopError": True,
        "support.process_jobs.ShopError": True,
        "Exception": True,
        "ValueError": False,
    }.items():
        assert RetryPolicy(max_retries=1, retry_on=(name,)).retries(outcome.error_classes) is retried, name


def test_what_a_job_says_of_its_retry_is_heard(runner: Runner) -> None:
    assert outcome_of(runner, jobs.fail, kind="PermanentError").permanent
    assert outcome_of(runner, jobs.fail, kind="RetryAfter").retry_after == 90_000_000
    assert outcome_of(runner, jobs.fail, kind="RetryNow").retry_now


@pytest.mark.parametrize(
    ("function", "data", "name", "message"),
    [
        (jobs.leave, {"status": 3}, "ExitCode", "its process died: exit code 3"),
        (jobs.leave, {"status": 0}, "ExitCode", "its process died: exit code 0"),
        (jobs.crash, {}, "KilledBySignal", "its process died: ended by SIGSEGV"),
        (jobs.kill_self, {}, "KilledBySignal", "its process died: ended by SIGKILL"),
        (jobs.spoil_channel, {"how": "close"}, "ExitCode", "its process died: exit code 1"),
        (
            jobs.spoil_channel,
            {"how": "garbage"},
            "BrokenProcess",
            "its process sent a frame that is no JSON: JSONDecodeError, and was ended",
        ),
        (
            jobs.spoil_channel,
            {"how": "length"},
            "BrokenProcess",
            "its process sent a frame of 4,294,967,295 bytes, and was ended",
        ),
    ],
    ids=["exit 3", "exit 0", "segfault", "kill -9", "channel closed", "no JSON", "no frame"],
)
def test_a_process_that_dies_is_a_failed_attempt_and_the_node_goes_on(
    runner: Runner, function: Callable[..., Any], data: dict[str, Any], name: str, message: str
) -> None:
    outcome = outcome_of(runner, function, **data)
    assert (outcome.kind, outcome.error_type, outcome.error_message) == ("failed", name, message)
    assert RetryPolicy(max_retries=1, retry_on=(name,)).retries(outcome.error_classes)
    assert outcome_of(runner, jobs.give, value="next").result == "next"


def test_a_process_is_used_again_also_after_a_failure_but_not_when_its_memory_was_full(
    runner: Runner,
) -> None:
    first = told(outcome_of(runner, jobs.who))
    outcome_of(runner, jobs.fail, kind="ValueError")
    outcome_of(runner, jobs.later)
    assert told(outcome_of(runner, jobs.who)) == first
    outcome_of(runner, jobs.fail, kind="MemoryError")
    assert told(outcome_of(runner, jobs.who)) != first


def test_a_process_whose_standard_streams_were_closed_is_not_used_again(runner: Runner) -> None:
    """What the next body opened would have their numbers, and get what it prints."""
    first = outcome_of(runner, containment_jobs.in_process, deed="pid").result
    assert outcome_of(runner, containment_jobs.in_process, deed="pid").result == first
    assert outcome_of(runner, containment_jobs.in_process, deed="close_streams").result == "closed"
    assert outcome_of(runner, containment_jobs.in_process, deed="pid").result != first


def test_a_body_finds_a_fresh_process_of_its_own(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.touched.append("in the node's process")
    found = told(outcome_of(runner, jobs.look_around))
    jobs.touched.clear()
    assert found["touched"] == [], "it was forked"
    assert found["pid"] == found["group"] == found["session"] != os.getpid()
    assert found["store"] == []
    assert found["stdin"] == ""
    assert found["main_thread"] is True
    assert found["blocked"] == []
    assert found["argv"] == []
    kinds = [name.partition(":")[0] for name in found["descriptors"]]
    ours = {os.readlink(f"/proc/self/fd/{number}") for number in (1, 2)}
    others = [name for name in found["descriptors"] if name not in ours and name != os.devnull]
    assert kinds.count("socket") == 1, "its channel, and nothing of the node's"
    assert len([name for name in others if name.startswith("pipe:")]) == 1, "what ends its group"
    assert len(others) == 2, others


def test_the_nodes_settings_stay_with_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QSCHED_STORE", "postgresql://scott:tiger@db/shop")
    monkeypatch.setenv("SHOP", "kept")
    runner = Runner(SystemClock())
    found = told(outcome_of(runner, jobs.look_around))
    runner.close()
    assert found["settings"] == []
    assert found["path"] == "kept"


def test_log_records_reach_the_nodes_log_with_the_names_of_the_run(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    told(runner.run(context(jobs.log_much, firing_id=7, trigger="etl/nightly", attempt=2, node="a")))
    records = [record for record in caplog.records if record.funcName == "log_much"]
    assert [(record.name, record.levelname, record.getMessage()) for record in records] == [
        ("qsched.job.log_much", "INFO", "by the context 1"),
        ("shop.mail", "WARNING", "by another logger"),
        ("shop.mail", "ERROR", "it failed: 100%"),
    ]
    for record in records:
        said = vars(record)
        assert (said["trigger"], said["firing"], said["attempt"], said["node"]) == ("etl/nightly", 7, 2, "a")
        assert record.process != os.getpid()
    assert vars(records[1])["order"] == 7
    assert "thing" not in vars(records[1])
    assert "StockError: none left" in logging.Formatter().format(records[2])


def test_a_flood_of_records_neither_blocks_nor_loses_any(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert outcome_of(runner, jobs.log_flood, records=3000).kind == "succeeded"
    numbers = [int(record.getMessage().split()[0]) for record in caplog.records if "xxx" in record.message]
    assert numbers == list(range(3000))


def test_levels_are_the_nodes(runner: Runner, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="shop")
    outcome_of(runner, jobs.log_much)
    assert [record.levelname for record in caplog.records if record.name.startswith("shop")] == ["ERROR"]


def test_what_a_body_prints_goes_where_the_nodes_own_prints_go(
    runner: Runner, capfd: pytest.CaptureFixture[str]
) -> None:
    runner = Runner(SystemClock())  # the capture's descriptors, not those of the test before
    outcome_of(runner, jobs.write, text="printed ü")
    runner.close()
    assert capfd.readouterr() == ("printed ü\n", "printed ü\n")


def test_the_newest_progress_is_kept_and_what_json_cannot_carry_is_refused(runner: Runner) -> None:
    ctx = context(jobs.progress, {"values": [1, {"done": 0.5}, None, "half"]})
    assert runner.run(ctx).kind == "succeeded"
    assert ctx.last_progress == "half"
    refused = outcome_of(runner, jobs.progress_with, what="object")
    assert (refused.error_type, refused.error_message) == (
        "TypeError",
        "Object of type object is not JSON serializable",
    )
    assert outcome_of(runner, jobs.progress_with, what="much").error_type == "ValueError"


def test_nothing_that_a_body_started_is_left_after_it(runner: Runner, tmp_path: os.PathLike[str]) -> None:
    for number, function in enumerate((jobs.breed, jobs.breed_forked)):
        mark = os.path.join(tmp_path, f"mark{number}")
        data = {"mark": mark, "wait": False} if function is jobs.breed else {"mark": mark}
        worker = told(outcome_of(runner, function, **data))
        with open(mark) as file:
            child = int(file.read())
        assert ended(worker), "it goes with what it started"
        wait_until(partial(ended, child), "what it started to end", within=5)
    assert outcome_of(runner, jobs.give, value="next").result == "next"


def test_a_body_may_set_signals_and_logging_as_it_likes(
    runner: Runner, tmp_path: os.PathLike[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    outcome_of(runner, jobs.catch_signals)
    outcome_of(runner, jobs.log_much)
    assert "by another logger" in caplog.messages
    mark = os.path.join(tmp_path, "mark")
    assert runner.run(context(jobs.clean_up, {"mark": mark}, timeout=300_000)).kind == "timed_out"
    with open(mark) as file:
        assert file.read() == "JobCancelled", "SIGTERM is heard again"


def test_what_a_supervisor_sends_to_all_processes_ends_no_body(
    runner: Runner, tmp_path: os.PathLike[str]
) -> None:
    outcome = outcome_of(runner, jobs.outlast_supervisor, mark=os.path.join(tmp_path, "mark"))
    assert outcome.result == "went on"
    assert outcome_of(runner, jobs.give, value="next").result == "next"


def test_a_job_that_is_not_where_it_was_is_named(runner: Runner) -> None:
    ctx = context(jobs.who)
    lost = replace(ctx.request.job, place="support.process_jobs:whom")
    ctx.request.job = lost
    outcome = runner.run(ctx)
    assert (outcome.kind, outcome.error_type) == ("failed", "JobUnloadable")
    assert "no attribute 'whom' (did you mean who?)" in (outcome.error_message or "")
    ctx = context(jobs.who)
    ctx.request.job = replace(ctx.request.job, place="os:system")
    assert "not among --app modules" in (runner.run(ctx).error_message or "")


def test_a_stopped_worker_is_ended_at_its_time_out(runner: Runner) -> None:
    assert runner.run(context(jobs.stop_self, timeout=200_000)).kind == "timed_out"


def test_a_worker_that_dies_idle_costs_nothing(runner: Runner) -> None:
    first = told(outcome_of(runner, jobs.who))
    os.kill(first, signal.SIGKILL)
    assert told(outcome_of(runner, jobs.who)) != first
