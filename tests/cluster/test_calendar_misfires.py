"""Calendars in the store: what is left out is no slot, of a misfire either; a changed one recomputes, and revives nothing."""

import sys
from typing import Any

import pytest
from qsched.scheduler.control import fire, pause
from qsched.triggers.instant import SECOND
from qsched.triggers.trigger import TriggerDefinition

from support.hand_node import START, World, every, once

# The world begins at 09:00 UTC on a Wednesday.
SECOND_MINUTE = {"daily": [["09:01", "09:02"]]}
FIRST_MINUTE = {"daily": [["09:00", "09:01"]]}
MORNING = {"daily": [["08:00", "12:00"]]}


def outside(spec: dict[str, Any], key: str = "tick", **fields: Any) -> TriggerDefinition:
    """A trigger each ten seconds outside the calendar `closed`."""
    return every(key, 10, exclude=("closed",), calendars={"closed": spec}, **fields)


def seconds(world: World, what: str = "scheduled_at") -> list[int]:
    """Seconds since the world's start of each firing's slot."""
    return [(slot - START) // SECOND for (slot,) in world.firings(what)]


def test_what_a_calendar_leaves_out_is_no_slot(world: World) -> None:
    world.apply(outside(SECOND_MINUTE))
    world.node()
    world.live(140, 1)
    assert seconds(world) == [10, 20, 30, 40, 50, 120, 130, 140]
    assert set(world.firings("covers, misfire_policy")) == {(1, None)}


def test_fire_once_runs_the_last_slot_that_is_not_left_out(world: World) -> None:
    world.apply(outside(SECOND_MINUTE))
    world.pass_time(115)  # quartz #488: what a misfire fires asks the calendar, too
    world.node().work()
    assert world.firings("scheduled_at, reason, covers") == [(START + 50 * SECOND, "misfire", 5)]
    assert world.clock_of("tick", "next_fire_at, misfires") == (START + 120 * SECOND, 5)


def test_fire_all_runs_each_slot_that_is_not_left_out(world: World) -> None:
    from qsched.triggers.misfire import MisfireRule

    world.apply(outside(SECOND_MINUTE, misfire=MisfireRule("fire_all")))
    world.pass_time(135)
    world.node()
    world.live(5)
    assert seconds(world) == [10, 20, 30, 40, 50, 120, 130, 140]


def test_a_fire_by_hand_asks_no_calendar(world: World) -> None:
    world.apply(outside(MORNING))
    fire(world.store, "tick")
    world.node().work()
    assert world.firings("reason, state") == [("manual", "succeeded")]


def test_a_changed_calendar_recomputes_from_now_and_fires_nothing_of_what_passed(world: World) -> None:
    world.apply(outside(MORNING))
    world.node()
    assert world.clock_of("tick", "next_fire_at") == (START + 3 * 3600 * SECOND,)
    world.live(45, 1)
    world.apply(outside(FIRST_MINUTE))
    assert world.clock_of("tick", "next_fire_at") == (START + 60 * SECOND,)
    world.live(30, 1)
    assert seconds(world) == [60, 70]


def test_a_changed_calendar_ends_no_pause(world: World) -> None:
    world.apply(outside(MORNING))
    pause(world.store, ["tick"], reason="stocktaking")
    world.apply(outside(FIRST_MINUTE))
    assert world.clock_of("tick", "next_fire_at, next_run_at") == (START + 60 * SECOND, None)
    world.node()
    world.live(90, 1)
    assert world.firings("id") == []


def test_a_changed_calendar_revives_no_trigger_that_is_done(world: World) -> None:
    def ends(spec: dict[str, Any]) -> tuple[TriggerDefinition, ...]:
        closed = {"exclude": ("closed",), "calendars": {"closed": spec}}
        return once("once", 5, **closed), outside(spec, "twice", max_fires=2)

    world.apply(*ends(SECOND_MINUTE))
    world.node()
    world.live(30, 1)
    assert seconds(world) == [5, 10, 20]
    world.apply(*ends(MORNING))  # quartznet #2053: one without a next slot misfired when its calendar changed
    world.live(90, 1)
    assert seconds(world) == [5, 10, 20]
    for key in ("once", "twice"):
        assert world.sql(
            "SELECT state FROM qsched_triggers WHERE cluster = ? AND name = ?", world.store.cluster_id, key
        ) == [("done",)]
        assert world.clock_of(key, "next_fire_at, misfires") == (None, 0)


def test_a_slot_rolls_to_the_next_day_that_is_not_left_out_and_fires_there_once(world: World) -> None:
    weekend = {"weekly": ["thu", "fri", "sat", "sun"]}
    daily = TriggerDefinition(
        *("daily", "report", {"cron": "30 9 * * *"}), exclude=("closed",), calendars={"closed": weekend},
        on_excluded="next",
    )  # fmt: skip
    world.apply(daily)
    node = world.node()
    for _ in range(24 * 8):
        world.pass_time(3600)
        node.work()
    days = [(slot - START) // (86_400 * SECOND) for (slot,) in world.firings("scheduled_at")]
    assert days == [0, 5, 6, 7]  # Wednesday; Monday, with what rolled there; Tuesday; Wednesday


def test_where_the_holidays_package_is_missing_a_trigger_waits_for_one_who_has_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.apply(outside({"holidays": {"country": "TR"}}))
    monkeypatch.setitem(sys.modules, "holidays", None)
    world.node("poor")
    world.live(30, 1)
    assert world.firings("id") == []
    state = world.sql("SELECT state FROM qsched_triggers WHERE cluster = ?", world.store.cluster_id)
    said = world.sql("SELECT undecidable FROM qsched_nodes WHERE cluster = ?", world.store.cluster_id)
    assert state == [("waiting",)]
    assert "qsched[holidays]" in str(said)
    monkeypatch.undo()
    world.live(70, 1)
    assert 30 in seconds(world) or seconds(world)[0] > 30
    assert len(seconds(world)) >= 2
