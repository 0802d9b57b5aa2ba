"""Overlap across nodes: one firing of a no-overlap job at a time, whoever asks, and its permit always comes back."""

import pytest
from qsched.scheduler.control import fire, pause
from qsched.scheduler.errors import OVERLAP
from qsched.scheduler.outcome import Outcome
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.retry import RetryPolicy

from support.hand_node import START, World, every, python

SECOND = 1_000_000


def permit(world: World) -> int | None:
    """Which firing holds the job's permit."""
    ((holder,),) = world.sql(
        "SELECT firing_id FROM qsched_permits WHERE cluster = ? AND job_id IS NOT NULL",
        world.store.cluster_id,
    )
    return holder if holder is None else int(holder)


def test_queue_runs_two_triggers_of_a_job_one_after_the_other_on_any_node(world: World) -> None:
    world.apply(every("a"), every("b"), jobs=[python("report", overlap="queue")])
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    (first,) = one.turn()
    assert two.turn() == []
    assert permit(world) == first.firing_id
    one.finish(first)
    (second,) = two.turn()
    assert one.turn() == []
    assert {first.trigger, second.trigger} == {"a", "b"}
    two.finish(second)
    assert permit(world) is None
    assert world.firings("state, reason, covers") == [("succeeded", "schedule", 1)] * 2


def test_queue_runs_the_last_slot_when_the_job_is_free_and_says_what_became_of_the_others(
    world: World,
) -> None:
    world.apply(every("tick", 10), jobs=[python("report", overlap="queue")])
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    (first,) = one.turn()
    for _ in range(3):
        world.pass_time(10)
        assert one.turn() == two.turn() == []
    assert world.clock_of("tick", "c.next_fire_at") == (START + 20 * SECOND,)
    one.finish(first)
    (second,) = two.turn()
    assert second.scheduled_at == START + 40 * SECOND
    two.finish(second)
    rows = world.firings("state, covers, misfire_cause, misfire_policy, misfire_decision")
    assert rows == [
        ("succeeded", 1, None, None, None),
        ("skipped", 2, "overlap", "queue", "coalesced 2 into the last: the job was running"),
        ("succeeded", 1, None, None, None),
    ]


@pytest.mark.parametrize("capacity", [20, 1], ids=["room", "full"])
def test_skip_is_decided_while_the_job_runs_also_on_a_full_node(world: World, capacity: int) -> None:
    """Amendment 1's model: every 10 s a job of 35 s; a node that the job itself fills must leave the same ledger."""
    world.apply(every("tick", 10), jobs=[python("report", overlap="skip")])
    node = world.node(capacity=capacity)
    ends: dict[int, int] = {}
    for _ in range(26):
        world.pass_time(5)
        for request in list(node.taken):
            if world.time >= ends[request.firing_id]:
                node.finish(request)
        for request in node.turn():
            ends[request.firing_id] = world.time + 35 * SECOND
    rows = world.firings("scheduled_at, state, covers, started_at, noticed_at")
    slots = [START + 10 * SECOND * number for number in range(1, 14)]
    assert [row[0] for row in rows] == slots
    assert [row[1] for row in rows if row[1] != "skipped"] == ["succeeded"] * 3 + ["running"]
    assert [row[0] for row in rows if row[1] != "skipped"] == slots[0::4]
    assert all(row[2] == 1 and row[4] == row[0] for row in rows)  # one row per slot, noticed at once
    assert all(row[3] == row[0] for row in rows if row[1] != "skipped")  # and started without delay


def test_allow_runs_as_many_as_come(world: World) -> None:
    world.apply(every("tick", 10))
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    (first,) = one.turn()
    world.pass_time(10)
    (second,) = two.turn()
    one.finish(first)
    two.finish(second)
    assert world.firings("state") == [("succeeded",)] * 2


def test_cancel_asks_the_running_one_to_stop_and_then_runs(world: World) -> None:
    world.apply(every("tick", 10), jobs=[python("report", overlap="cancel")])
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    (first,) = one.turn()
    world.pass_time(10)
    assert two.turn() == []
    assert world.firings("cancel_requested_at, cancel_requested_by") == [(world.time, "overlap")]
    one.check_in.step()
    assert one.context_of(first).cancel_reason == OVERLAP
    one.finish(first, Outcome.cancelled(OVERLAP))
    (second,) = two.turn()
    two.finish(second)
    assert world.firings("state") == [("cancelled",), ("succeeded",)]


def test_a_manual_start_waits_while_the_job_is_busy_and_goes_before_later_slots(world: World) -> None:
    world.apply(every("tick", 10), jobs=[python("report", overlap="queue")])
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    (first,) = one.turn()
    world.pass_time(1)
    manual = fire(world.store, "tick", who="ada")
    assert one.turn() == two.turn() == []
    world.pass_time(9)
    assert one.turn() == two.turn() == []
    one.finish(first)
    (second,) = two.turn()
    assert second.firing_id == manual
    assert one.turn() == []
    two.finish(second)
    (third,) = one.turn()
    assert third.scheduled_at == START + 20 * SECOND
    one.finish(third)
    assert permit(world) is None


@pytest.mark.parametrize("overlap", ["queue", "skip", "cancel"])
@pytest.mark.parametrize(
    "outcome", [Outcome.success(), Outcome.failure("ValueError", "boom"), Outcome.cancelled("asked"), None]
)
def test_whatever_ends_a_firing_gives_its_permit_back(
    world: World, overlap: str, outcome: Outcome | None
) -> None:
    world.apply(every("tick", 10), jobs=[python("report", overlap=overlap)])
    node = world.node()
    world.pass_time(10)
    (request,) = node.turn()
    assert permit(world) == request.firing_id
    if outcome is None:
        node.release(request)
        node.settle()
    else:
        node.finish(request, outcome)
    assert permit(world) is None


def test_a_waiting_retry_gives_its_permit_back_and_takes_it_again(world: World) -> None:
    retry = RetryPolicy.fixed(3, "5s")
    world.apply(every("tick", 60), every("other", 60), jobs=[python("report", overlap="queue", retry=retry)])
    node = world.node()
    world.pass_time(60)
    (first,) = node.turn()
    node.finish(first, Outcome.failure("ValueError", "boom"))
    assert permit(world) is None
    (second,) = node.turn()  # the other trigger does not wait for a retry that is not due
    assert second.trigger != first.trigger
    world.pass_time(5)
    assert node.turn() == []  # and the retry waits while that runs
    node.finish(second)
    (again,) = node.turn()
    assert (again.firing_id, again.attempt, again.fence) == (first.firing_id, 1, 2)
    assert permit(world) == first.firing_id
    node.finish(again)
    assert permit(world) is None


def test_a_retry_that_a_pause_holds_back_does_not_keep_the_job_busy(world: World) -> None:
    retry = RetryPolicy.fixed(3, "5s")
    world.apply(every("a", 60), every("b", 90), jobs=[python("report", overlap="queue", retry=retry)])
    node = world.node()
    world.pass_time(60)
    (first,) = node.turn()
    node.finish(first, Outcome.failure("ValueError", "boom"))
    pause(world.store, ["a"])
    world.pass_time(30)
    world.hear()
    (second,) = node.turn()
    assert second.trigger == "b"


def test_cancel_is_asked_for_also_by_a_node_that_the_job_fills(world: World) -> None:
    world.apply(every("tick", 10), jobs=[python("report", overlap="cancel")])
    node = world.node(capacity=1)
    world.pass_time(10)
    (first,) = node.turn()
    world.pass_time(10)
    assert node.turn() == []
    assert world.firings("cancel_requested_by") == [("overlap",)]
    node.finish(first, Outcome.cancelled(OVERLAP))
    assert len(node.turn()) == 1


def test_fire_all_of_an_overlapping_job_runs_its_backlog_one_at_a_time_across_nodes(world: World) -> None:
    world.apply(every("tick", 10, misfire=MisfireRule("fire_all")))
    world.pass_time(95)
    one, two = world.node("one"), world.node("two")
    ran = []
    for _ in range(9):
        found = one.turn() + two.turn()
        assert len(found) == 1
        ran.append(found[0].scheduled_at)
        (one if found[0] in one.taken else two).finish(found[0])
    assert ran == [START + 10 * SECOND * number for number in range(1, 10)]
    assert one.turn() == two.turn() == []


def test_slots_that_were_given_back_and_found_late_run_one_at_a_time_too(world: World) -> None:
    """fire_all promises that whether they were decided late or decided in time and never begun."""
    world.apply(every("tick", 10, misfire=MisfireRule("fire_all")))
    one = world.node("one")
    for _ in range(3):
        world.pass_time(10)
        one.turn()
    for request in list(one.taken):
        one.release(request)
    one.settle()
    one.parts.who.draining = True
    world.pass_time(75)
    world.hear()
    two = world.node("two")
    ran = []
    while taken := two.turn():
        assert len(taken) == 1
        ran.append(taken[0].scheduled_at)
        two.run()
    assert sorted(ran) == [START + 10 * SECOND * number for number in range(1, 11)]
