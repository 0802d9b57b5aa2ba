"""What is wrong with one trigger, job or firing stays its own trouble: told once, shown with its reason, and over when mended."""

import json
from typing import Any

import pytest
from qsched.scheduler import deciding
from qsched.scheduler.control import fire
from qsched.scheduler.store import reports
from qsched.triggers.decide import Decision
from qsched.triggers.decide import decide as real_decide
from qsched.triggers.trigger import SPEC_VERSION

from support.hand_node import HandNode, World, every, once


def error_of(world: World, name: str) -> tuple[Any, ...]:
    return world.clock_of(name, "t.state, t.error_kind, t.error")


def spoil(world: World, table: str, name: str, **columns: Any) -> None:
    """Write into a definition's row what no apply would."""
    sets = ", ".join(f"{column} = ?" for column in columns)
    world.sql(
        f"UPDATE qsched_{table} SET {sets} WHERE cluster = ? AND name = ?",
        *columns.values(),
        world.store.cluster_id,
        name,
    )


def new_hash(world: World, name: str) -> None:
    """So that no node trusts what it has compiled."""
    world.sql(
        "UPDATE qsched_trigger_clocks SET definition_hash = 1 WHERE id = ?", world.clock_of(name, "t.id")[0]
    )


def by_seconds(world: World, node: HandNode, seconds: int, step: int = 1) -> None:
    """Let time pass as nodes live it."""
    for _ in range(0, seconds, step):
        world.pass_time(step)
        node.work()
        node.upkeep.step()


# -- poison ----------------------------------------------------------------------------------------------------------

POISON = {
    "no JSON": {"spec": "{"},
    "no mapping": {"spec": "[1, 2]"},
    "bad cron": {"spec": json.dumps({"v": 1, "job": "report", "schedule": {"cron": "61 * * * *"}})},
    "no schedule": {"spec": json.dumps({"v": 1, "job": "report"})},
    "bad misfire": {
        "spec": json.dumps({"v": 1, "job": "report", "schedule": {"cron": "* * * * *"}, "misfire": {"policy": "x"}})
    },
}  # fmt: skip


@pytest.mark.parametrize("spec", POISON.values(), ids=POISON.keys())
def test_a_definition_nobody_can_read_is_in_error_at_once(
    world: World, spec: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    world.apply(every("bad", 10), every("good", 10))
    spoil(world, "triggers", "bad", **spec)
    new_hash(world, "bad")
    node = world.node()
    world.pass_time(10)
    node.work()
    state, kind, reason = error_of(world, "bad")
    assert (state, kind) == ("error", "poison")
    assert reason
    assert world.firings("trigger_name, state") == [("good", "succeeded")]
    by_seconds(world, node, 30, step=10)
    assert caplog.text.count("trigger.error ") == 1
    assert len(world.firings("id")) == 4
    shown = {item["name"]: item for item in reports.triggers(world.store)}
    assert (shown["bad"]["state"], shown["bad"]["error"]) == ("error", reason)
    assert shown["bad"]["next_fire_at"] is None


def test_poison_is_cleared_by_applying_it_again(world: World) -> None:
    world.apply(every("bad", 10))
    spoil(world, "triggers", "bad", spec="{")
    new_hash(world, "bad")
    node = world.node()
    world.pass_time(10)
    node.work()
    assert error_of(world, "bad")[0] == "error"
    world.pass_time(25)
    world.apply(every("bad", 10))
    node.work()
    assert error_of(world, "bad") == ("waiting", None, None)
    world.pass_time(5)
    world.hear()
    node.work()
    assert world.firings("reason, state, covers") == [
        ("error", "skipped", 1),  # the slot that is known; how many followed, nobody can read any more
        ("schedule", "succeeded", 1),
    ]


def test_a_trigger_that_waits_without_a_slot_is_poison(world: World) -> None:
    world.apply(every("bad", 10), every("good", 10))
    world.sql(
        "UPDATE qsched_trigger_clocks SET next_fire_at = NULL WHERE id = ?",
        world.clock_of("bad", "t.id")[0],
    )
    node = world.node()
    world.pass_time(10)
    node.work()
    assert error_of(world, "bad")[:2] == ("error", "poison")
    assert world.firings("trigger_name") == [("good",)]


def test_a_trigger_whose_job_cannot_be_read_is_poison(world: World) -> None:
    world.functions["other"] = lambda: None
    world.apply(every("bad", 10), every("good", 10, job="other"))
    spoil(world, "jobs", "report", spec="{", updated_at=1)
    node = world.node()
    world.pass_time(10)
    node.work()
    assert error_of(world, "bad")[:2] == ("error", "poison")
    assert world.firings("trigger_name, state") == [("good", "succeeded")]


# -- undecidable -----------------------------------------------------------------------------------------------------


def newer_format(world: World, name: str) -> None:
    """A definition that a newer node wrote."""
    spoil(world, "triggers", name, spec_version=SPEC_VERSION + 1)
    new_hash(world, name)


def test_what_the_only_node_cannot_decide_is_in_error_after_a_minute_and_clears_itself(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.apply(every("bad", 10), every("good", 10))
    newer_format(world, "bad")
    node = world.node()
    world.pass_time(10)
    node.work()
    by_seconds(world, node, 59)
    assert error_of(world, "bad")[0] == "waiting"
    by_seconds(world, node, 2)
    state, kind, reason = error_of(world, "bad")
    assert (state, kind) == ("error", "undecidable")
    assert "update qsched" in reason
    assert len(world.firings("id", "trigger_name = 'good'")) == 7
    assert caplog.text.count("trigger.undecidable") == 1
    assert caplog.text.count("trigger.error ") == 1
    spoil(world, "triggers", "bad", spec_version=SPEC_VERSION)
    by_seconds(world, node, 80, step=5)
    assert error_of(world, "bad") == ("waiting", None, None)
    rows = world.firings("reason, state", "trigger_name = 'bad'")
    assert rows[0] == ("error", "skipped")
    assert ("schedule", "succeeded") in rows


def test_what_another_node_can_decide_is_left_to_it(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.apply(every("tick", 10))
    one, two = world.node("one"), world.node("two")
    broken = [True]

    def decide(*arguments: Any, **options: Any) -> Decision | None:
        if broken[0]:
            raise RuntimeError("a holidays extra that is missing here")
        return real_decide(*arguments, **options)

    monkeypatch.setattr(deciding, "decide", decide)
    for _ in range(12):
        world.pass_time(10)
        world.hear()
        broken[0] = True
        assert one.turn() == []
        one.upkeep.step()
        broken[0] = False
        assert len(two.work()) == 1
    assert error_of(world, "tick")[0] == "waiting"
    assert caplog.text.count("trigger.undecidable") == 1
    ((said,),) = world.sql(
        "SELECT undecidable FROM qsched_nodes WHERE incarnation = ?", one.parts.who.incarnation
    )
    assert "holidays" in said


def test_what_no_live_node_can_decide_is_in_error_as_soon_as_all_have_said_so(world: World) -> None:
    world.apply(every("bad", 10))
    newer_format(world, "bad")
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    one.work()
    one.upkeep.step()
    assert error_of(world, "bad")[0] == "waiting"
    two.work()
    world.hear()
    two.upkeep.step()
    assert error_of(world, "bad")[:2] == ("error", "undecidable")


# -- unloadable ------------------------------------------------------------------------------------------------------


def test_a_job_that_one_node_cannot_load_is_left_to_the_other(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.apply(every("tick", 10))
    one, two = world.node("one", cannot=["report"]), world.node("two")
    for _ in range(7):
        world.pass_time(10)
        world.hear()
        assert one.turn() == []
        assert len(two.work()) == 1
    assert {row[0] for row in world.firings("state")} == {"succeeded"}
    assert caplog.text.count("job.unloadable") == 1
    ((said,),) = world.sql(
        "SELECT unloadable FROM qsched_nodes WHERE incarnation = ?", one.parts.who.incarnation
    )
    assert "not on this node" in said


def test_a_job_nobody_can_load_for_ten_minutes_puts_its_trigger_in_error_until_somebody_can(
    world: World,
) -> None:
    world.apply(every("tick", 60))
    one, two = world.node("one", cannot=["report"]), world.node("two", cannot=["report"])

    def minutes(count: int) -> None:
        for _ in range(count * 4):
            world.pass_time(15)
            world.hear()
            for node in (one, two):
                node.work()
                node.upkeep.step()

    minutes(10)
    assert error_of(world, "tick")[0] == "waiting"
    minutes(2)
    state, kind, reason = error_of(world, "tick")
    assert (state, kind) == ("error", "unloadable")
    assert "report" in reason
    registry: Any = two.parts.definitions.registry
    registry.cannot.clear()
    minutes(3)
    assert error_of(world, "tick") == ("waiting", None, None)
    rows = world.firings("reason, state")
    assert rows[0] == ("error", "skipped")
    assert ("schedule", "succeeded") in rows


def test_a_node_that_comes_anew_gives_an_unloadable_job_its_ten_minutes(world: World) -> None:
    """Another trigger of the job is in error from before; this one has only just met a node."""
    world.apply(every("old", 60), every("young", 60))
    spoil(world, "triggers", "old", state="error", error_kind="unloadable", error="x")
    world.sql(
        "UPDATE qsched_trigger_clocks SET next_run_at = NULL WHERE id = ?", world.clock_of("old", "t.id")[0]
    )
    node = world.node(cannot=["report"])
    world.pass_time(60)
    world.hear()
    node.upkeep.step()
    node.work()
    world.pass_time(1)
    node.upkeep.step()
    assert error_of(world, "young")[0] == "waiting"


# -- bad firings -----------------------------------------------------------------------------------------------------


def test_a_page_of_firings_that_cannot_run_hides_nobody(world: World) -> None:
    """B09: more of them than a node has places for, all before the good ones."""
    world.functions["broken"] = lambda: None
    world.apply(every("bad", 3600, job="broken"), every("good", 3600))
    for _ in range(30):
        fire(world.store, "bad")
    spoil(world, "jobs", "broken", spec="{", updated_at=1)
    world.pass_time(1)
    wanted = [fire(world.store, "good") for _ in range(3)]
    node = world.node(capacity=4)
    node.work()
    assert [row[0] for row in world.firings("id", "state = 'succeeded'")] == wanted
    assert {row[0] for row in world.firings("state", "trigger_name = 'bad'")} == {"due"}


def test_a_firing_whose_data_cannot_be_read_fails_with_the_reason(world: World) -> None:
    world.apply(every("tick", 3600))
    bad, good = fire(world.store, "tick"), fire(world.store, "tick")
    world.sql("UPDATE qsched_firings SET data = '{' WHERE id = ?", bad)
    world.node().work()
    found = {row[0]: row[1:] for row in world.firings("id, state, note")}
    assert found[good][0] == "succeeded"
    assert found[bad][0] == "failed"
    assert "data cannot be read" in found[bad][1]


# -- all of it at once -----------------------------------------------------------------------------------------------


def test_a_hundred_of_each_kind_of_bad_trigger_delay_twenty_good_ones_by_no_second(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.functions["broken"] = world.functions["gone"] = lambda: None
    kinds = ("spec", "version", "slot", "job", "unloadable")
    jobs = {"job": "broken", "unloadable": "gone"}
    bad = [
        once(f"{kind}{number:03}", 5, job=jobs.get(kind, "report"), priority=10)
        for kind in kinds
        for number in range(100)
    ]
    world.apply(*bad, *(every(f"good{number:02}", 10) for number in range(20)))
    cluster = world.store.cluster_id
    like = "cluster = ? AND name LIKE ?"
    world.sql(f"UPDATE qsched_triggers SET spec = '{{' WHERE {like}", cluster, "spec%")
    world.sql(f"UPDATE qsched_triggers SET spec_version = 99 WHERE {like}", cluster, "version%")
    spoil(world, "jobs", "broken", spec="{", updated_at=1)
    world.sql(
        "UPDATE qsched_trigger_clocks SET next_fire_at = NULL WHERE id IN"
        f" (SELECT id FROM qsched_triggers WHERE {like})",
        cluster,
        "slot%",
    )
    node = world.node(cannot=["gone"])
    world.pass_time(10)
    node.work()
    # In one series of takes, without a wait between them.
    good = world.firings("trigger_name, state, started_at")
    assert sorted(good) == [(f"good{number:02}", "succeeded", world.time) for number in range(20)]
    by_seconds(world, node, 620, step=10)
    states = world.sql(
        "SELECT error_kind, COUNT(*) FROM qsched_triggers WHERE cluster = ? AND state = 'error' GROUP BY error_kind",
        cluster,
    )
    assert dict(states) == {"poison": 300, "undecidable": 100, "unloadable": 100}
    assert len(world.firings("id")) == 20 * 63
    assert caplog.text.count("trigger.undecidable") == 100
    assert caplog.text.count("trigger.error ") == 500
    assert caplog.text.count("job.unloadable") == 1
