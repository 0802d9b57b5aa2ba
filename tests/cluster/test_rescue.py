"""Nodes that die leave nothing running: what asked for recovery runs again elsewhere, the rest is lost and says so."""

from typing import Any

import pytest
from qsched.scheduler import rescuer
from qsched.scheduler.apply import apply
from qsched.scheduler.context import RunRequest
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store.firing_reports import firing
from qsched.scheduler.store.reports import nodes
from qsched.triggers.retry import RetryPolicy

from support.command_line import Command
from support.declared import Declared
from support.hand_node import HandNode, World, every, python

POLL = 0.25
GONE_WITHIN = 4 * 1.0 + POLL


def two_nodes(world: World, **options: Any) -> tuple[HandNode, HandNode]:
    """Two nodes that know each other."""
    one, two = world.node("one", **options), world.node("two")
    world.live(3)
    return one, two


def running_on(world: World, node: HandNode, **policies: Any) -> RunRequest:
    """What the node takes of a trigger whose next slot is an hour away."""
    world.apply(every("tick", 3600), jobs=[python("report", **policies)])
    world.pass_time(3600)
    world.hear()
    (request,) = node.turn()
    world.hear()
    return request


def states(world: World) -> list[tuple[Any, ...]]:
    return world.sql(
        "SELECT name, state, dead_verdict FROM qsched_nodes WHERE cluster = ? ORDER BY incarnation",
        world.store.cluster_id,
    )


def attempts(world: World) -> list[tuple[Any, ...]]:
    return world.sql(
        "SELECT fence, attempt, recovering, outcome, note FROM qsched_attempts WHERE cluster = ? ORDER BY fence",
        world.store.cluster_id,
    )


# -- what becomes of what it ran ---------------------------------------------------------------------------------------------


def test_what_a_killed_node_ran_runs_again_elsewhere_with_its_slot_and_key(world: World) -> None:
    one, two = two_nodes(world)
    lost = running_on(world, one, request_recovery=True)
    one.kill()
    world.live_until(lambda: two.taken)
    (again,) = two.taken
    assert again.recovering
    assert (again.firing_id, again.scheduled_at) == (lost.firing_id, lost.scheduled_at)
    assert (again.default_key, again.fence, again.attempt) == (lost.default_key, 2, 0)
    assert states(world) == [("one", "dead", "gone"), ("two", "up", None)]
    assert attempts(world) == [(1, 0, 0, "lost", "lost: node one is dead (gone); due again for any node")]
    two.finish(again)
    assert world.firings("state, outcome, recoveries") == [("succeeded", "succeeded", 1)]


def test_what_did_not_ask_for_recovery_is_lost_and_says_so(world: World) -> None:
    one, two = two_nodes(world)
    running_on(world, one)
    one.kill()
    world.live_until(lambda: world.firings("id", "state = 'lost'"))
    world.live(3)
    assert two.taken == []
    assert world.firings("state, outcome, note") == [
        ("lost", "lost", "lost: node one is dead (gone); the job does not ask for recovery")
    ]
    world.pass_time(3600)  # its trigger goes on
    world.hear()
    assert len(two.turn()) == 1


def test_a_permit_comes_back_with_its_firing(world: World) -> None:
    one, two = two_nodes(world)
    running_on(world, one, request_recovery=True, overlap="queue")
    one.kill()
    world.live_until(lambda: two.taken)
    (again,) = two.taken
    held = "SELECT firing_id, fence FROM qsched_permits WHERE cluster = ?"
    assert world.sql(held, world.store.cluster_id) == [(again.firing_id, 2)]
    two.finish(again)
    assert world.sql(held, world.store.cluster_id) == [(None, None)]


def test_a_retry_that_is_lost_is_the_same_retry_again(world: World) -> None:
    one, two = two_nodes(world)
    first = running_on(world, one, request_recovery=True, retry=RetryPolicy.fixed(3, "5s"))
    one.finish(first, Outcome.failure("ValueError", "boom"))
    world.pass_time(5)
    world.hear()
    (retry,) = one.turn()
    assert retry.attempt == 1
    one.kill()
    world.live_until(lambda: two.taken)
    assert [(again.attempt, again.recovering) for again in two.taken] == [(1, True)]
    assert [row[:4] for row in attempts(world)] == [(1, 0, 0, "failed"), (2, 1, 0, "lost")]


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
def test_a_job_that_kills_every_node_kills_no_more_than_it_may(world: World) -> None:
    one = world.node("node-0")
    running_on(world, one, request_recovery=True, max_recoveries=2)
    for number in range(1, 4):
        one.kill()
        one = world.node(f"node-{number}")
        world.live(8)
        assert len(one.taken) == (1 if number < 3 else 0)
    assert world.firings("state, recoveries, note") == [
        ("lost", 2, "lost: node node-2 is dead (gone); recovered 2 times already")
    ]


def test_what_had_been_asked_to_stop_is_not_started_again(world: World) -> None:
    one, _ = two_nodes(world)
    running_on(world, one, request_recovery=True)
    world.sql("UPDATE qsched_firings SET cancel_requested_at = 1 WHERE cluster = ?", world.store.cluster_id)
    one.kill()
    world.live_until(lambda: world.firings("id", "state <> 'running'"))
    assert world.firings("state, outcome") == [("cancelled", "lost")]


def test_a_node_whose_row_was_deleted_by_hand_leaves_nothing_running(world: World) -> None:
    one, two = two_nodes(world)
    running_on(world, one, request_recovery=True)
    one.kill()
    world.sql("DELETE FROM qsched_nodes WHERE incarnation = ?", one.parts.who.incarnation)
    assert world.live_until(lambda: two.taken) <= GONE_WITHIN
    assert attempts(world)[0][4] == "lost: its node has no row; due again for any node"


def test_two_rescuers_end_each_firing_once(world: World) -> None:
    one = world.node("one", capacity=50)
    two, three = world.node("two", capacity=50), world.node("three", capacity=50)
    world.live(2)
    world.apply(
        *(every(f"t{number}", 3600) for number in range(30)), jobs=[python("report", request_recovery=True)]
    )
    world.pass_time(3600)
    world.hear()
    while one.turn():
        pass
    taken = len(one.taken)
    one.kill()
    world.live(6)
    fences = [request.fence for request in (*two.taken, *three.taken) if request.recovering]
    assert fences == [2] * taken
    assert len(world.firings("id", "recoveries = 1")) == taken


def test_a_node_that_ran_very_many_is_rescued_in_chunks_while_others_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescuer, "CHUNK", 10)
    one, two = two_nodes(world, capacity=200)
    two.parts.hand.capacity = 0
    world.apply(
        *(every(f"t{number}", 3600) for number in range(95)), jobs=[python("report", request_recovery=True)]
    )
    world.pass_time(3600)
    world.hear()
    while one.turn():
        pass
    taken = len(one.taken)
    assert taken > 90
    one.kill()
    world.live_until(lambda: two.rescued)
    assert len(world.firings("id", "state = 'due' AND recoveries = 1")) == taken
    assert two.rescued == -(-taken // 10)


def test_one_row_that_cannot_be_written_keeps_no_other_from_being_rescued(world: World) -> None:
    one, two = two_nodes(world)
    two.parts.hand.capacity = 0
    world.apply(
        *(every(f"t{number}", 3600) for number in range(3)), jobs=[python("report", request_recovery=True)]
    )
    world.pass_time(3600)
    world.hear()
    while one.turn():
        pass
    bad = one.taken[1].firing_id
    world.sql(  # an attempt of that number is recorded already: somebody set the fence back
        "INSERT INTO qsched_attempts (firing_id, fence, cluster, attempt, recovering, finished_at, outcome, next_run_at)"
        " VALUES (?, 1, ?, 0, 0, 1, 'lost', 1)",
        *(bad, world.store.cluster_id),
    )
    one.kill()
    world.live_until(lambda: two.rescued)
    assert world.firings("state", f"id <> {bad}") == [("due",)] * (len(one.taken) - 1)
    ((state, note),) = world.firings("state, note", f"id = {bad}")
    assert state == "lost"
    assert "could not be written" in note


def test_no_second_body_of_a_permit_starts_while_a_node_may_be_cut_off_and_trust_its_lease(
    world: World,
) -> None:
    """Its lock is free, but nobody saw its process end: it may run on without its database, until its own trust ends."""
    one, two = two_nodes(world)
    running_on(world, one, request_recovery=True, overlap="queue")
    world.ended[one.parts.who.incarnation] = False
    one.stopped = True
    world.live_until(lambda: states(world)[0][1] == "dead")
    assert world.elapsed < one.parts.who.trusted_until
    world.live_until(lambda: two.taken)
    assert world.elapsed > one.parts.who.trusted_until


def test_one_that_is_alone_and_never_lives_for_a_lease_rescues_a_silent_one(world: World) -> None:
    one, two = two_nodes(world)
    running_on(world, one, request_recovery=True)
    one.stopped = True
    two.kill()
    for number in range(16):
        node = world.node(f"short-{number}")
        world.live(3)
        if node.taken:
            break
        node.kill()
    assert [request.recovering for request in node.taken] == [True]
    assert 5 <= number <= 13  # its lease, then a lease in which it stayed suspected


# -- declarations that change before the rescue (B27) ------------------------------------------------------------------------


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
def test_a_changed_schedule_loses_no_recovery(world: World) -> None:
    one = world.node("one")
    lost = running_on(world, one, request_recovery=True)
    one.kill()
    world.apply(every("tick", 1800), jobs=[python("report", request_recovery=True)])
    two = world.node("two")
    world.live_until(lambda: two.taken)
    assert [(again.firing_id, again.recovering) for again in two.taken] == [(lost.firing_id, True)]


def test_what_a_removed_trigger_was_running_is_lost_and_visible(world: World) -> None:
    one = world.node("one")
    lost = running_on(world, one, request_recovery=True)
    one.kill()
    apply(world.store, Declared((), (python("report", request_recovery=True),)), allow_mass_prune=True)
    two = world.node("two")
    world.live_until(lambda: world.firings("id", "state = 'lost'"))
    assert two.taken == []
    item = firing(world.store, lost.firing_id)
    assert item is not None
    assert (item["state"], item["outcome"]) == ("lost", "lost")
    assert "the trigger was retired" in item["note"]


# -- what people see ---------------------------------------------------------------------------------------------------------


def test_the_lists_show_the_verdict_the_lost_attempt_and_its_recovery(world: World) -> None:
    one, two = two_nodes(world)
    lost = running_on(world, one, request_recovery=True)
    one.kill()
    world.live_until(lambda: two.taken)
    dead, up = nodes(world.store)
    assert (dead["name"], dead["state"], dead["verdict"], dead["running"]) == ("one", "dead", "gone", 0)
    assert dead["marked_by"] == two.parts.who.incarnation
    assert (up["state"], up["verdict"], up["session_lock"], up["health"]) == ("up", None, True, {})
    item = firing(world.store, lost.firing_id)
    assert item is not None
    assert (item["state"], item["recovering"], item["node"]) == ("running", True, "two")
    first, second = item["attempts"]
    assert (first["outcome"], first["node"], first["recovering"]) == ("lost", "one", False)
    assert (second["node"], second["recovering"]) == ("two", True)


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
def test_the_table_of_nodes_says_who_was_declared_dead_and_what_is_red(world: World, qsched: Command) -> None:
    one, two = two_nodes(world)
    one.kill()
    world.live_until(lambda: states(world)[0][1] == "dead")
    world.sql(
        "UPDATE qsched_nodes SET health = ? WHERE incarnation = ?",
        *('{"planner": "no success for 9 s"}', two.parts.who.incarnation),
    )
    said = qsched("--store", world.url, "--cluster", world.cluster, "nodes", "list", "--all").out.splitlines()
    assert "declared dead: gone" in said[1]
    assert "planner: no success for 9 s" in said[2]
