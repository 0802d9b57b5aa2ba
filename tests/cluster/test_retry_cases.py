"""Where retries and the schedule meet (B46): days, minutes, restarts, crowds, one-shots, and outages across a slot."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from qsched.scheduler.outcome import Outcome
from qsched.triggers.instant import HOUR, MINUTE, SECOND, rfc3339
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.retry import RetryPolicy

from support.hand_node import START, HandNode, World, every, once, python

BOOM = Outcome.failure("ValueError", "boom")
FIVE_OCLOCK = START + 20 * HOUR
"""05:00 of the day after the world's start."""


def stamps(world: World, trigger: str = "tick") -> list[tuple[str, int, str]]:
    """(when each attempt began, its number, how it ended) of all firings of a trigger, in order."""
    ended = world.sql(
        "SELECT a.started_at, a.attempt, a.outcome FROM qsched_attempts a JOIN qsched_firings f ON f.id = a.firing_id"
        " WHERE f.cluster = ? AND f.trigger_name = ? UNION ALL"
        " SELECT started_at, attempt, COALESCE(outcome, state) FROM qsched_firings"
        " WHERE cluster = ? AND trigger_name = ? AND started_at IS NOT NULL ORDER BY 1",
        *(world.store.cluster_id, trigger) * 2,
    )
    return [(rfc3339(at)[11:19], attempt, outcome) for at, attempt, outcome in ended]


def fail_all(node: HandNode) -> int:
    """Take what is due, and let it fail at once; how many that were."""
    requests = node.turn()
    for request in requests:
        node.end(request, BOOM)
    node.settle()
    return len(requests)


def live_failing(world: World, node: HandNode, minutes: float, step: float = 10) -> None:
    """Let time pass while whatever runs on the node fails at once."""
    for _ in range(round(minutes * 60 / step)):
        world.pass_time(step)
        world.hear()
        fail_all(node)


@pytest.mark.parametrize("restarted", [False, True], ids=["one node", "a new node for each attempt"])
def test_a_daily_job_is_retried_after_one_two_and_four_minutes_and_is_whole_again_the_next_day(
    world: World, restarted: bool
) -> None:
    retry = RetryPolicy.exponential(3, "60s", 2.0)
    trigger = replace(every("tick"), schedule={"cron": "0 5 * * *"})
    world.apply(trigger, jobs=[python("report", retry=retry)])
    node = world.node()
    world.pass_time(20 * 3600)
    for day in (0, 1):
        for wait in (0, 60, 120, 240):
            world.pass_time(wait)
            if restarted and wait:
                node.kill()
                node.declare_dead()
                node = world.node(f"after {day} {wait}")
            world.hear()
            assert fail_all(node) == 1
        assert world.firings("state, attempt, scheduled_at") == [
            ("failed", 3, FIVE_OCLOCK + passed * 24 * HOUR) for passed in range(day + 1)
        ]
        world.pass_time(24 * 3600 - 420)
    daily = [
        ("05:00:00", 0, "failed"),
        ("05:01:00", 1, "failed"),
        ("05:03:00", 2, "failed"),
        ("05:07:00", 3, "failed"),
    ]
    assert stamps(world) == daily * 2
    assert world.clock_of("tick", "c.fires, c.misfires, t.state") == (2, 0, "waiting")


def test_a_minute_trigger_with_a_pending_retry_never_runs_both_at_once(world: World) -> None:
    world.apply(every("tick", 60), jobs=[python("report", retry=RetryPolicy.exponential(3, "20s", 2.0))])
    node = world.node()
    live_failing(world, node, 3.5)
    assert stamps(world) == [
        *(
            ("09:01:00", 0, "failed"),
            ("09:01:20", 1, "failed"),
        ),  # the next would be due with the slot of 09:02
        *(("09:02:00", 0, "failed"), ("09:02:20", 1, "failed")),
        *(("09:03:00", 0, "failed"), ("09:03:20", 1, "failed")),
    ]
    assert world.firings("state, retry_dropped") == [("failed", "superseded")] * 3


def test_a_retry_that_nobody_came_to_in_time_gives_way_to_the_next_slot_of_a_minute_trigger(
    world: World,
) -> None:
    """The only node hangs between the failure and the next slot."""
    world.apply(every("tick", 60), jobs=[python("report", retry=RetryPolicy.fixed(3, "20s"))])
    node = world.node()
    world.pass_time(60)
    world.hear()
    fail_all(node)
    world.pass_time(60)
    world.hear()
    assert [(each.attempt, each.scheduled_at) for each in node.turn()] == [(0, START + 2 * MINUTE)]
    assert world.firings("state, retry_dropped") == [("failed", "superseded"), ("running", None)]


def test_five_hundred_that_fail_at_once_do_not_come_again_in_one_burst(world: World) -> None:
    retry = RetryPolicy.fixed(3, "60s", jitter=0.5)
    triggers = [every(f"t{number}", 600) for number in range(500)]
    world.apply(*triggers, jobs=[python("report", retry=retry)])
    node = world.node(capacity=500)
    node.settler._random = random.Random(46)
    world.pass_time(600)
    world.hear()
    failed_at = world.time
    assert fail_all(node) == 500
    waits = [(run_at - failed_at) / SECOND for (run_at,) in world.firings("run_at", "state = 'due'")]
    assert len(waits) == 500
    assert 30 <= min(waits) < 33
    assert 87 < max(waits) <= 90
    by_second = Counter(int(wait) for wait in waits)
    assert len(by_second) > 55
    assert max(by_second.values()) < 30


def test_a_one_shot_that_fails_is_over(world: World) -> None:
    world.apply(once("tick", 10), jobs=[python("report")])
    node = world.node()
    world.pass_time(10)
    world.hear()
    assert fail_all(node) == 1
    live_failing(world, node, 5)
    assert stamps(world) == [("09:00:10", 0, "failed")]
    assert world.clock_of("tick", "t.state, c.next_run_at") == ("done", None)


def test_a_one_shot_is_retried_at_its_delays_and_never_in_a_hot_loop(world: World) -> None:
    world.apply(once("tick", 10), jobs=[python("report", retry=RetryPolicy.fixed(2, "30s"))])
    node = world.node()
    live_failing(world, node, 5)
    assert stamps(world) == [("09:00:10", 0, "failed"), ("09:00:40", 1, "failed"), ("09:01:10", 2, "failed")]
    assert world.clock_of("tick", "t.state, c.next_run_at") == ("done", None)


# -- across an outage ------------------------------------------------------------------------------------------------

HOURLY = 3600
TWO, THREE = START + HOUR, START + 2 * HOUR
"""What the case calls the firings of 02:00 and of 03:00: here they are those of 10:00 and 11:00."""


@pytest.mark.parametrize(
    ("policy", "ends"),
    [
        ("fire_once", [("misfire", "running")]),
        ("skip", [("misfire", "skipped")]),
        ("fire_all", [("misfire", "running")]),
    ],
)
@pytest.mark.parametrize("away", ["node", "database"])
def test_a_retry_that_comes_due_beside_the_next_slot_is_superseded_when_that_is_decided(
    world: World, away: str, policy: str, ends: list[tuple[str, str]]
) -> None:
    """Failed at 02:00:30, due again at 02:59:30; nobody is there from 02:01 to 03:05, and the slot of 03:00 waits too."""
    world.apply(
        every("tick", HOURLY, misfire=MisfireRule(policy)),
        jobs=[python("report", retry=RetryPolicy.fixed(3, "59m"))],
    )
    node = world.node(own_store=True)
    world.pass_time(HOURLY)
    world.hear()
    (request,) = node.turn()
    world.pass_time(30)
    node.finish(request, BOOM)
    assert world.firings("state, run_at") == [("due", THREE - 30 * SECOND)]
    world.pass_time(30)
    if away == "node":
        node.kill()
        node.declare_dead()
    else:
        node.cut_off()
    world.pass_time(64 * 60)
    if away == "node":
        node = world.node("another")
    else:
        node.reconnect()
    world.hear()
    taken = node.turn()
    assert [(each.scheduled_at, each.attempt) for each in taken] == ([] if policy == "skip" else [(THREE, 0)])
    assert world.firings("state, outcome, attempt, retry_dropped, note", f"scheduled_at = {TWO}") == [
        ("failed", "failed", 1, "superseded", "retry dropped: superseded by the slot at 2024-01-10T11:00:00Z")
    ]
    assert world.firings("reason, state", f"scheduled_at = {THREE}") == ends
    node.run()
    for _ in range(40):
        world.pass_time(60)
        world.hear()
        assert node.turn() == []
    assert [attempt for _, attempt, _ in stamps(world)] == [0] * (1 if policy == "skip" else 2)


def test_a_retry_that_runs_when_the_next_slot_comes_is_left_to_its_end(world: World) -> None:
    """It began before the outage: what runs is not broken off, and with `overlap: queue` the slot waits for it."""
    world.apply(
        every("tick", HOURLY), jobs=[python("report", retry=RetryPolicy.fixed(3, "59m"), overlap="queue")]
    )
    node = world.node()
    world.pass_time(HOURLY)
    world.hear()
    fail_all(node)
    world.pass_time(59 * 60)
    world.hear()
    (retry,) = node.turn()
    world.pass_time(120)
    world.hear()
    assert node.turn() == []
    node.finish(retry)
    (slot,) = node.turn()
    assert (retry.attempt, slot.attempt, slot.scheduled_at) == (1, 0, THREE)
    node.finish(slot)
    assert world.firings("state, attempt") == [("succeeded", 1), ("succeeded", 0)]
