"""Retries across nodes: kept, dropped or superseded by what the ledger says, run by whoever is there (DESIGN §8)."""

from typing import Any

import pytest
from qsched.scheduler.control import fire, pause, resume
from qsched.scheduler.groups import pause_group
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store.tx import Tx
from qsched.triggers.instant import SECOND
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.retry import RetryPolicy

from support.hand_node import START, HandNode, World, every, once, python

BOOM = Outcome.failure("ValueError", "boom")
FIVE = RetryPolicy.fixed(3, "5s")


def failed_once(world: World, gap: float = 60, **fields: Any) -> HandNode:
    """A node whose first firing has just failed; its retry is due in five seconds."""
    world.apply(every("tick", gap, **fields), jobs=[python("report", retry=FIVE)])
    node = world.node("one")
    world.pass_time(gap)
    world.hear()
    (request,) = node.turn()
    node.finish(request, BOOM)
    return node


def test_a_retry_keeps_its_slot_and_key_and_another_node_may_run_it(world: World) -> None:
    one = failed_once(world)
    two = world.node("two")
    assert world.firings("state, attempt, run_at, incarnation") == [("due", 1, world.time + 5 * SECOND, None)]
    world.pass_time(4.999999)
    assert two.turn() == []
    world.pass_time(0.000001)
    (again,) = two.turn()
    assert one.turn() == []
    assert (again.attempt, again.fence, again.scheduled_at) == (1, 2, START + 60 * SECOND)
    assert again.default_key.endswith("/tick/2024-01-10T09:01:00Z")
    world.pass_time(1)
    two.finish(again)
    row = world.firings("state, outcome, attempt, fence, started_at, first_started_at, finished_at")
    assert row == [("succeeded", "succeeded", 1, 2, world.time - SECOND, START + 60 * SECOND, world.time)]
    attempts = world.sql(
        "SELECT fence, attempt, outcome, started_at, finished_at, next_run_at FROM qsched_attempts WHERE cluster = ?",
        world.store.cluster_id,
    )
    failed_at = START + 60 * SECOND
    assert attempts == [(1, 0, "failed", failed_at, failed_at, failed_at + 5 * SECOND)]
    assert world.clock_of("tick", "c.fires") == (1,)


def test_each_attempt_leaves_its_row_until_the_retries_are_used_up(world: World) -> None:
    node = failed_once(world, gap=600)
    for number in (1, 2, 3):
        world.pass_time(5)
        (again,) = node.turn()
        assert again.attempt == number
        node.finish(again, BOOM)
    ((state, outcome, attempt, note, error),) = world.firings("state, outcome, attempt, note, error")
    assert (state, outcome, attempt) == ("failed", "failed", 3)
    assert "retries exhausted after 3" in note
    assert "boom" in error
    rows = world.sql(
        "SELECT fence, attempt FROM qsched_attempts WHERE cluster = ? ORDER BY fence", world.store.cluster_id
    )
    assert rows == [(1, 0), (2, 1), (3, 2)]
    assert world.clock_of("tick", "t.state") == ("waiting",)


@pytest.mark.parametrize(
    ("gap", "state"), [(6.000001, "due"), (6, "failed"), (5.5, "failed")], ids=["kept", "equal", "after"]
)
def test_a_retry_is_dropped_where_the_next_slot_is_a_second_away(
    world: World, gap: float, state: str
) -> None:
    failed_once(world, gap=gap)
    ((found, dropped),) = world.firings("state, retry_dropped")
    assert found == state
    assert dropped == (None if state == "due" else "superseded")


def test_a_retry_of_the_last_slot_is_kept_and_one_past_the_end_is_not(world: World) -> None:
    jobs = [python("report", retry=FIVE)]
    world.apply(once("last", 10), every("ending", 10, end_at=START + 14 * SECOND), jobs=jobs)
    node = world.node()
    world.pass_time(10)
    for request in node.turn():
        node.finish(request, BOOM)
    found = dict(world.firings("trigger_name, state"))
    assert found == {"last": "due", "ending": "failed"}
    assert world.firings("retry_dropped", "trigger_name = 'ending'") == [("after end",)]
    assert world.clock_of("last", "t.state") == ("done",)  # a trigger that is done may still retry
    world.pass_time(5)
    assert [request.attempt for request in node.turn()] == [1]


def test_an_outage_never_lets_a_retry_and_a_later_slot_run_side_by_side(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    node = failed_once(world, gap=60)
    node.die()
    world.pass_time(70)  # the retry and the next slot have both come when somebody is there again
    other = world.node("other")
    taken = other.turn()
    assert [(request.scheduled_at, request.attempt) for request in taken] == [(START + 120 * SECOND, 0)]
    other.run()
    assert world.firings("state, retry_dropped, attempt") == [
        ("failed", "superseded", 1),
        ("succeeded", None, 0),
    ]
    assert world.clock_of("tick", "c.retrying") == (0,)
    assert "take.failed" not in caplog.text


def test_a_retry_that_is_given_back_behind_its_next_slot_does_not_run_beside_that(world: World) -> None:
    node, other = failed_once(world, gap=60), world.node("other")
    world.pass_time(5)
    (retry,) = node.turn()  # and the node hangs before it begins
    world.pass_time(55)
    (slot,) = other.turn()
    assert (retry.attempt, slot.attempt) == (1, 0)
    node.release(retry)
    node.settle()
    assert world.firings("state, retry_dropped, note") == [
        ("failed", "superseded", "retry dropped: superseded by the slot at 2024-01-10T09:02:00Z"),
        ("running", None, None),
    ]
    other.run()
    assert node.turn() == []


def test_a_retry_that_is_given_back_in_time_is_taken_again(world: World) -> None:
    node, other = failed_once(world, gap=60), world.node("other")
    world.pass_time(5)
    (retry,) = node.turn()
    node.release(retry)
    node.settle()
    assert world.clock_of("tick", "c.retrying") == (1,)
    assert [(again.firing_id, again.attempt) for again in other.turn()] == [(retry.firing_id, 1)]


def test_a_retry_superseded_by_a_skipped_slot_ends_as_well(world: World) -> None:
    node = failed_once(world, gap=60, misfire=MisfireRule("skip"))
    node.die()
    world.pass_time(600)
    world.node("other").work()
    assert world.firings("state, retry_dropped, covers") == [
        ("failed", "superseded", 1),
        ("skipped", None, 10),
    ]


def test_the_due_retry_of_a_paused_trigger_does_not_start_but_its_manual_firing_does(world: World) -> None:
    node = failed_once(world, gap=600)
    pause(world.store, ["tick"])
    world.pass_time(5)
    assert node.turn() == []
    manual = fire(world.store, "tick", force=True)
    assert [request.firing_id for request in node.turn()] == [manual]
    node.run()
    resume(world.store, ["tick"])
    node.work()
    states = world.firings("reason, state")
    assert ("manual", "succeeded") in states
    assert ("schedule", "running") not in states
    assert ("schedule", "due") not in states


def test_the_due_retry_of_a_paused_group_does_not_start(world: World) -> None:
    node = failed_once(world, gap=600)
    pause_group(world.store, "default")
    world.pass_time(5)
    assert node.turn() == []


def test_a_retry_is_looked_up_at_failure_time(world: World) -> None:
    world.apply(every("tick", 60), jobs=[python("report")])
    node = world.node()
    world.pass_time(60)
    (request,) = node.turn()
    world.apply(every("tick", 60), jobs=[python("report", retry=FIVE)])
    node.finish(request, BOOM)
    assert world.firings("state") == [("due",)]


def test_the_triggers_own_retries_come_before_the_jobs_and_none_stops_the_search(world: World) -> None:
    world.apply(
        every("own", 60, retry=RetryPolicy.fixed(1, "10s")),
        every("none", 60, retry=RetryPolicy.none()),
        every("jobs", 60),
        jobs=[python("report", retry=FIVE)],
    )
    node = world.node()
    world.pass_time(60)
    for request in node.turn():
        node.finish(request, BOOM)
    found = {row[0]: row[1:] for row in world.firings("trigger_name, state, run_at - scheduled_at")}
    assert found == {"own": ("due", 10 * SECOND), "none": ("failed", 0), "jobs": ("due", 5 * SECOND)}


def test_a_manual_firing_is_retried_whatever_slot_comes_next(world: World) -> None:
    world.apply(every("tick", 3), jobs=[python("report", retry=FIVE)])
    node = world.node()
    manual = fire(world.store, "tick")
    (request,) = node.turn()
    node.finish(request, BOOM)
    assert world.firings("state, attempt", f"id = {manual}") == [("due", 1)]


def test_a_failure_that_could_not_be_told_counts_from_when_the_body_ended(world: World) -> None:
    world.apply(every("tick", 60), jobs=[python("report", retry=FIVE)])
    node = world.node()
    world.pass_time(60)
    (request,) = node.turn()
    node.end(request, BOOM)
    world.pass_time(3)
    node.settle()
    assert world.firings("run_at") == [(START + 65 * SECOND,)]


def test_an_answer_that_takes_its_time_makes_no_retry_early(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X5: the database's time is an answer, and the body ended before it was asked for, not after."""
    world.apply(every("tick", 60), jobs=[python("report", retry=FIVE)])
    node = world.node()
    world.pass_time(60)
    (request,) = node.turn()
    now = Tx.now

    def slow(tx: Tx) -> int:
        found = now(tx)
        world.pass_time(0.01)
        return found

    monkeypatch.setattr(Tx, "now", slow)
    node.finish(request, BOOM)
    monkeypatch.undo()
    ((run_at,),) = world.firings("run_at")
    assert run_at >= START + 65 * SECOND


def test_a_trigger_that_pauses_when_retries_are_used_up_starts_nothing_more(world: World) -> None:
    retry = RetryPolicy.fixed(0, "5s", on_exhausted="pause_trigger")
    world.apply(every("tick", 10), jobs=[python("report", retry=retry)])
    node = world.node()
    world.pass_time(10)
    (request,) = node.turn()
    node.finish(request, BOOM)
    paused_at, by, reason, next_run_at = world.clock_of(
        "tick", "t.paused_at, t.paused_by, t.paused_reason, c.next_run_at"
    )
    assert paused_at == world.time
    assert (by, reason) == ("qsched:retries-exhausted", "retries exhausted after 0: ValueError: boom")
    assert next_run_at is None
    world.pass_time(10)
    assert node.turn() == []
