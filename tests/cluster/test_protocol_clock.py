"""Time: never early, never twice, whatever a host's clock, the database's or a session's zone say (B25, B39)."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qsched.scheduler.store.database import Store
from qsched.triggers.instant import SECOND
from qsched.triggers.trigger import TriggerDefinition

from support.hand_node import START, HandNode, World, every, once
from support.slots import slots


def at_the_hour(world: World) -> HandNode:
    """A node with an hourly trigger, one second before its first slot."""
    world.apply(every("hourly", 3600))
    node = world.node()
    world.pass_time(3599)
    world.hear()
    return node


@pytest.mark.parametrize("early", [0.003, 0.999999])
def test_a_node_that_wakes_early_runs_nothing_before_the_slot_and_then_once(
    world: World, early: float
) -> None:
    node = at_the_hour(world)
    world.pass_time(1 - early)
    assert node.turn() == []
    world.pass_time(early)
    assert len(node.work()) == 1
    assert node.turn() == []
    ((slot, started),) = world.firings("scheduled_at, started_at")
    assert slot == started == START + 3600 * SECOND
    assert world.clock_of("hourly", "c.next_fire_at") == (START + 7200 * SECOND,)


@pytest.mark.parametrize("wrong", [-7200, -2, -0.003, 0.003, 2, 7200])
def test_a_host_whose_clock_is_wrong_is_neither_early_nor_late(world: World, wrong: float) -> None:
    node = at_the_hour(world)
    node.clock.set_wrong(wrong)
    for _ in range(3):
        assert node.turn() == []
    world.pass_time(1)
    assert len(node.work()) == 1
    assert world.firings("started_at") == [(START + 3600 * SECOND,)]


@pytest.mark.parametrize("step", [-3600, -10, 10, 3600])
def test_a_host_clock_that_steps_between_looks_fires_nothing_early_or_twice(
    world: World, step: float
) -> None:
    world.apply(every("tick", 10))
    node = world.node()
    for number in range(6):
        world.pass_time(10)
        node.clock.set_wrong(step if number % 2 else 0)
        node.work()
        node.work()  # a look that a wrong guess made in vain is made again
    rows = world.firings("scheduled_at, started_at")
    assert rows == [(slot, slot) for slot in slots(START + 1, START + 60 * SECOND, 10 * SECOND)]


@pytest.mark.parametrize("back", [2, 15, 3600])
def test_a_database_clock_that_steps_back_delays_and_never_repeats(world: World, back: int) -> None:
    world.apply(every("tick", 10))
    node = world.node()
    for _ in range(3):
        world.pass_time(10)
        world.hear()
        node.work()
    world.step_clock(-back)
    for _ in range(back + 20):
        world.pass_time(1 if back < 100 else 60)
        world.hear()
        node.work()
        if world.time >= START + 60 * SECOND:
            break
    rows = world.firings("scheduled_at, started_at, state")
    assert len({row[0] for row in rows}) == len(rows)
    assert all(row[1] >= row[0] for row in rows)


def test_the_next_slot_comes_from_the_slot_and_never_from_now(world: World) -> None:
    world.apply(every("tick", 1))
    node = world.node()
    late = (0.004, 0.25, 0.9, 0.000001, 0.3)
    for number in range(50):
        world.pass_time(1 + late[number % 5] - late[(number - 1) % 5])
        node.work()
    found = [row[0] for row in world.firings("scheduled_at")]
    assert found == slots(START + 1, found[-1], SECOND)
    assert all(slot % SECOND == 0 for slot in found)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 40_000_000), min_size=1, max_size=12))
def test_however_irregularly_nodes_look_every_slot_has_its_row(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("looks")
    world = World(f"sqlite:///{folder / 'qsched.db'}")
    world.apply(every("tick", 7))
    nodes = [world.node("one"), world.node("two")]
    for number, gap in enumerate(gaps):
        world.pass_time(gap / SECOND)
        world.hear()
        nodes[number % 2].work()
    covered = []
    for slot, first, covers, started in world.firings("scheduled_at, first_scheduled_at, covers, started_at"):
        span = [
            START + 7 * SECOND * number
            for number in range(1, 100)
            if first <= START + 7 * SECOND * number <= slot
        ]
        assert len(span) == covers
        assert started >= slot
        covered += span
    world.close()
    assert covered == [
        START + 7 * SECOND * number for number in range(1, (world.time - START) // (7 * SECOND) + 1)
    ]


# -- bounds ----------------------------------------------------------------------------------------------------------


def test_max_fires_ends_the_trigger_after_so_many_runs(world: World) -> None:
    world.apply(every("tick", 10, max_fires=3))
    node = world.node()
    for _ in range(6):
        world.pass_time(10)
        node.work()
    assert world.firings("state") == [("succeeded",)] * 3
    assert world.clock_of("tick", "t.state, c.fires, c.next_fire_at, c.next_run_at") == (
        "done",
        3,
        None,
        None,
    )


def test_max_fires_is_kept_when_more_slots_are_due_than_it_allows(world: World) -> None:
    world.apply(every("tick", 10, max_fires=3))
    world.pass_time(55)
    world.node().work()
    assert world.firings("scheduled_at") == [(START + number * 10 * SECOND,) for number in (1, 2, 3)]
    assert world.clock_of("tick", "t.state") == ("done",)


def test_a_slot_at_the_end_fires_and_none_after_it(world: World) -> None:
    world.apply(
        every("tick", 10, end_at=START + 30 * SECOND), every("before", 10, end_at=START + 30 * SECOND - 1)
    )
    node = world.node()
    for _ in range(5):
        world.pass_time(10)
        node.work()
    assert len(world.firings("id", "trigger_name = 'tick'")) == 3
    assert len(world.firings("id", "trigger_name = 'before'")) == 2
    assert world.clock_of("tick", "t.state") == world.clock_of("before", "t.state") == ("done",)


def test_a_slot_missed_past_the_end_is_still_decided(world: World) -> None:
    world.apply(once("at", 10), every("tick", 10, end_at=START + 30 * SECOND))
    world.pass_time(600)
    world.node().work()
    rows = world.firings("trigger_name, state, covers, reason")
    assert sorted(rows) == [("at", "succeeded", 1, "misfire"), ("tick", "succeeded", 3, "misfire")]
    assert world.clock_of("at", "t.state") == world.clock_of("tick", "t.state") == ("done",)


# -- zones -----------------------------------------------------------------------------------------------------------


def test_the_sessions_zone_changes_no_instant(server_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """B39: whatever zone the server would use, instants are microseconds since the epoch."""
    world = server_world
    store = Store(world.url, cluster=world.cluster)
    now = store.read("now", lambda tx: tx.now())
    store.close()
    zone = "SET TIME ZONE 'America/New_York'" if "postgres" in world.url else "SET time_zone = '-05:00'"
    other = Store(world.url, cluster=world.cluster)

    def shifted(tx: object) -> int:
        tx.run(zone)  # type: ignore[attr-defined]
        return int(tx.now())  # type: ignore[attr-defined]

    shown = other.transaction("shifted", shifted)
    other.close()
    assert 0 <= shown - now < 60 * SECOND


def test_a_zoned_trigger_fires_at_the_same_instant_on_every_host(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    trigger = TriggerDefinition("morning", "report", {"cron": "30 4 * * *"}, time_zone="America/New_York")
    world.apply(trigger)
    found: list[int] = []
    for zone in ("Asia/Tokyo", "UTC"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        node = world.node(zone)
        world.pass_time(86400 if found else 1800)
        world.hear()
        node.work()
        found.append(world.firings("scheduled_at")[-1][0])
    monkeypatch.undo()
    time.tzset()
    assert found == [int(datetime(2024, 1, day, 9, 30, tzinfo=UTC).timestamp()) * SECOND for day in (10, 11)]
