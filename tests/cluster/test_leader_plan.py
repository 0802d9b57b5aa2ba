"""What a leader makes due: for all nodes, within what they can start, and no more than one leader at a time."""

from dataclasses import replace
from typing import Any

import pytest
from qsched.scheduler import deciding
from qsched.scheduler.control import fire, pause
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store.cluster_rows import SQL, take_over
from qsched.triggers.instant import SECOND
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.retry import RetryPolicy

from support.faults import Faults, wait_for
from support.hand_node import World, every, once, python
from support.led import Led, LedNode


def pair(led: Led, **options: Any) -> tuple[LedNode, LedNode]:
    """A leader and a follower, both of which have loaded the job."""
    leader, other = led.node("a", **options), led.node("b", **options)
    assert led.elect() is leader
    return leader, other


def rounds(led: Led, count: int, *nodes: LedNode) -> None:
    """Turns of these nodes, a quarter of a second apart, in which nothing that runs ends."""
    for _ in range(count):
        for node in nodes:
            node.turn()
        led.pass_time(0.25)


def ready(led: Led) -> int:
    """How many rows are due now."""
    return len(led.world.firings("id", f"state = 'due' AND run_at <= {led.world.time}"))


def count(led: Led, where: str = "1 = 1") -> int:
    return len(led.world.firings("id", where))


# -- how much, and for whom --------------------------------------------------------------------------------------------


def test_what_is_made_due_is_shared_out(led_everywhere: Led) -> None:
    """The leader takes its share and leaves the rest to the others; what they leave, it takes after a moment."""
    led = led_everywhere
    leader, other = pair(led)
    led.world.apply(*(every(f"t{n:02}", 60) for n in range(20)))
    led.skip(60)
    assert len(leader.turn()) == 10
    assert ready(led) == 10
    assert leader.hand.announced
    led.pass_time(0.05)
    assert len(leader.turn()) + len(other.turn()) == 10
    assert ready(led) == 0


def test_no_more_is_ready_than_the_live_nodes_can_start(led_everywhere: Led) -> None:
    led = led_everywhere
    leader, _ = pair(led, capacity=3)
    led.world.apply(*(every(f"t{n:02}", 1000) for n in range(20)))
    led.skip(1000)
    rounds(led, 10, leader)
    assert len(leader.hand.taken) == 3
    assert ready(led) == 3  # what the other has room for
    assert count(led) == 6
    leader.hand.finish(leader.hand.taken[0])
    leader.turn()
    assert count(led) == 7


def test_a_node_that_drains_or_is_dead_is_no_room(led: Led) -> None:
    leader, other = pair(led, capacity=2)
    drained = led.node("c", capacity=5)
    led.world.apply(*(every(f"t{n:02}", 1000) for n in range(20)))
    led.world.sql(
        "UPDATE qsched_nodes SET drain_requested_at = 1 WHERE incarnation = ?", drained.who.incarnation
    )
    other.hand.die()
    led.skip(1000)
    rounds(led, 6, leader)
    assert count(led) == 2


def test_a_leader_that_is_full_plans_on(led: Led) -> None:
    """A leader that waits for its own places would keep the whole cluster waiting."""
    leader, other = pair(led, capacity=2)
    led.world.apply(*(once(f"long{n}", 1) for n in range(2)), every("tick", 10))
    led.pass_time(1)
    rounds(led, 4, leader)
    assert not leader.hand.parts.hand.free()
    led.skip(9)
    rounds(led, 4, leader, other)
    assert [request.trigger for request in other.hand.taken] == ["tick"]


def test_a_full_cluster_still_decides_what_starts_nothing(led_everywhere: Led) -> None:
    led = led_everywhere
    leader, other = pair(led, capacity=1)
    rule = MisfireRule("skip", threshold=SECOND)
    led.world.apply(once("a", 1), once("b", 1), every("c", 10), every("skip", 15, misfire=rule))
    led.pass_time(1)
    rounds(led, 4, leader, other)
    assert count(led, "state = 'running'") == 2
    led.skip(20)
    rounds(led, 12, leader, other)
    assert led.world.firings("trigger_name, state", "state <> 'running'") == [("skip", "skipped")]


def test_a_backlog_leaves_half_of_the_places_to_what_is_on_time(led: Led) -> None:
    leader, _ = pair(led, capacity=4)
    led.world.apply(*(once(f"old{n:02}", 30) for n in range(30)), *(once(f"new{n}", 60) for n in range(8)))
    led.skip(60)
    leader.turn()
    names = [name for (name,) in led.world.firings("trigger_name")]
    assert len(names) == 8
    assert sum(name.startswith("new") for name in names) == 4


def test_a_backlog_of_requests_leaves_half_of_them_too_and_no_more(led_everywhere: Led) -> None:
    led = led_everywhere
    leader, other = pair(led, capacity=4)
    led.world.apply(every("slow", 10_000), *(once(f"new{n}", 30) for n in range(8)))
    for _ in range(30):
        fire(led.world.store, "slow")
    led.skip(30)
    for _ in range(3):
        leader.hand.planner.step()
    assert count(led, "SUBSTR(trigger_name, 1, 3) = 'new'") == 4
    rounds(led, 4, leader, other)
    assert count(led, "state = 'running' AND SUBSTR(trigger_name, 1, 3) = 'new'") >= 2


def test_what_nobody_can_run_stays_undecided_and_is_in_nobodys_way(led: Led) -> None:
    _, other = pair(led, capacity=2)
    led.world.apply(
        *(every(f"far{n:02}", 10, run_on=("gpu",), priority=9) for n in range(30)), every("near", 10)
    )
    led.skip(10)
    led.work()
    assert led.world.firings("trigger_name, state") == [("near", "succeeded")]
    other.who.tags = frozenset({"gpu"})
    led.world.sql("""UPDATE qsched_nodes SET tags = '["gpu"]' WHERE incarnation = ?""", other.who.incarnation)
    led.live(8)
    ran = led.world.firings("trigger_name, incarnation", "SUBSTR(trigger_name, 1, 3) = 'far'")
    assert len(ran) == 30
    assert {incarnation for _, incarnation in ran} == {other.who.incarnation}


def test_tags_are_given_no_more_than_their_nodes_can_start(led: Led) -> None:
    leader, other = pair(led, capacity=2)
    other.who.tags = frozenset({"gpu"})
    led.world.sql("""UPDATE qsched_nodes SET tags = '["gpu"]' WHERE incarnation = ?""", other.who.incarnation)
    led.world.apply(*(every(f"far{n:02}", 1000, run_on=("gpu",)) for n in range(9)), every("near", 1000))
    led.skip(1000)
    rounds(led, 8, leader, other)
    assert count(led, "SUBSTR(trigger_name, 1, 3) = 'far'") == 2
    assert count(led, "trigger_name = 'near'") == 1


def test_what_waits_and_cannot_start_takes_nobodys_place(led_everywhere: Led) -> None:
    """Thirty requests of a job that is busy, and of one that no live node may run: the rest goes on."""
    led = led_everywhere
    leader, other = pair(led, capacity=3)
    jobs = [python("report"), python("alone", overlap="queue")]
    led.world.functions["alone"] = lambda: None
    led.world.apply(
        every("alone", 10_000, job="alone"),
        every("far", 10_000, run_on=("gpu",)),
        every("near", 60),
        jobs=jobs,
    )
    for _ in range(30):
        fire(led.world.store, "alone")
        fire(led.world.store, "far")
    rounds(led, 4, leader, other)
    assert count(led, "state = 'running'") == 1
    led.skip(60)
    rounds(led, 4, leader, other)
    assert led.world.firings("state", "trigger_name = 'near'") == [("running",)]


# -- no-overlap jobs -----------------------------------------------------------------------------------------------------


def test_one_firing_of_a_no_overlap_job_is_ready_at_a_time(led_everywhere: Led) -> None:
    led = led_everywhere
    leader, _ = pair(led)
    led.world.apply(*(every(f"t{n}", 10) for n in range(5)), jobs=[python("report", overlap="queue")])
    led.skip(10)
    rounds(led, 3, leader)
    assert count(led, "state IN ('due', 'running')") == 1
    leader.hand.run()
    led.live(5)
    assert led.world.firings("state, covers") == [("succeeded", 1)] * 5


def test_a_slot_that_comes_while_one_is_ready_is_skipped(led: Led) -> None:
    leader, _ = pair(led, capacity=1)
    led.world.apply(
        once("long", 1),
        every("tick", 10, job="alone"),
        jobs=[python("report"), python("alone", overlap="skip")],
    )
    led.world.functions["alone"] = lambda: None
    led.pass_time(1)
    rounds(led, 4, leader)
    led.skip(9)
    rounds(led, 4, leader)
    led.skip(10)
    rounds(led, 4, leader)
    rows = led.world.firings("state, misfire_cause", "trigger_name = 'tick'")
    assert rows == [("due", None), ("skipped", "overlap")]


# -- late, paused ----------------------------------------------------------------------------------------------------------


def test_what_was_made_due_and_is_found_late_is_judged_again(led: Led) -> None:
    """The nodes die between the plan and the take: what comes back an hour later is a misfire, not a run in good time."""
    leader, other = pair(led)
    led.world.apply(*(once(f"t{n}", 10, misfire=MisfireRule("skip")) for n in range(4)))
    led.skip(10)
    vars(leader.hand.parts.hand)["free"] = lambda: 0
    leader.turn()
    leader.turn()
    assert ready(led) == 4
    leader.hand.gone = True
    led.skip(3600)
    other.hand.work()
    assert led.world.firings("state, reason, misfire_policy") == [("skipped", "misfire", "skip")] * 4


def test_a_pause_holds_what_is_due_already(led: Led) -> None:
    leader, other = pair(led)
    led.world.apply(every("tick", 10))
    led.skip(10)
    vars(leader.hand.parts.hand)["free"] = lambda: 0
    leader.turn()
    leader.turn()
    assert ready(led) == 1
    pause(led.world.store, ["tick"])
    rounds(led, 4, other)
    assert not other.hand.taken


# -- one plan, one epoch -----------------------------------------------------------------------------------------------------


def test_a_plan_of_an_old_epoch_is_refused_and_its_leader_steps_down(
    led_everywhere: Led, caplog: pytest.LogCaptureFixture
) -> None:
    led = led_everywhere
    leader, other = pair(led)
    led.world.apply(every("tick", 10))
    led.skip(10)
    taken = led.world.store.transaction(
        "take over",
        lambda tx: (
            take_over(tx, other.who.incarnation, 5 * SECOND, by=led.by)
            if led.by != SQL
            else _force(tx, other)
        ),
    )
    assert taken
    assert leader.leads()
    assert leader.hand.turn() == []
    assert count(led) == 0
    assert caplog.text.count("leader.stale_plan_refused") == 1
    assert not leader.leads()
    led.live(10)
    assert led.world.firings("state") == [("succeeded",), ("succeeded",)]


def _force(tx: Any, node: LedNode) -> int:
    tx.run("UPDATE qsched_clusters SET leader_until = 0 WHERE id = ?", tx.cluster)
    return take_over(tx, node.who.incarnation, 5 * SECOND, by=SQL) or 0


@pytest.mark.parametrize("landed", [True, False])
def test_a_plan_whose_commit_is_in_doubt_is_made_once(led_everywhere: Led, landed: bool) -> None:
    led = led_everywhere
    leader, _ = pair(led, own_store=True)
    led.world.apply(*(every(f"t{n}", 60) for n in range(4)))
    led.skip(60)
    Faults(leader.hand.store).lose_commit("plan", landed=landed)
    for _ in range(4):
        led.work()
        led.pass_time(0.25)
    assert led.world.firings("state, covers") == [("succeeded", 1)] * 4


def test_a_plan_that_is_still_being_committed_is_waited_for(server_world: World) -> None:
    led = Led(server_world, SQL)
    leader, _ = pair(led, own_store=True)
    led.world.apply(*(every(f"t{n}", 60) for n in range(4)))
    led.skip(60)
    late = Faults(leader.hand.store).lose_late_commit("plan", 0.5)
    led.work()
    led.work()
    wait_for(late)
    led.work()
    assert led.world.firings("state, covers") == [("succeeded", 1)] * 4


def test_one_row_that_cannot_be_written_is_one_triggers_trouble(
    led: Led, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pair(led)
    real = deciding._advanced

    def broken(case: Any, decision: Any) -> Any:
        if case.clock.id == wrong:
            raise RuntimeError("a mistake of ours")
        return real(case, decision)

    led.world.apply(*(every(f"t{n}", 60) for n in range(4)))
    (wrong,) = led.world.clock_of("t2", "t.id")
    monkeypatch.setattr(deciding, "_advanced", broken)
    led.skip(60)
    led.work()
    led.work()
    assert sorted(led.world.firings("trigger_name, state")) == [(f"t{n}", "succeeded") for n in (0, 1, 3)]
    assert "could not be written" in caplog.text


# -- limited groups ----------------------------------------------------------------------------------------------------


def limited(led: Led, *names: str) -> None:
    """Triggers of these names and the job `report`, whose group runs one at a time, and which is tried once more."""
    report = replace(python("report", retry=RetryPolicy.fixed(1, "1s")), group="heavy")
    strange = replace(python("strange"), group="heavy")
    triggers = [every(name, 10) for name in names]
    led.world.apply(
        *triggers, every("late", 1000, job="strange"), jobs=[report, strange], limits={"heavy": 1}
    )


def failed_once(led: Led, *nodes: LedNode) -> None:
    """The first slot was taken and has failed: its retry is a second away."""
    led.skip(10)
    rounds(led, 2, *nodes)
    (node,) = [node for node in nodes if node.hand.taken]
    node.hand.finish(node.hand.taken[0], Outcome.failure("Boom", "x"))


def test_a_retry_that_its_next_slot_ends_does_not_keep_the_groups_permit_from_that_slot(
    led_everywhere: Led,
) -> None:
    led = led_everywhere
    nodes = pair(led)
    limited(led, "a")
    failed_once(led, *nodes)
    led.skip(10)
    rounds(led, 3, *nodes)
    assert led.world.firings("state, retry_dropped") == [("failed", "superseded"), ("running", None)]


def test_what_a_pause_holds_does_not_keep_the_groups_permit_from_others(led: Led) -> None:
    nodes = pair(led)
    limited(led, "a")
    failed_once(led, *nodes)
    pause(led.world.store, ["a"])
    limited(led, "a", "b")
    led.skip(10)
    rounds(led, 3, *nodes)
    assert led.world.firings("trigger_name, state", "state IN ('due', 'running')") == [
        ("a", "due"),
        ("b", "running"),
    ]


def test_what_no_live_node_can_run_does_not_keep_the_groups_permit_from_others(led: Led) -> None:
    nodes = pair(led)
    limited(led, "a")
    fire(led.world.store, "late")
    rounds(led, 3, *nodes)
    led.skip(10)
    rounds(led, 8, *nodes)
    assert led.world.firings("trigger_name, state") == [("late", "due"), ("a", "running")]
