"""A checker that cannot fail proves nothing: each rule catches the history that was doctored against it, and no other."""

from collections.abc import Callable

import pytest

from fault import doctors, job_doctors, time_doctors
from fault.check import check
from fault.evidence import Change
from fault.story import Story, clean

Doctor = Callable[[Story], None]


def _rules(story: Story, coordination: str | None = None) -> set[str]:
    return {violation.rule for violation in check(story.evidence(coordination))}


def test_a_quiet_history_is_clean() -> None:
    assert [str(each) for each in check(clean().evidence())] == []


CAUGHT: list[tuple[Doctor, str]] = [
    (time_doctors.trigger_in_error, "I18"),
    (time_doctors.poison_that_was_swallowed, "I18"),
    (doctors.lost_slot, "I1"),
    (doctors.slot_that_is_none, "I1"),
    (doctors.slot_decided_twice, "I2"),
    (doctors.range_that_miscounts, "I1"),
    (doctors.request_run_twice, "I2"),
    (doctors.two_bodies_of_one_take, "I2"),
    (doctors.take_after_the_verdict, "I3"),
    (doctors.back_from_the_dead, "I3"),
    (doctors.final_state_changed, "I4"),
    (doctors.success_without_a_body, "I4"),
    (doctors.failure_of_a_success, "I4"),
    (doctors.ended_by_another_node, "I4"),
    (doctors.released_after_it_began, "I4"),
    (doctors.success_recorded_as_lost, "I17"),
    (doctors.healthy_node_declared_dead, "I14"),
    (doctors.living_node_declared_gone, "I14"),
    (doctors.recovered_too_late, "I5"),
    (doctors.recovered_unasked, "I5"),
    (doctors.lost_though_recovery_was_asked, "I5"),
    (doctors.key_changed_between_runs, "I5"),
    (doctors.still_running_at_the_end, "I10"),
    (doctors.permit_held_at_the_end, "I10"),
    (doctors.node_that_left_by_itself, "I10"),
    (time_doctors.two_running_rows, "I6"),
    (time_doctors.two_bodies_at_once, "I16"),
    (time_doctors.zombie_beside_its_successor, "I16"),
    (time_doctors.zombie_process, "I16"),
    (time_doctors.retried_too_soon, "I7"),
    (time_doctors.retried_too_often, "I7"),
    (time_doctors.given_up_without_a_retry, "I7"),
    (time_doctors.retry_taken_early, "I13"),
    (time_doctors.watermark_that_went_back, "I8"),
    (time_doctors.next_slot_before_the_watermark, "I8"),
    (time_doctors.epoch_that_went_back, "I8"),
    (time_doctors.taken_before_its_slot, "I13"),
    (time_doctors.begun_before_its_slot, "I13"),
    (time_doctors.late_in_a_calm_time, "I20"),
    (time_doctors.fire_once_that_ran_each, "I15"),
    (time_doctors.skip_that_ran, "I15"),
    (time_doctors.fire_all_that_coalesced, "I15"),
    (time_doctors.misfire_that_was_not_called_one, "I15"),
    (time_doctors.fired_while_paused, "I21"),
    (time_doctors.request_without_an_answer, "I20"),
    (time_doctors.secret_in_a_log, "I22"),
    (time_doctors.traceback_in_a_log, "I12"),
    (time_doctors.key_that_was_violated, "I12"),
    (job_doctors.group_beyond_its_limit, "I6"),
    (job_doctors.kept_by_a_fenced_run, "I24"),
    (job_doctors.count_that_was_lost, "I24"),
    (job_doctors.end_that_nobody_follows, "I25"),
    (job_doctors.followed_twice, "I25"),
    (job_doctors.follower_of_what_goes_on, "I25"),
]


@pytest.mark.parametrize(("doctor", "rule"), CAUGHT, ids=[doctor.__name__ for doctor, _ in CAUGHT])
def test_a_doctored_history_is_caught(doctor: Doctor, rule: str) -> None:
    story = clean()
    doctor(story)
    assert rule in _rules(story)


@pytest.mark.parametrize(
    ("doctor", "rules"),
    [(time_doctors.decided_by_the_leader, set()), (time_doctors.decided_by_who_led_before, {"I19"})],
)
def test_only_the_leader_of_the_epoch_decides(doctor: Doctor, rules: set[str]) -> None:
    story = clean()
    doctor(story)
    assert _rules(story, "leader") == rules


EXCUSED: list[Doctor] = [
    doctors.recovered_in_time,
    time_doctors.stopped_zombie,
    time_doctors.deaf_zombie,
    time_doctors.retried_as_declared,
    time_doctors.fire_once_as_promised,
    job_doctors.counted_and_followed,
]


@pytest.mark.parametrize("doctor", EXCUSED, ids=[doctor.__name__ for doctor in EXCUSED])
def test_what_is_allowed_is_not_held_against_anybody(doctor: Doctor) -> None:
    story = clean()
    doctor(story)
    assert [str(each) for each in check(story.evidence())] == []


def test_a_change_keeps_its_place_in_the_databases_order() -> None:
    changes: list[Change] = clean().changes
    assert [change.seq for change in changes] == list(range(1, len(changes) + 1))
