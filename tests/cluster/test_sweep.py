"""What a hand has broken heals within two check-ins, whatever it is, and what waited for it goes on.

Each line of the table is a statement that somebody typed into the database, and what is so again two seconds later.
"""

from typing import Any, NamedTuple

import pytest
from qsched.scheduler.store import sweep_rows
from qsched.triggers.instant import SECOND
from qsched.triggers.misfire import MisfireRule

from support.hand_node import START, HandNode, World, every, once, python

C = "cluster = {cluster}"
NEXT = START + 7200 * SECOND
DAY = 86_400
FAR = 9_000_000_000_000_000_000


class Broken(NamedTuple):
    """A statement that breaks something, and the rows that a query answers once it has healed."""

    name: str
    sql: str
    query: str
    healed: list[tuple[Any, ...]]


PERMIT = "SELECT firing_id IS NULL, fence IS NULL FROM qsched_permits WHERE {c} AND permit_key = 'job:{job}'"
HELD = (
    "SELECT p.firing_id = f.id, p.fence = f.fence FROM qsched_permits p JOIN qsched_firings f ON f.job_id = p.job_id"
    " WHERE p.{c} AND p.permit_key = 'job:{job}' AND f.state = 'running'"
)
CLOCK = (
    "SELECT t.state, c.next_fire_at, c.next_run_at FROM qsched_triggers t JOIN qsched_trigger_clocks c ON c.id = t.id"
    " WHERE t.id = {trigger} AND c.{c}"
)
MOVE = "UPDATE qsched_trigger_clocks SET {set} WHERE id = {trigger}"

IDLE = [
    # what holds a permit and does not run
    Broken("permit-of-no-firing", "UPDATE qsched_permits SET firing_id = 987654, fence = 1 WHERE {c}", PERMIT, [(1, 1)]),
    Broken("permit-without-fence", "UPDATE qsched_permits SET firing_id = 987654 WHERE {c}", PERMIT, [(1, 1)]),
    Broken("permit-row-deleted", "DELETE FROM qsched_permits WHERE {c}", PERMIT, [(1, 1)]),
    Broken("permit-of-no-job", "UPDATE qsched_permits SET job_id = NULL WHERE {c}",
           "SELECT job_id = {job} FROM qsched_permits WHERE {c}", [(1,)]),
]  # fmt: skip

RUNNING = [
    Broken("permit-taken-from-what-runs", "UPDATE qsched_permits SET firing_id = NULL, fence = NULL WHERE {c}", HELD, [(1, 1)]),
    Broken("permit-of-another-fence", "UPDATE qsched_permits SET fence = 77 WHERE {c}", HELD, [(1, 1)]),
    Broken("permit-of-another-firing", "UPDATE qsched_permits SET firing_id = 987654 WHERE {c}", HELD, [(1, 1)]),
    Broken("permit-row-deleted-under-what-runs", "DELETE FROM qsched_permits WHERE {c}", HELD, [(1, 1)]),
]  # fmt: skip

CLOCKS = [
    Broken("no-next-run", MOVE.replace("{set}", "next_run_at = NULL"), CLOCK, [("waiting", NEXT, NEXT)]),
    Broken("no-next-at-all", MOVE.replace("{set}", "next_run_at = NULL, next_fire_at = NULL"), CLOCK,
           [("waiting", NEXT, NEXT)]),
    Broken("next-before-the-watermark", MOVE.replace("{set}", f"next_fire_at = {START}, next_run_at = {NEXT}"), CLOCK,
           [("waiting", NEXT, NEXT)]),
    Broken("next-beyond-all-time", MOVE.replace("{set}", f"next_fire_at = {FAR}, next_run_at = {FAR}"), CLOCK,
           [("waiting", NEXT, NEXT)]),
    Broken("run-beyond-all-time", MOVE.replace("{set}", f"next_run_at = {FAR}"), CLOCK, [("waiting", NEXT, NEXT)]),
    Broken("clock-of-another-cluster", MOVE.replace("{set}", "cluster = 987654"), CLOCK, [("waiting", NEXT, NEXT)]),
    Broken("clock-of-another-job", MOVE.replace("{set}", "job_id = 987654"),
           "SELECT job_id = {job} FROM qsched_trigger_clocks WHERE id = {trigger}", [(1,)]),
    Broken("clock-deleted", "DELETE FROM qsched_trigger_clocks WHERE id = {trigger}", CLOCK, [("waiting", NEXT, NEXT)]),
    Broken("done-with-slots-to-come", "UPDATE qsched_triggers SET state = 'done' WHERE id = {trigger}", CLOCK,
           [("waiting", NEXT, NEXT)]),
    Broken("a-state-there-is-not", "UPDATE qsched_triggers SET state = 'sleeping' WHERE id = {trigger}", CLOCK,
           [("waiting", NEXT, NEXT)]),
    Broken("retired-with-a-next-run", "UPDATE qsched_triggers SET state = 'retired' WHERE id = {trigger}", CLOCK,
           [("retired", None, None)]),
    Broken("error-with-a-next-run", "UPDATE qsched_triggers SET state = 'error' WHERE id = {trigger}", CLOCK,
           [("error", NEXT, None)]),
    Broken("paused-with-a-next-run", "UPDATE qsched_triggers SET paused_at = 1 WHERE id = {trigger}", CLOCK,
           [("waiting", NEXT, None)]),
]  # fmt: skip


def one_node(world: World, **policies: Any) -> HandNode:
    """A node, and a trigger whose first slot it has run; the next is an hour away."""
    node = world.node()
    world.apply(every("tick", 3600), jobs=[python("report", **policies)])
    world.pass_time(3600)
    world.hear()
    node.work()
    world.live(1)
    assert world.firings("state") == [("succeeded",)]
    return node


def say(world: World, text: str) -> list[tuple[Any, ...]]:
    """Run a statement of the table."""
    ((trigger, job),) = world.sql(
        "SELECT id, job_id FROM qsched_triggers WHERE cluster = ?", world.store.cluster_id
    )
    names = {"c": C, "cluster": world.store.cluster_id, "trigger": trigger, "job": job}
    return world.sql(text.format(**names).format(**names))


def heals(world: World, broken: Broken) -> None:
    """It is wrong now, and right two check-ins later; and stays right."""
    say(world, broken.sql)
    assert say(world, broken.query) != broken.healed
    world.live(2)
    assert say(world, broken.query) == broken.healed
    world.live(1)
    assert say(world, broken.query) == broken.healed


@pytest.mark.parametrize("broken", IDLE, ids=lambda broken: broken.name)
def test_a_permit_that_nothing_running_holds_is_free_again(world: World, broken: Broken) -> None:
    node = one_node(world, overlap="queue")
    world.step_clock(3600)  # its next slot is due, and finds the permit as it is
    node.parts.hand.capacity = 0
    heals(world, broken)
    node.parts.hand.capacity = 20
    assert len(node.turn()) == 1


@pytest.mark.parametrize("broken", RUNNING, ids=lambda broken: broken.name)
def test_what_runs_gets_its_permit_back_and_no_second_one_starts(world: World, broken: Broken) -> None:
    node = one_node(world, overlap="queue")
    world.pass_time(3600)
    world.hear()
    (request,) = node.turn()
    world.live(1)
    say(world, broken.sql)
    assert say(world, HELD) != broken.healed
    world.live(2)
    assert say(world, HELD) == broken.healed
    world.step_clock(3600)
    world.live(3)
    assert node.taken == [request]
    node.finish(request)
    world.live(1)
    assert len(node.taken) == 1


def test_a_permit_held_by_what_needs_none_is_given_back_while_that_runs(world: World) -> None:
    world.apply(
        every("free", 10),
        every("alone", 10, job="alone"),
        jobs=[python("report"), python("alone", overlap="queue")],
    )
    world.functions["alone"] = lambda: None
    node = world.node()
    world.pass_time(10)
    held = {request.trigger: request for request in node.turn()}
    node.finish(held["alone"])
    world.sql(
        "UPDATE qsched_permits SET firing_id = ?, fence = 1 WHERE cluster = ?",
        *(held["free"].firing_id, world.store.cluster_id),
    )
    world.pass_time(10)
    assert [request.trigger for request in node.turn()] == ["free"]
    world.live(2)
    assert "alone" in [request.trigger for request in node.taken]


@pytest.mark.parametrize("broken", CLOCKS, ids=lambda broken: broken.name)
def test_a_clock_is_derived_again_from_its_trigger(world: World, broken: Broken) -> None:
    one_node(world)
    heals(world, broken)


def test_slots_that_passed_while_a_clock_was_broken_are_decided_by_the_misfire_rule(world: World) -> None:
    node = one_node(world)
    node.stopped = True
    say(
        world, "UPDATE qsched_trigger_clocks SET next_run_at = NULL, next_fire_at = NULL WHERE id = {trigger}"
    )
    world.pass_time(3 * 3600)
    node.stopped = False
    world.live(3)
    assert world.firings("reason, covers", "reason = 'misfire'") == [("misfire", 3)]


def test_a_broken_clock_whose_definition_nobody_can_read_is_in_error(world: World) -> None:
    one_node(world)
    say(world, "UPDATE qsched_triggers SET spec = 'broken' WHERE id = {trigger}")
    say(world, "UPDATE qsched_trigger_clocks SET next_run_at = NULL WHERE id = {trigger}")
    world.live(2)
    assert say(world, CLOCK) == [("error", NEXT, None)]


def test_a_trigger_whose_only_slot_is_over_is_done_again(world: World) -> None:
    node = world.node()
    world.apply(once("single", 60))
    world.pass_time(60)
    world.hear()
    node.work()
    say(world, "UPDATE qsched_triggers SET state = 'waiting' WHERE id = {trigger}")
    world.live(2)
    assert say(world, CLOCK) == [("done", None, None)]
    assert len(world.firings("id")) == 1


def test_the_pause_of_a_group_holds_against_a_clock_that_says_otherwise(world: World) -> None:
    node = one_node(world)
    world.sql(
        "INSERT INTO qsched_paused_groups (cluster, group_name, paused_at) VALUES (?, 'default', 1)",
        world.store.cluster_id,
    )
    world.live(2)
    assert say(world, CLOCK) == [("waiting", NEXT, None)]
    world.pass_time(3600)
    world.live(2)
    assert node.taken == []


def test_the_pause_of_a_group_holds_against_every_clock_of_more_than_one_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_rows, "_SPAN", 1)
    world.node()
    world.apply(*(every(f"t{number}", 3600) for number in range(3)))
    world.sql(
        "INSERT INTO qsched_paused_groups (cluster, group_name, paused_at) VALUES (?, 'default', 1)",
        world.store.cluster_id,
    )
    (last,) = world.sql("SELECT MAX(id) FROM qsched_triggers")[0]
    world.live(2 * last + 2)  # each has been looked at twice
    going = "SELECT COUNT(*) FROM qsched_trigger_clocks WHERE cluster = ? AND next_run_at IS NOT NULL"
    assert world.sql(going, world.store.cluster_id) == [(0,)]


# -- firings -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("incarnation", ["NULL", "987654", "0", "-1"])
def test_what_runs_under_nobody_is_due_again(world: World, incarnation: str) -> None:
    one_node(world, request_recovery=True)
    say(
        world,
        f"UPDATE qsched_firings SET state = 'running', incarnation = {incarnation}, outcome = NULL WHERE {{c}}",
    )
    world.live(2.25)
    assert world.firings("state, recoveries, fence") == [("running", 1, 2)]  # on the node that there is


def test_what_a_live_node_does_not_know_is_released(world: World) -> None:
    node = one_node(world)
    say(
        world,
        f"UPDATE qsched_firings SET state = 'running', incarnation = {node.parts.who.incarnation} WHERE {{c}}",
    )
    world.live(2)
    assert world.firings("state, recoveries, fence") == [("running", 0, 2)]


def test_a_due_firing_that_carries_an_incarnation_is_nobodys(world: World) -> None:
    node = one_node(world)
    node.parts.hand.capacity = 0
    say(world, "UPDATE qsched_firings SET state = 'due', incarnation = 987654 WHERE {c}")
    world.live(2)
    assert world.firings("state, incarnation") == [("due", None)]


@pytest.mark.parametrize("run_at", [FAR, START + 40 * 86400 * SECOND, -1])
def test_a_due_slot_of_any_run_time_runs(world: World, run_at: int) -> None:
    node = one_node(world)
    say(world, f"UPDATE qsched_firings SET state = 'due', run_at = {run_at} WHERE {{c}}")
    world.live(2)
    assert [request.fence for request in node.taken] == [2]


@pytest.mark.parametrize("late", [0, 60])
def test_a_slot_decided_by_a_clock_that_ran_days_ahead_waits_for_its_time(world: World, late: int) -> None:
    node = world.node()
    world.apply(once("single", 2 * DAY))
    world.step_clock(2 * DAY + late)
    world.hear()
    node.turn()
    say(world, f"UPDATE qsched_firings SET run_at = scheduled_at + {late * SECOND} WHERE {{c}}")
    node.release(node.taken[0])
    node.settle()
    world.step_clock(-2 * DAY - late)
    world.live(3)
    assert node.taken == []
    assert world.firings("state, run_at") == [("due", START + 2 * DAY * SECOND)]
    world.pass_time(2 * DAY)
    world.hear()
    assert len(node.turn()) == 1


def test_a_firing_whose_fence_was_set_back_can_still_be_lost_and_recovered(world: World) -> None:
    one = world.node("one")
    world.apply(every("tick", 3600), jobs=[python("report", request_recovery=True)])
    world.pass_time(3600)
    world.hear()
    one.turn()
    for number in range(2):
        one.kill()
        one = world.node(f"next-{number}")
        world.live(5)
    one.parts.hand.capacity = 0
    one.release(one.taken[0])
    one.settle()
    say(world, "UPDATE qsched_firings SET fence = 0 WHERE {c}")
    world.live(2)
    one.parts.hand.capacity = 20
    assert [request.fence for request in one.turn()] == [3]


def test_a_retry_that_its_clock_does_not_know_is_dropped_by_the_next_slot_all_the_same(world: World) -> None:
    one_node(world)
    say(
        world,
        f"UPDATE qsched_firings SET state = 'due', attempt = 1, run_at = {NEXT + 60 * SECOND} WHERE {{c}}",
    )
    world.live(1)
    say(world, f"UPDATE qsched_firings SET run_at = {START} WHERE {{c}}")
    world.live(2)
    assert say(world, "SELECT retrying FROM qsched_trigger_clocks WHERE id = {trigger}") == [(2,)]


# -- nodes -------------------------------------------------------------------------------------------------------------------


def test_a_lease_beyond_all_leases_keeps_no_dead_node_alive(world: World) -> None:
    one = world.node("one")
    world.node("two")
    world.live(3)
    one.stopped = True
    world.sql("UPDATE qsched_nodes SET lease_until = ? WHERE incarnation = ?", FAR, one.parts.who.incarnation)
    world.live(18)
    assert world.sql("SELECT state FROM qsched_nodes WHERE incarnation = ?", one.parts.who.incarnation) == [
        ("dead",)
    ]


@pytest.mark.parametrize("state", ["dead", "stopped", "nonsense"])
def test_a_live_node_whose_row_says_otherwise_begins_a_new_life(world: World, state: str) -> None:
    node = one_node(world, request_recovery=True)
    world.pass_time(3600)
    world.hear()
    (request,) = node.turn()
    old = node.parts.who.incarnation
    world.sql("UPDATE qsched_nodes SET state = ? WHERE incarnation = ?", state, old)
    world.live(2)
    assert node.parts.who.incarnation > old
    assert node.context_of(request).cancel_reason == "lease_lost"
    assert world.firings("state, incarnation", "state = 'running'") == [
        ("running", old)
    ]  # it still runs here
    node.finish(request)
    assert len(world.firings("id", "state = 'succeeded'")) == 2


# -- what it costs, and what it leaves alone -----------------------------------------------------------------------------------


def test_a_whole_cluster_is_left_alone(world: World) -> None:
    """Nothing that our own transactions leave behind looks wrong: a busy while, and no row looked wrong."""
    from qsched.scheduler.store.sweep_rows import look_for_wrong, look_for_wrong_clocks

    one, two = world.node("one"), world.node("two")
    world.apply(
        every("allow", 2),
        every("queue", 3, job="queued"),
        every("skip", 2, job="skipping"),
        every("all", 5, misfire=MisfireRule("fire_all")),
        every("held", 5, paused=True),
        once("single", 7),
        jobs=[python("report"), python("queued", overlap="queue"), python("skipping", overlap="skip")],
    )
    for second in range(15):
        world.live(1)
        wrong = world.store.read("test", lambda tx: look_for_wrong(tx, world.time))
        clocks = world.store.read("test", lambda tx: look_for_wrong_clocks(tx, 0, world.time))
        assert (wrong, clocks[0]) == ([], set())
        for node in (one, two):
            if second % 3:
                node.run()
