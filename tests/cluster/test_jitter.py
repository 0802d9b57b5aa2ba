"""Jitter: what runs comes up to so much later than its slot, anew each time; the slots stay where they are."""

from dataclasses import replace

from qsched.scheduler.control import pause, resume
from qsched.scheduler.store.sweep_rows import look_for_wrong_clocks
from qsched.triggers.instant import SECOND

from support.hand_node import START, World, every

TEN = 10 * SECOND


def test_a_firing_runs_up_to_its_jitter_after_its_slot_never_before_and_slots_stay_on_their_grid(
    world: World,
) -> None:
    world.apply(every("tick", 10, jitter=5 * SECOND))
    node = world.node()
    for _ in range(12 * 40):
        world.pass_time(0.25)
        node.work()
    ran = world.firings("scheduled_at, started_at, reason")
    assert len(ran) in (11, 12)
    assert all((slot - START) % TEN == 0 and reason == "schedule" for slot, _, reason in ran)
    late = [started - slot for slot, started, _ in ran]
    assert all(0 <= each < 5 * SECOND + SECOND // 2 for each in late)
    assert len({each // (SECOND // 2) for each in late}) > 3


def test_lateness_counts_from_the_jittered_time(world: World) -> None:
    world.apply(every("tick", 3600, jitter=30 * 60 * SECOND))
    (slot, run_at) = world.clock_of("tick", "next_fire_at, next_run_at")
    assert slot < run_at <= slot + 30 * 60 * SECOND
    world.pass_time((run_at - START) / SECOND - 0.001)
    node = world.node()
    node.work()
    assert world.firings("id") == []
    world.pass_time(50)
    node.work()
    assert world.firings("scheduled_at, reason, misfire_policy") == [(slot, "schedule", None)]


def test_jitter_larger_than_the_gap_never_reaches_the_next_slot(world: World) -> None:
    world.apply(every("tick", 1, jitter=3600 * SECOND))
    for _ in range(20):
        slot, run_at = world.clock_of("tick", "next_fire_at, next_run_at")
        assert slot <= run_at < slot + SECOND
        world.pass_time(1)
        world.node().work()


def test_what_runs_last_stays_before_the_triggers_end(world: World) -> None:
    end = START + TEN + SECOND
    world.apply(every("tick", 10, jitter=9 * SECOND, end_at=end))
    slot, run_at = world.clock_of("tick", "next_fire_at, next_run_at")
    assert slot == START + TEN
    assert slot <= run_at <= end


def test_a_pause_and_a_sweep_leave_jitter_as_it_was_drawn(world: World) -> None:
    world.apply(every("tick", 600, jitter=300 * SECOND))
    drawn = world.clock_of("tick", "next_fire_at, next_run_at")
    pause(world.store, ["tick"])
    assert world.clock_of("tick", "next_run_at") == (None,)
    resume(world.store, ["tick"])
    assert world.clock_of("tick", "next_fire_at, next_run_at") == drawn
    wrong = world.store.read("look", lambda tx: look_for_wrong_clocks(tx, 0, tx.now())[0])
    assert wrong == set()


def test_a_run_time_beyond_its_jitter_is_found_and_put_right(world: World) -> None:
    world.apply(every("tick", 600, jitter=60 * SECOND))
    drawn = world.clock_of("tick", "next_fire_at, next_run_at")
    world.sql("UPDATE qsched_trigger_clocks SET next_run_at = next_run_at + 300000000 WHERE cluster = "
              f"{world.store.cluster_id}")  # fmt: skip
    world.node()
    world.live(30)
    assert world.clock_of("tick", "next_fire_at, next_run_at") == drawn


def test_jitter_is_no_part_of_when_so_its_edit_moves_no_slot(world: World) -> None:
    before = every("tick", 600, jitter=60 * SECOND)
    world.apply(before)
    slot = world.clock_of("tick", "next_fire_at")
    world.pass_time(20)
    world.apply(replace(before, jitter=None))
    assert world.clock_of("tick", "next_fire_at") == slot
    assert world.firings("id") == []
