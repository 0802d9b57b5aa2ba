"""What a job keeps from run to run: written with the end of each run, by nobody who was fenced, read by the next."""

from dataclasses import replace
from typing import Any

import pytest
from qsched.scheduler.context import JobContext
from qsched.scheduler.control import fire
from qsched.scheduler.effective import job_policies
from qsched.scheduler.outcome import Outcome
from qsched.triggers.errors import DefinitionError
from qsched.triggers.job import JobPolicies
from qsched.triggers.retry import RetryPolicy

from support.hand_node import World, every, python


def saved(world: World) -> str | None:
    ((text,),) = world.sql(
        "SELECT saved_data FROM qsched_jobs WHERE name = 'report' AND cluster = ?", world.store.cluster_id
    )
    return None if text is None else str(text)


def counting(ctx: JobContext) -> None:
    ctx.saved["runs"] = ctx.saved.get("runs", 0) + 1


def keeping(world: World, function: Any = counting, **policies: Any) -> None:
    world.functions["report"] = function
    world.apply(every("tick", 10), jobs=[python("report", persist_data=True, **policies)])


def test_each_run_finds_what_the_one_before_left_on_whatever_node(world: World) -> None:
    keeping(world)
    one, two = world.node("one"), world.node("two")
    for node in (one, two, one):
        world.pass_time(10)
        node.work()
    assert saved(world) == '{"runs":3}'


def test_a_job_that_keeps_data_runs_one_at_a_time_without_saying_so(world: World) -> None:
    keeping(world)
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    fire(world.store, "tick")
    assert len(one.turn()) + len(two.turn()) == 1
    assert world.clock_of("tick", "c.overlap") == ("queue",)


def test_a_failed_run_keeps_what_it_left_and_its_retry_finds_it(world: World) -> None:
    seen: list[Any] = []

    def failing(ctx: JobContext) -> None:
        seen.append(ctx.saved.get("page"))
        ctx.saved["page"] = (ctx.saved.get("page") or 0) + 1
        if len(seen) < 3:
            raise ValueError("no")

    keeping(world, failing, retry=RetryPolicy.fixed(3, "1s"))
    node = world.node()
    world.pass_time(10)
    for _ in range(3):
        node.work()
        world.pass_time(1)
    assert seen == [None, 1, 2]
    assert saved(world) == '{"page":3}'


def test_a_fenced_run_keeps_nothing(world: World) -> None:
    keeping(world, request_recovery=True)
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    (late,) = one.turn()
    outcome = one.runner.run(one.context_of(late))
    assert outcome.saved == '{"runs":1}'
    one.declare_dead()
    world.live_until(lambda: two.taken)
    (again,) = two.taken
    one.finish(late, Outcome.success())
    assert saved(world) is None
    two.run()
    one.end(late, replace(outcome, saved='{"runs":99}'))  # and behind the successor's end, too
    one.settle()
    assert again.recovering
    assert saved(world) == '{"runs":1}'


def test_what_does_not_change_it_writes_nothing(world: World) -> None:
    keeping(world, lambda ctx: ctx.saved.get("runs"))
    world.pass_time(10)
    assert world.node().work()[0].saved is None
    assert saved(world) is None


def test_what_cannot_be_kept_is_a_failure_that_names_the_key(world: World) -> None:
    def wrong(ctx: JobContext) -> None:
        ctx.saved["names"] = {"a", "b"}

    keeping(world, wrong)
    world.pass_time(10)
    (outcome,) = world.node().work()
    assert outcome.permanent
    assert "names is" in str(outcome.error_message)
    assert world.firings("state") == [("failed",)]
    assert saved(world) is None


def test_applying_the_job_anew_never_touches_it(world: World) -> None:
    keeping(world)
    node = world.node()
    world.pass_time(10)
    node.work()
    keeping(world, timeout=60_000_000, data={"x": 1})
    assert saved(world) == '{"runs":1}'


def test_a_broken_text_is_as_good_as_none(world: World) -> None:
    keeping(world)
    world.sql("UPDATE qsched_jobs SET saved_data = '{' WHERE cluster = ?", world.store.cluster_id)
    world.pass_time(10)
    world.node().work()
    assert saved(world) == '{"runs":1}'


def test_the_saved_data_of_a_job_that_keeps_none_is_an_error_that_says_how(world: World) -> None:
    world.functions["report"] = counting
    world.apply(every("tick", 10))
    world.pass_time(10)
    (outcome,) = world.node().work()
    assert "persist_data=True" in str(outcome.error_message)


def test_overlap_allow_cannot_keep_data_wherever_the_two_are_said() -> None:
    with pytest.raises(DefinitionError, match="overlap: queue, skip or cancel"):
        job_policies('{"persist_data": true}', '{"overlap": "allow"}', {})
    with pytest.raises(DefinitionError, match="overlap: queue, skip or cancel"):
        JobPolicies(persist_data=True, overlap="allow").in_turns(None)
    assert job_policies('{"persist_data": true}', None, {"overlap": "allow"}).overlap == "queue"
    assert job_policies('{"persist_data": true}', None, {"overlap": "skip"}).overlap == "skip"
