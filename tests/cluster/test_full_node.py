"""A full node starts nothing, and still decides whatever starts nothing, wherever it stands in the backlog."""

import pytest
from qsched.scheduler import planner
from qsched.triggers.instant import DAY, SECOND
from qsched.triggers.misfire import MisfireRule

from support.hand_node import World, every, once


def full_node_and_backlog(world: World, *more: object) -> None:
    """A node with one place, taken for good, before a backlog of twelve due triggers that all would start."""
    world.apply(once("long", 1), *(every(f"due{n:02}", 10, priority=9) for n in range(12)), *more)  # type: ignore[arg-type]
    node = world.node(capacity=1)
    world.pass_time(1)
    assert [request.trigger for request in node.turn()] == ["long"]


def turns(world: World, count: int) -> None:
    (node,) = world.nodes
    for _ in range(count):
        world.pass_time(1)
        assert node.turn() == []


def test_poison_behind_a_backlog_is_found_by_a_full_node(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "BATCH", 5)
    full_node_and_backlog(world, every("bad", 10, priority=1))
    world.sql(
        "UPDATE qsched_triggers SET spec = '{broken' WHERE name = 'bad' AND cluster = ?",
        world.store.cluster_id,
    )
    world.sql(
        "UPDATE qsched_trigger_clocks SET definition_hash = 0 WHERE cluster = ?", world.store.cluster_id
    )
    turns(world, 20)
    assert world.clock_of("bad", "t.state, t.error_kind") == ("error", "poison")
    assert world.firings("trigger_name") == [("long",)]


def test_a_backlog_wholly_beyond_its_window_is_decided_by_a_full_node(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "BATCH", 5)
    rule = MisfireRule("fire_all", window=30 * SECOND, threshold=SECOND)
    full_node_and_backlog(world, every("old", DAY // SECOND, misfire=rule, priority=1))
    world.pass_time((world.clock_of("old", "c.next_fire_at")[0] - world.time) / SECOND + 60)
    world.hear()
    turns(world, 20)
    assert world.firings("state, misfire_decision", "trigger_name = 'old'") == [("skipped", "beyond window")]


def test_a_full_node_that_finds_a_place_goes_on_with_the_oldest(world: World) -> None:
    full_node_and_backlog(world)
    turns(world, 12)
    (node,) = world.nodes
    (request,) = node.taken
    node.finish(request)
    assert [taken.trigger for taken in node.turn()] == ["due00"]
