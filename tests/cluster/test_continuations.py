"""Continuations: a trigger that follows a job runs once for each end it waits for, whoever ended it, and never by itself."""

from dataclasses import replace
from typing import Any

import pytest
from qsched.scheduler.context import JobContext
from qsched.scheduler.control import bills, fire, pause, pause_group, resume, resume_group
from qsched.scheduler.firing_acts import cancel
from qsched.scheduler.outcome import Outcome
from qsched.triggers.retry import RetryPolicy
from qsched.triggers.trigger import TriggerDefinition

from support.hand_node import HandNode, World, every, python


def follower(name: str, on: str = "succeeded", job: str = "mail", after: str = "report") -> TriggerDefinition:
    return replace(every(name, job=job), schedule={"after": after, "on": on})


def followed(world: World, *more: TriggerDefinition, **policies: Any) -> HandNode:
    """A trigger `tick` of job report, followed on success, on failure and at any end; a node."""
    world.functions["mail"] = lambda: None
    three = follower("good"), follower("bad", "failed"), follower("both", "any")
    jobs = [python("report", **policies), python("mail")]
    world.apply(every("tick", 10), *three, *more, jobs=jobs)
    return world.node()


def continuations(world: World) -> list[tuple[Any, ...]]:
    return world.firings("trigger_name, state, reason, of_firing", "requested_trigger_id IS NOT NULL")


def test_a_success_is_followed_by_those_that_wait_for_one(world: World) -> None:
    node = followed(world)
    world.pass_time(10)
    (first,) = node.turn()
    assert continuations(world) == []
    node.finish(first)
    assert continuations(world) == [
        ("both", "due", "after", first.firing_id),
        ("good", "due", "after", first.firing_id),
    ]
    seen: list[int | None] = []
    world.functions["mail"] = lambda ctx: seen.append(ctx.follows)
    node.parts.definitions._loaded.clear()
    assert [outcome.kind for outcome in node.work()] == ["succeeded", "succeeded"]
    assert seen == [first.firing_id] * 2
    assert world.clock_of("good", "c.fires, t.state") == (1, "done")


def test_a_failure_is_followed_once_its_retries_are_exhausted(world: World) -> None:
    node = followed(world, retry=RetryPolicy.fixed(1, "1s"))
    world.pass_time(10)
    (first,) = node.turn()
    node.finish(first, Outcome.failure("Boom", "x"))
    assert continuations(world) == []
    world.pass_time(1)
    (again,) = node.turn()
    node.finish(again, Outcome.failure("Boom", "x"))
    assert [row[:3] for row in continuations(world)] == [("bad", "due", "after"), ("both", "due", "after")]


def test_a_lost_firing_counts_as_a_failure_whoever_finds_it(world: World) -> None:
    one = followed(world)
    two = world.node("two")
    world.pass_time(10)
    one.turn()
    one.die()
    world.live_until(lambda: two.taken)
    assert {row[0] for row in continuations(world)} == {"bad", "both"}


def test_a_retry_that_a_later_slot_supersedes_is_a_failed_end_too(world: World) -> None:
    node = followed(world, retry=RetryPolicy.fixed(1, "5s"))
    world.pass_time(10)
    (first,) = node.turn()
    node.finish(first, Outcome.failure("Boom", "x"))
    world.pass_time(10)
    node.turn()
    assert world.firings("state, retry_dropped", f"id = {first.firing_id}") == [("failed", "superseded")]
    assert [row[3] for row in continuations(world)] == [first.firing_id] * 2


def test_an_end_that_is_settled_twice_is_followed_once(world: World) -> None:
    node = followed(world)
    world.pass_time(10)
    (first,) = node.turn()
    node.finish(first)
    node.finish(first)  # its answer was lost, say
    assert len(continuations(world)) == 2


def test_a_fenced_end_is_not_followed(world: World) -> None:
    one = followed(world, request_recovery=True)
    two = world.node("two")
    world.pass_time(10)
    (late,) = one.turn()
    one.declare_dead()
    world.live_until(lambda: two.taken)
    one.finish(late)
    assert continuations(world) == []
    two.finish(two.taken[0])
    assert len(continuations(world)) == 2


def test_a_manual_start_of_the_job_is_followed_as_well(world: World) -> None:
    node = followed(world)
    firing = fire(world.store, "tick")
    (request,) = node.turn()
    node.finish(request)
    assert [row[3] for row in continuations(world) if row[2] == "after"] == [firing] * 2


def test_chains_go_on(world: World) -> None:
    node = followed(world, follower("last", after="mail", job="third"))
    world.functions["third"] = lambda: None
    world.apply(
        every("tick", 10),
        follower("good"),
        follower("last", after="mail", job="third"),
        jobs=[python("report"), python("mail"), python("third")],
    )
    world.pass_time(10)
    node.work()
    assert [row[:2] for row in continuations(world)] == [("good", "succeeded"), ("last", "succeeded")]


def test_what_a_paused_follower_would_have_run_is_a_skipped_row(world: World) -> None:
    node = followed(world)
    pause(world.store, ["good"])
    world.pass_time(10)
    (first,) = node.turn()
    node.finish(first)
    assert [row[:3] for row in continuations(world)] == [
        ("both", "due", "after"),
        ("good", "skipped", "paused"),
    ]
    resume(world.store, ["good"])
    node.work()
    world.pass_time(10)
    (second,) = [request for request in node.turn() if request.trigger == "tick"]
    node.finish(second)
    assert ("good", "due", "after", second.firing_id) in continuations(world)


def test_a_continuation_that_waits_does_not_start_once_its_trigger_was_paused(world: World) -> None:
    node = followed(world)
    world.pass_time(10)
    (first,) = node.turn()
    node.finish(first)
    pause(world.store, ["good"])
    pause_group(world.store, "default")
    assert node.turn() == []
    resume_group(world.store, "default")
    assert [request.trigger for request in node.turn()] == ["both"]
    resume(world.store, ["good"])
    assert node.turn() == []
    assert ("good", "skipped", "after", first.firing_id) in continuations(world)


def test_one_that_was_held_runs_where_the_resume_asks_for_it(world: World) -> None:
    node = followed(world)
    world.pass_time(10)
    (first,) = node.turn()
    node.finish(first)
    pause(world.store, ["good", "both"])
    assert node.turn() == []
    (bill,) = bills(world.store, ["good"])
    assert bill.held == 1
    resume(world.store, ["good", "both"], catch_up=True)
    assert {request.trigger for request in node.turn()} == {"good", "both"}


def test_a_follower_that_is_gone_follows_no_more(world: World) -> None:
    node = followed(world)
    world.apply(every("tick", 10), follower("good"), follower("x"), jobs=[python("report"), python("mail")])
    world.pass_time(10)
    (first,) = node.turn()
    node.finish(first)
    assert [row[0] for row in continuations(world)] == ["good", "x"]


def test_a_follower_of_a_no_overlap_job_waits_its_turn(world: World) -> None:
    world.functions["mail"] = lambda: None
    world.apply(every("tick", 10), follower("good"), jobs=[python("report"), python("mail", overlap="queue")])
    node = world.node()
    world.pass_time(20)
    for request in node.turn():
        node.finish(request)
    assert len([request for request in node.turn() if request.job.name == "mail"]) == 1


@pytest.mark.parametrize("on", ["succeeded", "failed", "any"])
def test_what_was_skipped_or_cancelled_before_it_ran_has_no_end_to_follow(world: World, on: str) -> None:
    world.functions["mail"] = lambda: None
    world.apply(every("tick", 10), follower("f", on), jobs=[python("report", overlap="skip"), python("mail")])
    node = world.node()
    world.pass_time(10)
    (first,) = node.turn()
    world.pass_time(10)
    node.turn()
    assert ("skipped",) in world.firings("state")
    assert continuations(world) == []
    node.release(first)
    node.settle()


def test_the_context_of_what_follows_nothing_says_so(world: World) -> None:
    seen: list[int | None] = []

    def report(ctx: JobContext) -> None:
        seen.append(ctx.follows)

    world.functions["report"] = report
    world.apply(every("tick", 10))
    world.pass_time(10)
    world.node().work()
    assert seen == [None]


def test_what_was_taken_and_given_back_unbegun_has_no_end_to_follow_when_it_is_cancelled(
    world: World,
) -> None:
    node = followed(world)
    world.pass_time(10)
    (request,) = node.turn()
    node.release(request)
    node.settle()
    assert cancel(world.store, [request.firing_id]) == {request.firing_id: "cancelled"}
    assert continuations(world) == []


def test_a_continuation_is_paused_where_its_policy_says_so(world: World) -> None:
    node = followed(
        world, replace(follower("careful"), retry=RetryPolicy.fixed(1, "1s", on_exhausted="pause_trigger"))
    )
    world.pass_time(10)
    (first,) = node.turn()
    node.finish(first)
    for _ in range(2):
        for request in node.turn():
            if request.trigger == "careful":
                node.finish(request, Outcome.failure("Boom", "x"))
        world.pass_time(1)
    assert world.firings("state, attempt", "trigger_name = 'careful'") == [("failed", 1)]
    by, reason = world.clock_of("careful", "t.paused_by, t.paused_reason")
    assert by == "qsched:retries-exhausted"
    assert "retries exhausted" in reason


@pytest.mark.parametrize("how", ["retry", "release", "rescue"])
def test_a_continuation_whose_trigger_is_retired_while_it_runs_does_not_wait_for_ever(
    world: World, how: str
) -> None:
    world.functions["mail"] = lambda: None
    mail = python("mail", retry=RetryPolicy.fixed(1, "1s"), request_recovery=True)
    jobs = [python("report"), mail]
    world.apply(every("tick", 3600), follower("good"), jobs=jobs)
    node, other = world.node(), world.node("two")
    firing = fire(world.store, "tick")
    (first,) = node.turn()
    node.finish(first)
    (request,) = node.turn()
    world.apply(every("tick", 3600), every("else", 3600, job="mail"), jobs=jobs)
    assert world.clock_of("good", "t.state") == ("retired",)
    if how == "retry":
        node.finish(request, Outcome.failure("Boom", "x"))
    elif how == "release":
        node.release(request)
        node.settle()
    else:
        node.die()
    world.live(30)
    assert other.taken == []
    state = {"retry": "failed", "release": "cancelled", "rescue": "lost"}[how]
    assert world.firings("state, of_firing", f"id = {request.firing_id}") == [(state, firing)]
