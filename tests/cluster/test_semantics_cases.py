"""What users of other schedulers lost by late, long, paused and drifting triggers, on each store (B02, B18, B32, B62).

Their neighbours: deploys (B19) in test_restart_slots, early wake-ups (B25) in test_protocol_clock, retries beside slots (B46)
in test_retry_cases, misfire rows (B02 a) in test_misfire_table.
"""

import pytest
from qsched.scheduler.control import fire, pause, resume
from qsched.scheduler.store import firing_reports
from qsched.scheduler.store.firing_reports import Wanted
from qsched.triggers.instant import DAY, HOUR, MINUTE
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.trigger import TriggerDefinition

from support.hand_node import START, HandNode, World, every, once, python
from support.slots import slots


def minutely() -> TriggerDefinition:
    return TriggerDefinition("tick", "report", {"cron": "* * * * *"})


def starts(world: World) -> list[int]:
    return [row[0] for row in world.firings("scheduled_at", "started_at IS NOT NULL")]


def pass_on(world: World, node: HandNode, seconds: float) -> None:
    """Let time pass, and the node do all that is due then."""
    world.pass_time(seconds)
    world.hear()
    node.work()


# -- a crowd at one instant, and few places (B02) ------------------------------------------------------------------------


def crowd(world: World, rule: MisfireRule, number: int = 80, capacity: int = 4) -> None:
    """So many triggers due at once; each round of what fits takes four and a half seconds."""
    world.apply(*(once(f"t{n:03}", 10, misfire=rule) for n in range(number)))
    node = world.node(capacity=capacity)
    world.pass_time(10)
    while node.turn():
        world.pass_time(4.5)
        node.run()
        world.hear()


def test_of_a_crowd_that_does_not_fit_in_time_all_run_though_the_last_are_misfires(world: World) -> None:
    crowd(world, MisfireRule("fire_once"))
    rows = world.firings("state, reason, covers")
    assert len(rows) == 80
    assert {(row[0], row[2]) for row in rows} == {("succeeded", 1)}
    assert {row[1] for row in rows} == {"schedule", "misfire"}


def test_of_a_crowd_whose_late_ones_are_skipped_each_has_a_row_that_says_what_became_of_it(
    world: World,
) -> None:
    crowd(world, MisfireRule("skip"))
    rows = world.firings("state, misfire_cause, misfire_policy")
    assert len(rows) == 80
    skipped = [row for row in rows if row[0] == "skipped"]
    assert 0 < len(skipped) < 80
    assert {row[1:] for row in skipped} == {("no_capacity", "skip")}
    assert {row for row in rows if row[0] != "skipped"} == {("succeeded", None, None)}


# -- more than a hundred missed starts (B18) -----------------------------------------------------------------------------


def test_three_days_without_a_node_are_one_run_and_then_it_goes_on_each_minute(world: World) -> None:
    world.apply(minutely())
    world.pass_time(3 * 86400)
    node = world.node()
    node.work()
    (row,) = firing_reports.firings(world.store, Wanted())
    assert (row["state"], row["covers"]) == ("succeeded", 3 * 1440)
    for _ in range(3):
        pass_on(world, node, 60)
    assert starts(world)[1:] == slots(world.time - 2 * MINUTE, world.time, MINUTE)


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_a_run_of_eight_hours_leaves_rows_for_what_it_held_up_and_the_next_minute_fires(
    world: World, overlap: str
) -> None:
    world.apply(minutely(), jobs=[python("report", overlap=overlap)])
    node = world.node()
    world.pass_time(60)
    (long,) = node.turn()
    for _ in range(8):
        world.pass_time(3600)
        world.hear()
        assert node.turn() == []
    node.finish(long)
    node.work()  # at its end, and not a poll later (B62)
    covered = sum(row[0] for row in world.firings("covers"))
    assert covered == 1 + 480
    assert {row[0] for row in world.firings("misfire_cause", "misfire_cause IS NOT NULL")} == {"overlap"}
    ended = world.time
    pass_on(world, node, 60)
    assert starts(world)[-1] == ended + MINUTE
    assert len(starts(world)) == (3 if overlap == "queue" else 2)


def test_thirty_days_of_pause_are_one_row_and_no_run_and_then_the_next_minute_fires(world: World) -> None:
    world.apply(minutely())
    node = world.node()
    pause(world.store, ["tick"])
    pass_on(world, node, 30 * 86400)
    assert starts(world) == []
    (bill,) = resume(world.store, ["tick"])
    assert bill.slots == 30 * 1440
    node.work()
    pass_on(world, node, 60)
    rows = world.firings("state, reason, covers")
    assert rows == [("skipped", "paused", 30 * 1440), ("succeeded", "schedule", 1)]


# -- intervals keep their grid (B32) -------------------------------------------------------------------------------------


def test_six_hours_stay_on_their_grid_however_often_the_node_begins_anew(world: World) -> None:
    world.apply(every("grid", 6 * 3600))
    for number in range(17):  # up four hours, down twenty minutes, for three days
        node = world.node(f"n{number}")
        for _ in range(4):
            pass_on(world, node, 3600)
        node.die()
        world.pass_time(1200)
    found = starts(world)
    assert found == list(range(START + 6 * HOUR, found[-1] + 1, 6 * HOUR))
    assert len(found) == 12
    assert all(row == (1,) for row in world.firings("covers"))


def test_a_long_body_and_a_manual_start_move_no_slot(world: World) -> None:
    world.apply(every("quarter", 900))
    node = world.node()
    for number in range(4):
        world.pass_time(900 if number == 0 else 810)
        world.hear()
        (request,) = node.turn()
        world.pass_time(90)
        if number == 1:
            fire(world.store, "quarter")
            node.turn()
        node.finish(request)
        node.run()
    rows = world.firings("scheduled_at, started_at", "reason = 'schedule'")
    assert rows == [(slot, slot) for slot in slots(START + 1, START + HOUR, 15 * MINUTE)]
    assert len(world.firings("id", "reason = 'manual'")) == 1


def test_seven_days_are_so_many_hours_across_a_change_of_clocks(world: World) -> None:
    world.apply(every("week", 7 * 86400, time_zone="Europe/Berlin"))
    node = world.node()
    for _ in range(16):  # 10 January to the end of April
        pass_on(world, node, 7 * 86400)
    assert starts(world) == list(range(START + 7 * DAY, START + 112 * DAY + 1, 7 * DAY))


# -- a backlog is decided at once (B62) ----------------------------------------------------------------------------------


def test_hundreds_of_overdue_triggers_are_decided_in_one_round_and_what_is_due_now_does_not_wait(
    world: World,
) -> None:
    world.apply(
        *(every(f"old{n:03}", 3600, misfire=MisfireRule("skip")) for n in range(300)),
        *(once(f"now{n}", 2 * 3600 + 60) for n in range(3)),
    )
    world.pass_time(2 * 3600 + 61)
    node = world.node()
    node.turn()
    assert len(world.firings("id", "reason = 'misfire' AND state = 'skipped'")) == 300
    assert len(node.taken) == 3
