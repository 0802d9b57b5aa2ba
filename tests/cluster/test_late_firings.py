"""A slot that was decided in time and given back is judged again when it is found too late to be on time."""

import pytest
from qsched.scheduler.control import pause, resume
from qsched.scheduler.store.late_firings import judge_late_firings
from qsched.triggers.misfire import MisfireRule

from support.hand_node import World, every

COLUMNS = "state, reason, misfire_policy, misfire_decision, misfire_cause"


def decided_and_given_back(world: World, policy: str, slots: int = 1) -> None:
    """A node takes the first slots, begins none of them, and stops; nobody is there for ten minutes."""
    world.apply(every("tick", 10, misfire=MisfireRule(policy), end_at=world.time + slots * 10_000_000))
    world.pass_time(slots * 10)
    node = world.node()
    taken = node.turn()
    assert len(taken) == slots
    for request in taken:
        node.release(request)
    node.settle()
    node.gone = True
    world.pass_time(600)


@pytest.mark.parametrize(
    ("policy", "state", "decision"),
    [
        ("skip", "skipped", "skipped 1"),
        ("fire_once", "succeeded", "ran the last of 1"),
        ("fire_all", "succeeded", "ran each of 1"),
    ],
)
def test_a_slot_that_was_given_back_and_found_late_is_a_misfire(
    world: World, policy: str, state: str, decision: str
) -> None:
    decided_and_given_back(world, policy)
    world.node("two").work()
    assert world.firings(COLUMNS) == [(state, "misfire", policy, decision, "no_capacity")]
    assert world.clock_of("tick", "misfires") == (1,)


def test_of_several_late_slots_fire_once_runs_the_newest(world: World) -> None:
    decided_and_given_back(world, "fire_once", slots=3)
    world.node("two").work()
    assert [row[0] for row in world.firings("state")] == ["skipped", "skipped", "succeeded"]
    assert {row[0] for row in world.firings("misfire_decision")} == {"ran the last of 3"}
    assert world.clock_of("tick", "misfires") == (3,)


def test_late_slots_are_coalesced_into_a_later_one_that_is_due(world: World) -> None:
    world.apply(every("tick", 10))
    world.pass_time(10)
    node = world.node()
    (request,) = node.turn()
    node.release(request)
    node.settle()
    node.gone = True
    world.pass_time(600)
    world.node("two").work()
    first, last = world.firings("state, misfire_decision, covers")
    assert last == ("succeeded", "ran the last of 60", 60)
    # Which of the two is judged first is open: either way each slot has one decision, and one run stands for all.
    assert first in [("skipped", "coalesced 1 into a later slot", 1), ("succeeded", "ran the last of 1", 1)]


def test_a_slot_given_back_that_is_still_in_time_runs_as_scheduled(world: World) -> None:
    world.apply(every("tick", 10))
    world.pass_time(10)
    node = world.node()
    (request,) = node.turn()
    node.release(request)
    node.settle()
    world.node("two").work()
    assert world.firings("state, reason, misfire_policy, fence") == [("succeeded", "schedule", None, 2)]


def test_a_slot_that_a_pause_holds_is_not_judged_by_who_had_found_it_late_before(world: World) -> None:
    decided_and_given_back(world, "fire_once")
    pause(world.store, ["tick"])
    trigger_id, job_id = world.clock_of("tick", "t.id, t.job_id")
    rule = MisfireRule("fire_once")
    assert (
        world.store.transaction("judge again", lambda tx: judge_late_firings(tx, trigger_id, rule, {job_id}))
        is None
    )
    resume(world.store, ["tick"])
    assert world.firings("state, reason, note") == [("skipped", "schedule", "the trigger was paused")]
