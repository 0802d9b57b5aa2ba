"""Next fires follow the newest zone data in the cluster, and never go back to older ones."""

import pytest
from qsched.scheduler.zone_update import update_zones, version_key
from qsched.triggers.instant import HOUR
from qsched.triggers.trigger import TriggerDefinition

from support.hand_node import World, every

BERLIN = TriggerDefinition("nightly", "report", {"cron": "0 2 * * *"}, time_zone="Europe/Berlin")


def computed_with_old_rules(world: World) -> int:
    """A trigger whose next fire is an hour off, as old rules of its zone had it; the right next fire."""
    world.apply(BERLIN, every("plain", 3600))
    (right,) = world.clock_of("nightly", "c.next_fire_at")
    world.sql(
        "UPDATE qsched_trigger_clocks SET next_fire_at = ?, next_run_at = ? WHERE next_fire_at = ?",
        *(right + HOUR, right + HOUR, right),
    )
    world.sql("UPDATE qsched_clusters SET tzdata = '2025.9' WHERE id = ?", world.store.cluster_id)
    return int(right)


def test_a_node_with_newer_zone_data_computes_next_fires_again(world: World) -> None:
    right = computed_with_old_rules(world)
    node = world.node()
    assert update_zones(node.parts, "2025.10") == 1
    assert world.clock_of("nightly", "c.next_fire_at, c.next_run_at") == (right, right)
    assert update_zones(node.parts, "2025.10") == 0


@pytest.mark.parametrize("version", ["2025.8", "2025.9", None, "unknown"])
def test_a_node_without_newer_zone_data_leaves_them(world: World, version: str | None) -> None:
    right = computed_with_old_rules(world)
    node = world.node()
    world.sql("UPDATE qsched_nodes SET tzdata = '2025.9' WHERE cluster = ?", world.store.cluster_id)
    assert update_zones(node.parts, version) == 0
    assert world.clock_of("nightly", "c.next_fire_at") == (right + HOUR,)


def test_a_paused_trigger_gets_its_next_fire_and_stays_paused(world: World) -> None:
    right = computed_with_old_rules(world)
    world.sql("UPDATE qsched_triggers SET paused_at = 1 WHERE name = 'nightly'")
    world.sql("UPDATE qsched_trigger_clocks SET next_run_at = NULL WHERE next_fire_at = ?", right + HOUR)
    update_zones(world.node().parts, "2026.1")
    assert world.clock_of("nightly", "c.next_fire_at, c.next_run_at") == (right, None)


def test_what_is_due_already_is_not_taken_back(world: World) -> None:
    right = computed_with_old_rules(world)
    world.pass_time((right + HOUR - world.time) / 1_000_000 + 1)
    assert update_zones(world.node().parts, "2026.1") == 0


def test_the_first_node_says_which_zone_data_the_cluster_has(world: World) -> None:
    world.apply(BERLIN)
    assert update_zones(world.node().parts, "2025.2") == 0
    assert world.sql("SELECT tzdata FROM qsched_clusters WHERE id = ?", world.store.cluster_id) == [
        ("2025.2",)
    ]


def test_versions_are_ordered_by_number() -> None:
    assert sorted(["2025.10", "2025.9", "2024.1"], key=version_key) == ["2024.1", "2025.9", "2025.10"]
    assert version_key(None) == version_key("unknown") == ()
