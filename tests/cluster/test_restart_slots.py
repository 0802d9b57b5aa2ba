"""The fire that falls into a deploy is not lost, not doubled, and nothing fires that was declared after it (B19)."""

from datetime import UTC, datetime

from qsched.scheduler.leaving import leave
from qsched.triggers.instant import HOUR, MINUTE, SECOND
from qsched.triggers.trigger import TriggerDefinition

from support.hand_node import START, HandNode, World

NOON = START + 3 * HOUR
"""12:00:00Z of the world's first day, which begins at nine."""


def daily(name: str = "daily") -> TriggerDefinition:
    return TriggerDefinition(name, "report", {"cron": "0 12 * * *"})


def until(world: World, instant: int) -> None:
    """Let time pass until then."""
    world.pass_time((instant - world.time) / SECOND)


def stop(node: HandNode) -> None:
    """The node has drained: its last word."""
    incarnation = node.parts.who.incarnation
    node.store.transaction("abandon", lambda tx: leave(tx, incarnation, (), (), 0))
    node.gone = True


def runs(world: World) -> list[tuple[int, str, int, str]]:
    return world.firings("scheduled_at, reason, covers, state")


def deployed(world: World, starts_at: int) -> HandNode:
    """The old node stopped half a second before noon; the new one has started then, and worked."""
    world.apply(daily())
    old = world.node("old")
    until(world, NOON - SECOND // 2)
    assert old.work() == []
    stop(old)
    until(world, starts_at)
    new = world.node("new")
    new.work()
    return new


def test_noon_is_noon_in_these_tests() -> None:
    assert datetime.fromtimestamp(NOON / SECOND, UTC).isoformat() == "2024-01-10T12:00:00+00:00"


def test_a_slot_within_a_deploy_runs_once_when_the_new_node_is_there(world: World) -> None:
    deployed(world, NOON + 7 * SECOND)
    assert runs(world) == [(NOON, "schedule", 1, "succeeded")]


def test_after_a_long_deploy_the_misfire_policy_runs_it_once(world: World) -> None:
    deployed(world, NOON + 20 * MINUTE)
    assert runs(world) == [(NOON, "misfire", 1, "succeeded")]


def test_a_trigger_that_is_first_declared_after_its_slot_does_not_run_for_it(world: World) -> None:
    new = deployed(world, NOON + 7 * SECOND)
    world.apply(daily(), daily("younger"))
    world.pass_time(60)
    new.work()
    assert runs(world) == [(NOON, "schedule", 1, "succeeded")]


def test_an_old_and_a_new_node_beside_each_other_run_it_once(world: World) -> None:
    world.apply(daily())
    blue, green = world.node("blue"), world.node("green")
    until(world, NOON + 2 * SECOND)
    for node in (blue, green, blue):
        node.work()
    stop(blue)
    world.pass_time(10)
    green.work()
    assert runs(world) == [(NOON, "schedule", 1, "succeeded")]


def test_a_file_that_is_applied_between_stop_and_start_changes_nothing_of_that(world: World) -> None:
    """The deploy applies its file, unchanged, while no node runs and the slot is due."""
    world.apply(daily())
    old = world.node("old")
    until(world, NOON - SECOND // 2)
    stop(old)
    until(world, NOON + 3 * SECOND)
    world.apply(daily())
    until(world, NOON + 7 * SECOND)
    world.node("new").work()
    assert runs(world) == [(NOON, "schedule", 1, "succeeded")]
