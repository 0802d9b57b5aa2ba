"""DESIGN §7's table, row by row, on the three stores: what a node that comes late leaves in the ledger, and how it is shown."""

from typing import Any

import pytest
from qsched.scheduler.store import firing_reports, reports
from qsched.scheduler.store.firing_reports import Wanted
from qsched.triggers.instant import SECOND, rfc3339
from qsched.triggers.misfire import MisfireRule

from support.hand_node import START, World, every, once, python
from support.slots import slots

GAPS = pytest.mark.parametrize("gap", [10, 1], ids=["10s", "1s"])
"""Seconds between slots."""


def late_node(world: World, gap: int, late: float, rule: MisfireRule | None = None) -> list[int]:
    """Apply a trigger and let time pass without a node until its first slot is `late` seconds late; all slots till then.

    The node that comes then does all its work.
    """
    world.apply(every("tick", gap, misfire=rule or MisfireRule()))
    world.pass_time(gap + late)  # the first slot is one gap after the start
    world.node().work()
    return slots(START + 1, world.time, gap * SECOND)


def shown(world: World, **wanted: Any) -> list[dict[str, Any]]:
    """The firings as they are reported, oldest first."""
    return list(firing_reports.firings(world.store, Wanted(**wanted)))[::-1]


def trigger_shown(world: World) -> dict[str, Any]:
    (item,) = reports.triggers(world.store)
    return item


@GAPS
@pytest.mark.parametrize("policy", ["fire_once", "skip", "fire_all"])
def test_within_the_threshold_each_slot_fires_on_its_own(world: World, gap: int, policy: str) -> None:
    due = late_node(world, gap, 35.5, MisfireRule(policy))
    assert len(due) == 35 // gap + 1
    found = shown(world)
    assert [row["scheduled_at"] for row in found] == [rfc3339(slot) for slot in due]
    assert [row["late"] for row in found] == [35.5 - gap * number for number in range(len(due))]
    assert {(row["reason"], row["state"], row["covers"], row["misfire"] is None) for row in found} == {
        ("schedule", "succeeded", 1, True)
    }
    trigger = trigger_shown(world)
    assert (trigger["fires"], trigger["misfires"], trigger["last_misfire"]) == (len(due), 0, None)
    assert shown(world, misfires=True) == []


@GAPS
def test_fire_once_runs_the_last_for_all(world: World, gap: int) -> None:
    due = late_node(world, gap, 85.5)
    count = 85 // gap + 1
    (row,) = shown(world)
    assert (row["reason"], row["state"], row["covers"]) == ("misfire", "succeeded", count)
    assert (row["scheduled_at"], row["first_scheduled_at"]) == (rfc3339(due[-1]), rfc3339(due[0]))
    assert row["late"] == 85.5
    decision = f"ran the last of {count}"
    assert row["misfire"] == {"cause": "node_down", "policy": "fire_once", "decision": decision}
    assert shown(world, misfires=True) == [row]
    trigger = trigger_shown(world)
    assert (trigger["fires"], trigger["misfires"]) == (1, count)
    assert trigger["last_misfire"] == {
        "scheduled_at": rfc3339(due[-1]),
        "first_scheduled_at": rfc3339(due[0]),
        "noticed_at": rfc3339(world.time),
        "late": 85.5,
        **row["misfire"],
    }
    assert trigger["next_fire_at"] == rfc3339(due[-1] + gap * SECOND)


@GAPS
def test_skip_leaves_one_row_that_says_so(world: World, gap: int) -> None:
    due = late_node(world, gap, 85.5, MisfireRule("skip"))
    count = 85 // gap + 1
    (row,) = shown(world)
    assert (row["reason"], row["state"], row["covers"], row["node"]) == ("misfire", "skipped", count, None)
    assert (row["scheduled_at"], row["first_scheduled_at"]) == (rfc3339(due[-1]), rfc3339(due[0]))
    assert row["misfire"] == {"cause": "node_down", "policy": "skip", "decision": f"skipped {count}"}
    assert (row["started_at"], row["late"]) == (None, 85.5)
    trigger = trigger_shown(world)
    assert (trigger["fires"], trigger["misfires"]) == (0, count)
    assert trigger["last_misfire"]["decision"] == f"skipped {count}"
    assert trigger["next_fire_at"] == rfc3339(due[-1] + gap * SECOND)


@pytest.mark.parametrize(("gap", "late"), [(10, 85.5), (1, 60.5)], ids=["10s", "1s"])
def test_fire_all_runs_each_oldest_first_and_never_two_at_a_time(world: World, gap: int, late: float) -> None:
    running: list[int] = []

    def report() -> None:
        running.append(len(world.firings("id", "state = 'running'")))

    world.functions["report"] = report
    world.apply(every("tick", gap, misfire=MisfireRule("fire_all")))
    world.pass_time(gap + late)
    node = world.node()
    while node.turn():
        world.pass_time(0.001)  # so that their starts can be told apart
        node.run()
    due = slots(START + 1, world.time, gap * SECOND)
    found = shown(world)
    assert [row["scheduled_at"] for row in found] == [rfc3339(slot) for slot in due]
    assert {(row["reason"], row["state"], row["covers"]) for row in found} == {("misfire", "succeeded", 1)}
    assert {row["misfire"]["decision"] for row in found} == {f"ran each of {len(due)}"}
    started = [row[0] for row in world.firings("started_at")]
    assert started == sorted(set(started))
    assert running == [1] * len(due)
    assert (trigger_shown(world)["fires"], trigger_shown(world)["misfires"]) == (len(due), len(due))


@pytest.mark.parametrize(("gap", "limit"), [(10, 100), (1, 10)], ids=["10s", "1s"])
def test_fire_all_beyond_its_limit_skips_the_older_in_one_row(world: World, gap: int, limit: int) -> None:
    due = late_node(world, gap, gap * 199 + 0.5, MisfireRule("fire_all", limit=limit))
    older, *ran = shown(world)
    assert (older["state"], older["covers"]) == ("skipped", 200 - limit)
    assert older["misfire"]["decision"] == "beyond limit"
    assert older["first_scheduled_at"] == rfc3339(due[0])
    assert older["scheduled_at"] == rfc3339(due[-limit - 1])
    assert [row["scheduled_at"] for row in ran] == [rfc3339(slot) for slot in due[-limit:]]
    assert {(row["state"], row["covers"], row["reason"]) for row in ran} == {("succeeded", 1, "misfire")}
    assert (trigger_shown(world)["fires"], trigger_shown(world)["misfires"]) == (limit, 200)


@GAPS
def test_fire_all_beyond_its_window_skips_the_older_in_one_row(world: World, gap: int) -> None:
    due = late_node(world, gap, 85.5, MisfireRule("fire_all", window=30 * SECOND))
    within = 30 // gap
    older, *ran = shown(world)
    assert (older["state"], older["covers"]) == ("skipped", len(due) - within)
    assert older["misfire"]["decision"] == "beyond window"
    assert [row["scheduled_at"] for row in ran] == [rfc3339(slot) for slot in due[-within:]]
    assert (trigger_shown(world)["fires"], trigger_shown(world)["misfires"]) == (within, len(due))


@pytest.mark.parametrize(("late", "misfires"), [(60.0, 0), (60.000001, 7)], ids=["at", "just after"])
def test_exactly_at_the_threshold_is_no_misfire(world: World, late: float, misfires: int) -> None:
    late_node(world, 10, late)
    assert trigger_shown(world)["misfires"] == misfires


# -- causes ----------------------------------------------------------------------------------------------------------


def cause(world: World) -> str:
    (row,) = shown(world, misfires=True)
    return str(row["misfire"]["cause"])


def test_the_cause_is_no_capacity_where_a_node_lived(world: World) -> None:
    world.functions["long"] = lambda: None
    world.apply(every("tick", 10), once("long", 5, job="long"))
    node = world.node(capacity=1)
    world.pass_time(5)
    (long,) = node.turn()
    for _ in range(9):
        world.pass_time(10)
        assert node.turn() == []
    node.finish(long)
    node.work()
    assert cause(world) == "no_capacity"


def test_the_cause_is_node_down_where_none_lived(world: World) -> None:
    late_node(world, 10, 85.5)
    assert cause(world) == "node_down"


def test_the_cause_is_overlap_where_the_job_was_busy_at_the_slot(world: World) -> None:
    world.apply(every("tick", 10), jobs=[python("report", overlap="queue")])
    node = world.node()
    world.pass_time(10)
    (first,) = node.turn()
    for _ in range(9):
        world.pass_time(10)
        assert node.turn() == []
    node.finish(first)
    node.work()
    assert cause(world) == "overlap"


def test_the_cause_is_database_down_where_the_node_could_not_reach_it(world: World) -> None:
    world.apply(every("tick", 10))
    node = world.node()
    node.parts.who.outages.append((world.time, world.time + 60_000_000))
    world.pass_time(95)
    world.hear()
    node.work()
    assert cause(world) == "database_down"


def test_the_cause_is_clock_step_where_the_databases_clock_went_past_the_slot_at_once(world: World) -> None:
    world.apply(every("tick", 600))
    node = world.node()
    node.work()
    world.step_clock(1000)
    world.hear()
    node.work()
    assert cause(world) == "clock_step"


def test_a_clock_that_is_slewed_is_no_clock_step(world: World) -> None:
    world.apply(every("tick", 600, misfire=MisfireRule(threshold=SECOND)))
    node = world.node()
    world.pass_time(599)
    world.hear()
    node.work()
    world.step_clock(4)
    world.hear()
    node.work()
    assert cause(world) == "no_capacity"


def test_the_cause_is_unknown_where_the_rows_of_the_nodes_of_that_time_are_gone(world: World) -> None:
    world.apply(every("tick", 10))
    first = world.node()
    world.pass_time(10)
    first.work()
    first.kill()
    world.sql("DELETE FROM qsched_nodes")
    world.pass_time(95)
    world.node("two").work()
    assert cause(world) == "unknown"


# -- what follows ------------------------------------------------------------------------------------------------------


def test_a_backlog_of_ten_years_is_one_bounded_decision(world: World) -> None:
    world.apply(every("tick", 1))
    world.pass_time(10 * 365 * 86400)
    world.node().work()
    (row,) = shown(world)
    assert (row["covers"], row["misfire"]["decision"]) == (100_000, "ran the last of at least 100000")
    assert trigger_shown(world)["next_fire_at"] == rfc3339(world.time + 1_000_000)


def test_a_slot_that_is_late_within_the_threshold_is_late_and_no_misfire(world: World) -> None:
    """B02: a node that stalls for ten seconds runs the hourly job, late."""
    world.apply(every("hourly", 3600))
    node = world.node()
    world.pass_time(3600 + 9.7)
    world.hear()
    node.work()
    (row,) = shown(world)
    assert (row["state"], row["reason"], row["late"], row["misfire"]) == ("succeeded", "schedule", 9.7, None)
