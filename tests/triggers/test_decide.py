"""DESIGN §7's table row by row, overlap, max_fires, jitter, and what a trigger owes when it is stopped."""

import tracemalloc
from collections.abc import Callable
from time import process_time

import pytest
from qsched.triggers.cron import Cron
from qsched.triggers.decide import Decision, Due, Row, counted, decide, is_misfired, owed, wants_cancel
from qsched.triggers.errors import ScheduleError
from qsched.triggers.instant import DAY, HOUR, MINUTE, SECOND
from qsched.triggers.interval import Every
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.schedule import COUNT_LIMIT, Schedule

from support.schedules import Grid, Listed

POLICIES = ("fire_once", "skip", "fire_all")


def due_every(
    seconds: int, policy: str = "fire_once", overlap: str = "allow", first: int | None = None
) -> Due:
    slot = seconds * SECOND if first is None else first
    return Due(Grid(seconds * SECOND), MisfireRule(policy), overlap, slot, slot)


def missed(slots: int, policy: str = "fire_once", overlap: str = "allow") -> tuple[Due, int]:
    """A 10-s trigger with so many undecided slots, looked at 5 s after the last one."""
    return due_every(10, policy, overlap), slots * 10 * SECOND + 5 * SECOND


def decided(due: Due, now: int, *, busy: bool = False, capacity: int = 20) -> Decision:
    decision = decide(due, busy=busy, capacity=capacity, now=now)
    assert decision is not None
    return decision


def seconds(rows: tuple[Row, ...]) -> list[tuple[bool, int, int, int]]:
    """(runs, first, last, covers) of each row, in seconds."""
    return [
        (row.runs, row.first_scheduled_at // SECOND, row.scheduled_at // SECOND, row.covers) for row in rows
    ]


@pytest.mark.parametrize("policy", POLICIES)
def test_four_slots_of_which_the_oldest_is_35_s_late_fire_each_on_its_own(policy: str) -> None:
    due, now = missed(4, policy)
    decision = decided(due, now)
    assert seconds(decision.rows) == [
        (True, 10, 10, 1),
        (True, 20, 20, 1),
        (True, 30, 30, 1),
        (True, 40, 40, 1),
    ]
    assert [row.late // SECOND for row in decision.rows] == [35, 25, 15, 5]
    assert {(row.reason, row.policy, row.decision, row.cause) for row in decision.rows} == {
        ("schedule", None, None, None)
    }
    assert (decision.fires, decision.misfires, decision.done) == (4, 0, False)
    assert (decision.next_fire_at, decision.watermark) == (50 * SECOND, 40 * SECOND)


def test_fire_once_runs_the_last_of_nine() -> None:
    due, now = missed(9, "fire_once")
    assert decided(due, now) == Decision(
        rows=(
            Row(
                runs=True,
                reason="misfire",
                scheduled_at=90 * SECOND,
                first_scheduled_at=10 * SECOND,
                covers=9,
                late=85 * SECOND,
                policy="fire_once",
                decision="ran the last of 9",
            ),
        ),
        next_fire_at=100 * SECOND,
        watermark=90 * SECOND,
        fires=1,
        misfires=9,
        done=False,
    )


def test_skip_leaves_one_skipped_row_for_nine_and_needs_no_capacity() -> None:
    due, now = missed(9, "skip")
    decision = decided(due, now, capacity=0)
    (row,) = decision.rows
    assert seconds(decision.rows) == [(False, 10, 90, 9)]
    assert (row.reason, row.policy, row.decision, row.late) == ("misfire", "skip", "skipped 9", 85 * SECOND)
    assert (decision.fires, decision.misfires, decision.next_fire_at) == (0, 9, 100 * SECOND)


def test_fire_all_runs_each_of_nine_oldest_first_and_one_at_a_time() -> None:
    due, now = missed(9, "fire_all")
    decision = decided(due, now, capacity=1)
    assert seconds(decision.rows) == [(True, at, at, 1) for at in range(10, 100, 10)]
    assert {(row.reason, row.policy, row.decision, row.serial) for row in decision.rows} == {
        ("misfire", "fire_all", "ran each of 9", True)
    }
    assert (decision.fires, decision.misfires, decision.next_fire_at) == (9, 9, 100 * SECOND)


def test_fire_all_beyond_its_limit_runs_the_newest_and_skips_the_older_in_one_row() -> None:
    due, now = missed(200, "fire_all")
    decision = decided(due, now)
    skipped, *runs = decision.rows
    assert seconds((skipped,)) == [(False, 10, 1000, 100)]
    assert (skipped.reason, skipped.policy, skipped.decision) == ("misfire", "fire_all", "beyond limit")
    assert seconds(tuple(runs)) == [(True, at, at, 1) for at in range(1010, 2010, 10)]
    assert (decision.fires, decision.misfires) == (100, 200)


def test_fire_all_beyond_its_window_skips_the_older_in_one_row() -> None:
    due, now = missed(60, "fire_all")
    decision = decided(due._replace(rule=MisfireRule("fire_all", window=100 * SECOND)), now)
    assert seconds(decision.rows[:2]) == [(False, 10, 500, 50), (True, 510, 510, 1)]
    assert decision.rows[0].decision == "beyond window"
    assert (decision.fires, decision.misfires) == (10, 60)


def test_a_slot_exactly_as_old_as_the_window_still_runs() -> None:
    due, now = missed(9, "fire_all")
    inside = MisfireRule("fire_all", window=85 * SECOND)
    assert decided(due._replace(rule=inside), now).fires == 9
    single = due_every(3600, "fire_all")._replace(rule=MisfireRule("fire_all", window=2 * MINUTE))
    assert decided(single, HOUR + 2 * MINUTE).fires == 1
    assert decided(single, HOUR + 2 * MINUTE + 1).fires == 0
    both = MisfireRule("fire_all", window=85 * SECOND, limit=8)
    assert decided(due._replace(rule=both), now).rows[0].decision == "beyond limit"


def test_fire_all_with_everything_beyond_its_window_starts_nothing() -> None:
    due, now = missed(9, "fire_all")
    rule = MisfireRule("fire_all", window=SECOND)
    decision = decided(due._replace(rule=rule), now, capacity=0)
    assert seconds(decision.rows) == [(False, 10, 90, 9)]
    assert decision.rows[0].decision == "beyond window"


def test_the_window_bounds_fire_all_only() -> None:
    weekly = due_every(7 * 86400, "fire_once")
    assert decided(weekly, 7 * DAY + 25 * HOUR).rows[0].runs


def test_a_slot_exactly_as_old_as_the_threshold_is_on_time() -> None:
    due = due_every(3600)
    assert not is_misfired(due, now=HOUR + MINUTE)
    assert is_misfired(due, now=HOUR + MINUTE + 1)
    assert decided(due, HOUR + MINUTE).rows[0].reason == "schedule"
    assert decided(due, HOUR + MINUTE + 1).rows[0].reason == "misfire"


def test_a_start_a_second_late_is_no_misfire() -> None:
    decision = decided(due_every(3600, "skip"), HOUR + 1_200_000)
    assert [(row.runs, row.late) for row in decision.rows] == [(True, 1_200_000)]


@pytest.mark.parametrize("overlap", ["allow", "queue", "skip", "cancel"])
@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_decided_before_its_time(policy: str, overlap: str) -> None:
    assert decide(due_every(10, policy, overlap), busy=False, capacity=5, now=10 * SECOND - 1) is None


def test_on_time_slots_beyond_the_capacity_stay_undecided() -> None:
    due, now = missed(4)
    decision = decided(due, now, capacity=3)
    assert (len(decision.rows), decision.next_fire_at, decision.watermark) == (3, 40 * SECOND, 30 * SECOND)


@pytest.mark.parametrize(("slots", "policy"), [(1, "skip"), (9, "fire_once"), (9, "fire_all")])
def test_what_would_start_waits_for_capacity(slots: int, policy: str) -> None:
    due, now = missed(slots, policy)
    assert decide(due, busy=False, capacity=0, now=now) is None


def test_max_fires_counts_rows_that_run_and_ends_the_trigger() -> None:
    due, now = missed(4)
    decision = decided(due._replace(max_fires=5, fires=3), now)
    assert [row.scheduled_at // SECOND for row in decision.rows] == [10, 20]
    assert (decision.fires, decision.next_fire_at, decision.done) == (2, None, True)


def test_a_misfire_that_runs_once_for_nine_slots_counts_as_one_fire() -> None:
    due, now = missed(9)
    assert not decided(due._replace(max_fires=2), now).done
    assert decided(due._replace(max_fires=1), now).done


def test_fire_all_runs_no_more_than_max_fires_leaves() -> None:
    due, now = missed(9, "fire_all")
    decision = decided(due._replace(max_fires=4), now)
    assert seconds(decision.rows) == [(True, at, at, 1) for at in (10, 20, 30, 40)]
    assert (decision.rows[0].decision, decision.done) == ("ran each of 4", True)


def test_a_trigger_without_fires_left_is_done_without_a_row() -> None:
    due, now = missed(3)
    decision = decided(due._replace(max_fires=2, fires=2), now, capacity=0)
    assert (decision.rows, decision.done, decision.next_fire_at) == ((), True, None)
    assert owed(due._replace(max_fires=2, fires=2), now=now) is None


def test_a_schedule_without_a_further_slot_is_done() -> None:
    at = Due(Listed((HOUR,)), MisfireRule(), "allow", HOUR, HOUR)
    decision = decided(at, HOUR)
    assert (decision.next_fire_at, decision.done, decision.watermark) == (None, True, HOUR)


def test_overlap_skip_leaves_a_skipped_row_while_the_job_runs_and_is_no_misfire() -> None:
    due, now = missed(1, overlap="skip")
    decision = decided(due, now, busy=True, capacity=0)
    (row,) = decision.rows
    assert seconds(decision.rows) == [(False, 10, 10, 1)]
    assert (row.reason, row.cause, row.policy) == ("schedule", "overlap", "skip")
    assert row.decision == "skipped 1: the job was running"
    assert (decision.fires, decision.misfires) == (0, 0)


def test_a_misfire_that_meets_a_running_job_is_skipped_with_cause_overlap_and_counted() -> None:
    due, now = missed(9, overlap="skip")
    decision = decided(due, now, busy=True, capacity=0)
    (row,) = decision.rows
    assert (row.runs, row.covers, row.reason, row.cause) == (False, 9, "misfire", "overlap")
    assert decision.misfires == 9


def test_overlap_is_asked_only_for_what_would_run() -> None:
    due, now = missed(200, "fire_all", "skip")
    decision = decided(due, now, busy=True, capacity=0)
    assert seconds(decision.rows) == [(False, 10, 1000, 100), (False, 1010, 2000, 100)]
    assert [row.cause for row in decision.rows] == [None, "overlap"]
    for overlap in ("skip", "queue", "cancel"):
        due, now = missed(9, "skip", overlap)
        assert decided(due, now, busy=True, capacity=0).rows[0].cause is None


def test_overlap_skip_with_several_slots_on_time_runs_the_first() -> None:
    due, now = missed(4, overlap="skip")
    decision = decided(due, now, capacity=1)
    assert seconds(decision.rows) == [(True, 10, 10, 1), (False, 20, 40, 3)]
    assert (decision.rows[1].cause, decision.rows[1].reason) == ("overlap", "schedule")
    assert (decision.fires, decision.misfires, decision.next_fire_at) == (1, 0, 50 * SECOND)


@pytest.mark.parametrize("overlap", ["queue", "cancel"])
def test_queue_runs_the_last_of_several_and_leaves_one_row_for_the_earlier(overlap: str) -> None:
    due, now = missed(4, overlap=overlap)
    decision = decided(due, now, capacity=1)
    assert seconds(decision.rows) == [(False, 10, 30, 3), (True, 40, 40, 1)]
    earlier, last = decision.rows
    assert (earlier.cause, earlier.reason, earlier.policy) == ("overlap", "schedule", overlap)
    assert (last.reason, last.late, decision.misfires) == ("schedule", 5 * SECOND, 0)


@pytest.mark.parametrize("overlap", ["queue", "cancel"])
def test_fire_all_with_queue_runs_each_slot_one_at_a_time(overlap: str) -> None:
    due, now = missed(4, "fire_all", overlap)
    decision = decided(due, now, capacity=1)
    assert seconds(decision.rows) == [(True, at, at, 1) for at in (10, 20, 30, 40)]
    assert all(row.serial and row.reason == "schedule" for row in decision.rows)


def test_fire_all_with_queue_takes_no_more_than_its_limit_at_once() -> None:
    due, now = missed(4, "fire_all", "queue")
    decision = decided(due._replace(rule=MisfireRule("fire_all", limit=3)), now)
    assert (decision.fires, decision.next_fire_at) == (3, 40 * SECOND)


def test_overlap_skip_leaves_no_row_for_slots_that_max_fires_ends() -> None:
    due, now = missed(4, overlap="skip")
    last = decided(due._replace(max_fires=1), now)
    assert (seconds(last.rows), last.done) == ([(True, 10, 10, 1)], True)
    assert seconds(decided(due._replace(max_fires=2), now).rows) == [(True, 10, 10, 1), (False, 20, 40, 3)]


@pytest.mark.parametrize("overlap", ["queue", "cancel"])
@pytest.mark.parametrize("slots", [1, 4, 9])
def test_queue_and_cancel_decide_nothing_while_the_job_runs(slots: int, overlap: str) -> None:
    due, now = missed(slots, overlap=overlap)
    assert decide(due, busy=True, capacity=20, now=now) is None
    assert wants_cancel(due, busy=True, now=now) is (overlap == "cancel")
    assert not wants_cancel(due, busy=False, now=now)


def test_cancel_asks_for_nothing_where_nothing_would_run() -> None:
    due, now = missed(9, "skip", "cancel")
    assert not wants_cancel(due, busy=True, now=now)
    due, now = missed(1, overlap="cancel")
    assert not wants_cancel(due, busy=True, now=9 * SECOND)
    assert not wants_cancel(due._replace(max_fires=1, fires=1), busy=True, now=now)


def test_lateness_and_the_threshold_count_from_the_jittered_time() -> None:
    due = due_every(600)._replace(next_run_at=900 * SECOND)
    assert decide(due, busy=False, capacity=1, now=899 * SECOND) is None
    (row,) = decided(due, 901 * SECOND).rows
    assert (row.reason, row.scheduled_at, row.late) == ("schedule", 600 * SECOND, SECOND)


def test_the_newest_slot_stays_until_its_own_jitter_is_drawn() -> None:
    due = due_every(10)._replace(next_run_at=13 * SECOND)
    decision = decided(due, 35 * SECOND)
    assert seconds(decision.rows) == [(True, 10, 10, 1), (True, 20, 20, 1)]
    assert decision.next_fire_at == 30 * SECOND


def test_what_is_owed_is_the_span_of_due_undecided_slots() -> None:
    due, now = missed(9)
    assert owed(due, now=now) == (10 * SECOND, 90 * SECOND, 9)
    assert owed(due, now=9 * SECOND) is None
    jittered = due._replace(next_run_at=18 * SECOND)
    assert owed(jittered, now=12 * SECOND) == (10 * SECOND, 10 * SECOND, 1)


def test_the_oldest_undecided_slot_counts_even_when_the_schedule_no_longer_names_it() -> None:
    due = due_every(10, first=7 * SECOND)
    assert owed(due, now=9 * SECOND) == (7 * SECOND, 7 * SECOND, 1)
    assert owed(due, now=25 * SECOND) == (7 * SECOND, 20 * SECOND, 3)
    assert [row.scheduled_at // SECOND for row in decided(due, 25 * SECOND).rows] == [7, 10, 20]


TEN_YEARS = 3652 * DAY
BACKLOGS: dict[str, Callable[[], Schedule]] = {
    "every 1s": lambda: Every("1s"),
    "cron, every minute": lambda: Cron("* * * * *", "unix", "UTC"),
    "quartz, every second": lambda: Cron("* * * * * ?", "quartz", "Europe/Istanbul"),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", BACKLOGS)
def test_a_backlog_of_ten_years_is_decided_in_bounded_work(name: str, policy: str) -> None:
    schedule = BACKLOGS[name]()
    first = schedule.slot_after(50 * 365 * DAY)
    assert first is not None
    due = Due(schedule, MisfireRule(policy), "allow", first, first)
    tracemalloc.start()
    decision = decided(due, first + TEN_YEARS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    started = process_time()
    assert decided(due, first + TEN_YEARS) == decision
    assert process_time() - started <= 0.1
    assert peak < 5_000_000
    assert decision.rows[0].covers == COUNT_LIMIT
    expected = {"fire_once": "ran the last of at least 100000", "skip": "skipped at least 100000"}
    assert decision.rows[0].decision == expected.get(policy, "beyond limit")


def test_a_minute_cron_after_three_days_runs_once_and_goes_on_with_the_next_minute() -> None:
    first = 50 * 365 * DAY + MINUTE
    due = Due(Cron("* * * * *", "unix", "UTC"), MisfireRule(), "allow", first, first)
    decision = decided(due, first + 3 * DAY)
    assert (decision.fires, decision.misfires) == (1, 3 * 1440 + 1)
    assert decision.next_fire_at == first + 3 * DAY + MINUTE


def test_a_count_at_the_limit_is_said_as_a_lower_bound() -> None:
    assert (counted(99_999), counted(100_000)) == ("99999", "at least 100000")


def test_a_schedule_that_does_not_advance_is_an_error_not_a_loop() -> None:
    class Stuck(Every):
        def slot_after(self, instant: int) -> int:
            return min(super().slot_after(instant), 20 * SECOND)

    due = Due(Stuck("10s"), MisfireRule(), "allow", 20 * SECOND, 20 * SECOND)
    with pytest.raises(ScheduleError, match="does not advance"):
        decide(due, busy=False, capacity=5, now=25 * SECOND)
