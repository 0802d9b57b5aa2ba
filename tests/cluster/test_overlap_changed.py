"""A job that allowed overlap and does no more, or a trigger with another job: nothing starts beside what it must not."""

import pytest
from qsched.scheduler.context import RunRequest
from qsched.scheduler.control import fire
from qsched.scheduler.errors import LEASE_LOST, SHUTDOWN
from qsched.scheduler.outcome import Outcome
from qsched.triggers.instant import SECOND
from qsched.triggers.job import JobDefinition
from qsched.triggers.retry import RetryPolicy

from support.hand_node import HandNode, World, every, python

FIVE = RetryPolicy.fixed(3, "5s")


def test_nothing_starts_beside_what_runs_when_a_job_begins_to_queue(world: World) -> None:
    world.apply(every("tick"), jobs=[python("report")])
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    (first,) = one.turn()
    world.pass_time(10)
    (second,) = two.turn()
    world.apply(every("tick"), jobs=[python("report", overlap="queue")])
    world.pass_time(10)
    assert one.turn() == two.turn() == []
    one.finish(first)
    assert one.turn() == two.turn() == []
    two.finish(second)
    world.pass_time(3)
    assert len(one.turn() + two.turn()) == 1


def test_what_waits_takes_turns_when_a_job_begins_to_queue(world: World) -> None:
    world.apply(every("tick"), jobs=[python("report")])
    one = world.node("one", capacity=1)
    world.pass_time(10)
    (first,) = one.turn()
    one.release(first)
    one.settle()
    world.apply(every("tick"), jobs=[python("report", overlap="queue")])
    assert world.firings("permit_key IS NULL, state") == [(0, "due")]
    (again,) = one.turn()
    one.finish(again)
    ((holder,),) = world.sql(
        "SELECT firing_id FROM qsched_permits WHERE cluster = ? AND job_id IS NOT NULL",
        world.store.cluster_id,
    )
    assert holder is None


def test_a_retry_takes_its_turn_when_its_job_began_to_queue_while_it_ran(world: World) -> None:
    jobs = [python("report", retry=FIVE)]
    world.apply(every("tick"), jobs=jobs)
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    (first,) = one.turn()
    world.apply(every("tick"), jobs=[python("report", retry=FIVE, overlap="queue")])
    manual = fire(world.store, "tick")
    one.finish(first, Outcome.failure("ValueError", "boom"))
    (running,) = two.turn()
    assert running.firing_id == manual
    world.pass_time(6)  # and the retry is due
    assert one.turn() == []
    two.finish(running)
    assert [(each.firing_id, each.attempt) for each in one.turn() + two.turn()] == [(first.firing_id, 1)]


def test_a_manual_start_that_is_given_back_takes_its_turn_as_well(world: World) -> None:
    world.apply(every("tick", 3600), jobs=[python("report")])
    one, two = world.node("one"), world.node("two")
    first = fire(world.store, "tick")
    (request,) = one.turn()
    world.apply(every("tick", 3600), jobs=[python("report", overlap="queue")])
    one.release(request)
    one.settle()
    assert world.firings("permit_key IS NULL", f"id = {first}") == [(0,)]
    fire(world.store, "tick")
    assert len(one.turn() + two.turn()) == 1


def taken_of_two_jobs(world: World) -> tuple[HandNode, RunRequest, list[JobDefinition]]:
    """A node, what it has taken of the trigger `tick`, and the jobs between which that may be moved."""
    world.functions["other"] = lambda: None
    jobs = [python("report", retry=FIVE), python("other")]
    world.apply(every("tick", 60), jobs=jobs)
    node = world.node("one")
    world.pass_time(60)
    (first,) = node.turn()
    return node, first, jobs


def test_a_retry_of_the_job_that_a_trigger_had_before_ends_with_its_next_slot(world: World) -> None:
    """Found by the trigger's present job alone it would start beside the next slot's firing."""
    node, first, jobs = taken_of_two_jobs(world)
    node.finish(first, Outcome.failure("ValueError", "boom"))
    world.apply(every("tick", 60, job="other"), jobs=jobs)
    node.die()
    world.pass_time(70)  # the retry and the next slot have both come when somebody is there again
    (slot,) = world.node("two").turn()
    assert (slot.job.name, slot.attempt) == ("other", 0)
    assert world.firings("state, retry_dropped") == [("failed", "superseded"), ("running", None)]


def test_so_does_one_of_a_body_that_ran_while_its_trigger_was_given_another_job(world: World) -> None:
    node, first, jobs = taken_of_two_jobs(world)
    world.apply(every("tick", 60, job="other"), jobs=jobs)
    node.finish(first, Outcome.failure("ValueError", "boom"))
    assert world.firings("state, attempt") == [("due", 1)]
    node.die()
    world.pass_time(70)
    assert [each.attempt for each in world.node("two").turn()] == [0]
    assert world.firings("state, retry_dropped") == [("failed", "superseded"), ("running", None)]


def test_a_late_slot_of_the_job_that_a_trigger_had_before_is_judged_like_any_other(world: World) -> None:
    jobs = [python("report"), python("other")]
    world.apply(every("tick", 3600), jobs=jobs)
    one = world.node("one")
    world.pass_time(3600)
    (first,) = one.turn()
    one.release(first)
    one.settle()
    world.apply(every("tick", 3600, job="other"), jobs=jobs)
    one.die()
    world.pass_time(120)
    two = world.node("two")
    two.work()
    assert world.firings("state, reason, misfire_decision") == [("succeeded", "misfire", "ran the last of 1")]


def test_what_was_asked_to_stop_and_is_given_back_does_not_begin_elsewhere(world: World) -> None:
    world.apply(every("tick"), jobs=[python("report", overlap="cancel")])
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    (first,) = one.turn()
    world.pass_time(10)
    assert two.turn() == []  # it asks the one that runs to stop
    one.release(first)
    one.settle()
    assert world.firings("state, note") == [("cancelled", "not begun: its cancel was requested")]
    assert [each.scheduled_at > first.scheduled_at for each in two.turn()] == [True]


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome.cancelled(SHUTDOWN),
        Outcome.cancelled(LEASE_LOST),
        Outcome.failure("ValueError", "boom"),
        Outcome.timeout(SECOND),
    ],
    ids=lambda outcome: outcome.kind,
)
def test_what_was_asked_to_stop_ends_however_it_stopped(world: World, outcome: Outcome) -> None:
    """A node that drains, or loses its lease, at that moment does not make another run of it."""
    job = python("report", overlap="cancel", request_recovery=True, retry=FIVE)
    world.apply(every("tick"), jobs=[job])
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    (first,) = one.turn()
    world.pass_time(10)
    assert two.turn() == []
    one.finish(first, outcome)
    assert world.firings("state, outcome") == [("cancelled", "cancelled")]
    assert [each.scheduled_at > first.scheduled_at for each in two.turn()] == [True]
