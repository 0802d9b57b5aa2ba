"""A checker that cannot fail proves nothing: each rule catches the history that was doctored against it, and no other."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fault.check import check
from fault.evidence import Change, Process, Spell
from fault.story import BASE, SECOND, Story, clean, slot_at, wall

Doctor = Callable[[Story], None]
SLOT = slot_at(20)


def _rules(story: Story, coordination: str | None = None) -> set[str]:
    return {violation.rule for violation in check(story.evidence(coordination))}


def _firing(story: Story, key: str, slot: int) -> int:
    """The firing of this slot."""
    return next(
        int(change.row["id"])
        for change in story.changes
        if change.table == "firings"
        and change.row["trigger_name"] == key
        and change.row["scheduled_at"] == slot * SECOND
    )


def _versions(story: Story, firing: int) -> list[int]:
    """Where the versions of a firing stand among the changes."""
    return [n for n, c in enumerate(story.changes) if c.table == "firings" and c.row["id"] == firing]


def _erase(story: Story, firing: int) -> None:
    story.changes[:] = [c for c in story.changes if c.table != "firings" or c.row["id"] != firing]
    story.bodies[:] = [body for body in story.bodies if body.firing != firing]


def _rewrite(story: Story, at: int, **row: object) -> None:
    change = story.changes[at]
    story.changes[at] = replace(change, row={**change.row, **row})


def test_a_quiet_history_is_clean() -> None:
    assert [str(each) for each in check(clean().evidence())] == []


# -- I1, I2: slots -----------------------------------------------------------------------------------------------------


def lost_slot(story: Story) -> None:
    _erase(story, _firing(story, "tick_1", SLOT))


def slot_that_is_none(story: Story) -> None:
    firing = story.decide("once_2", (SLOT + 1,), 21.1)
    story.end(firing, 21.2, "cancelled", "cancelled")


def slot_decided_twice(story: Story) -> None:
    firing = story.decide("tick_1", (SLOT - 1, SLOT), 20.1, state="skipped", covers=2)
    del firing


def range_that_miscounts(story: Story) -> None:
    firing = _firing(story, "tick_1", SLOT)
    for at in _versions(story, firing):
        _rewrite(story, at, covers=3)


def request_run_twice(story: Story) -> None:
    asked = {"reason": "manual", "trigger_id": None, "request_key": "request-1"}
    for _ in range(2):
        firing = story.decide("tick_1", (SLOT,), 20.3, **asked)
        story.body(firing, 20.31, 20.4, key=f"request-1-{firing}")
        story.end(firing, 20.5)
    story.lines.append(
        {
            "what": "answered",
            "mono": 20.6,
            "verb": "fire",
            "key": "tick_1",
            "request": "request-1",
            "firing": firing,
        }
    )


def two_bodies_of_one_take(story: Story) -> None:
    firing = _firing(story, "tick_1", SLOT)
    story.bodies.append(replace(next(body for body in story.bodies if body.firing == firing)))


# -- I3, I4, I14, I17: fences ------------------------------------------------------------------------------------------


def take_after_the_verdict(story: Story) -> None:
    story.processes[1].ended = 34.0
    story.dead(2, 34.5, "gone")
    firing = story.decide("again_5", (slot_at(35) // 5 * 5,), 36.0, incarnation=2)
    story.end(firing, 36.1, "lost", "lost", recoveries=3)


def back_from_the_dead(story: Story) -> None:
    story.processes[1].ended = 34.0
    story.dead(2, 34.5, "gone")
    story.write("nodes", 35.0, incarnation=2, state="up")


def final_state_changed(story: Story) -> None:
    firing = _firing(story, "tick_1", SLOT)
    story.write("firings", 22.0, id=firing, state="failed", outcome="failed")


def success_without_a_body(story: Story) -> None:
    firing = _firing(story, "tick_1", SLOT)
    story.bodies[:] = [body for body in story.bodies if body.firing != firing]


def failure_of_a_success(story: Story) -> None:
    firing = _firing(story, "tick_1", SLOT)
    _rewrite(story, _versions(story, firing)[-1], state="failed", outcome="failed")


def ended_by_another_node(story: Story) -> None:
    story.lines.append({"what": "connected", "mono": 9.0, "node": "n2", "backend": 1})


def released_after_it_began(story: Story) -> None:
    firing = story.decide("tick_1", (SLOT,), 20.2, reason="manual", trigger_id=None)
    story.body(firing, 20.21, None, key="manual", until=20.3)
    story.write("firings", 20.3, id=firing, state="due")
    story.write("firings", 20.4, id=firing, state="cancelled", outcome="cancelled")


def success_recorded_as_lost(story: Story) -> None:
    firing = _firing(story, "tick_1", SLOT)
    _rewrite(story, _versions(story, firing)[-1], state="lost", outcome="lost")


def healthy_node_declared_dead(story: Story) -> None:
    story.dead(2, 39.8, "silent")


def living_node_declared_gone(story: Story) -> None:
    story.dead(2, 39.8, "gone")


# -- I5, I10: recovery and rest ----------------------------------------------------------------------------------------


def _killed(story: Story, key: str, recoveries: int = 0) -> int:
    """A firing of n2, which is killed at 20.5 and declared gone at 21.6."""
    story.processes[1].ended = story.processes[1].killed = 20.5
    story.changes[:] = [
        c for c in story.changes if c.table != "nodes" or c.row["incarnation"] != 2 or c.mono < 20.5
    ]
    firing = _firing(story, key, SLOT)
    _erase(story, firing)
    slot = (SLOT,)
    story._firings = firing - 1
    again = story.decide(key, slot, 20.01, incarnation=2, recoveries=recoveries)
    story._firings = 10_000
    story.body(again, 20.02, None, until=20.5)
    story.dead(2, 21.6, "gone")
    return again


def recovered_in_time(story: Story) -> None:
    firing = _killed(story, "again_5")
    story.end(firing, 21.65, "due", "lost", recoveries=1, run_at=wall(21.65))
    story.take(firing, 21.7, 1)
    story.body(firing, 21.71, 21.8)
    story.end(firing, 21.9)


def recovered_too_late(story: Story) -> None:
    firing = _killed(story, "again_5")
    story.end(firing, 21.65, "due", "lost", recoveries=1, run_at=wall(21.65))
    story.take(firing, 26.7, 1)
    story.body(firing, 26.71, 26.8)
    story.end(firing, 26.9)


def recovered_unasked(story: Story) -> None:
    firing = _killed(story, "tick_1")
    story.end(firing, 21.65, "due", "lost", recoveries=1, run_at=wall(21.65))
    story.take(firing, 21.7, 1)
    story.body(firing, 21.71, 21.8)
    story.end(firing, 21.9)


def lost_though_recovery_was_asked(story: Story) -> None:
    story.end(_killed(story, "again_5"), 21.65, "lost", "lost")


def key_changed_between_runs(story: Story) -> None:
    recovered_in_time(story)
    story.bodies[-1].key = "another"


def still_running_at_the_end(story: Story) -> None:
    firing = _firing(story, "tick_1", SLOT)
    del story.changes[_versions(story, firing)[-1]]
    story.bodies[:] = [body for body in story.bodies if body.firing != firing]


def permit_held_at_the_end(story: Story) -> None:
    story.write("permits", 30.0, "INSERT", permit_key="job:3", n=1, firing_id=7, fence=1)


def node_that_left_by_itself(story: Story) -> None:
    story.processes.append(Process("n3", 1, 777, 10.0, 15.0, code=1))


# -- I6, I16: one at a time --------------------------------------------------------------------------------------------

ALONE = next(n for n in range(18, 24) if slot_at(n) % 3 == 0)


def two_running_rows(story: Story) -> None:
    firing = _firing(story, "alone_3", slot_at(ALONE))
    at = _versions(story, firing)[-1]
    end = story.changes.pop(at)
    other = _versions(story, _firing(story, "alone_3", slot_at(ALONE + 3)))[0]
    story.changes.insert(other + 1, replace(end, seq=story.changes[other].seq))
    story.changes[:] = [replace(change, seq=n) for n, change in enumerate(story.changes, 1)]


def two_bodies_at_once(story: Story) -> None:
    firing = _firing(story, "alone_3", slot_at(ALONE))
    body = next(body for body in story.bodies if body.firing == firing)
    body.ended = body.until = body.began + 3.1


def _zombie(story: Story, job: str) -> None:
    """A body of n2 goes on for two seconds beside its successor on n1, after its node was silent for a lease."""
    story.changes[:] = [
        c for c in story.changes if c.table != "nodes" or c.row["incarnation"] != 2 or c.mono < 34
    ]
    slots = {"trigger_name": "hand", "reason": "manual", "trigger_id": None, "job_name": job}
    firing = story.decide("tick_1", (slot_at(34),), 34.0, incarnation=2, request_recovery=1, **slots)
    story.body(firing, 34.01, 38.5, key=job, job=job)
    story.dead(2, 36.0, "silent")
    story.end(firing, 36.1, "due", "lost", recoveries=1, run_at=wall(36.1))
    story.take(firing, 36.5, 1)
    story.body(firing, 36.51, 37.5, key=job, job=job)
    story.end(firing, 37.6)


def zombie_beside_its_successor(story: Story) -> None:
    _zombie(story, "alone")
    story.spells.append(Spell(1, "hold", "n2", 33.9, 38.0))  # cut off, and not deaf: it should have heard


def stopped_zombie(story: Story) -> None:
    _zombie(story, "alone")
    story.spells.append(Spell(1, "stop_3", "n2", 33.9, 38.0))


def deaf_zombie(story: Story) -> None:
    _zombie(story, "deaf")
    story.spells.append(Spell(1, "hold", "n2", 33.9, 38.0))


def zombie_process(story: Story) -> None:
    _zombie(story, "apart")
    story.spells.append(Spell(1, "stop_3", "n2", 33.9, 38.0))


# -- I7: retries -------------------------------------------------------------------------------------------------------

FLAKY = next(slot for slot in range(slot_at(13), slot_at(80)) if slot % 60 == 0)


def _fails(story: Story, delay: float, attempts: int) -> int:
    mono = FLAKY - BASE / SECOND
    if mono < 34:
        _erase(story, _firing(story, "flaky_6", FLAKY))
    firing = story.decide("flaky_6", (FLAKY,), mono + 0.01, reason="manual", trigger_id=None)
    for attempt in range(attempts):
        at = mono + 0.1 + attempt
        story.body(firing, at, at + 0.1, how="raised", key="flaky")
        run_at = wall(at + 0.1) + round(delay * SECOND)
        story.end(firing, at + 0.1, "due", "failed", run_at=run_at, attempt=attempt + 1)
        story.take(firing, at + 0.1 + delay, 1)
    return firing


def _over(story: Story, firing: int) -> None:
    mono = story.changes[-1].mono
    story.body(firing, mono + 0.01, mono + 0.1, key="flaky")
    story.end(firing, mono + 0.2)


def retried_as_declared(story: Story) -> None:
    _over(story, _fails(story, 0.3, 2))


def retried_too_soon(story: Story) -> None:
    _over(story, _fails(story, 0.1, 1))


def retried_too_often(story: Story) -> None:
    _over(story, _fails(story, 0.3, 3))


def retry_taken_early(story: Story) -> None:
    firing = _fails(story, 0.3, 1)
    take = story.changes[-1]
    story.changes[-1] = replace(take, at=take.at - 200_000)
    _over(story, firing)


def given_up_without_a_retry(story: Story) -> None:
    firing = _fails(story, 0.3, 1)
    mono = story.changes[-1].mono
    story.body(firing, mono + 0.01, mono + 0.1, how="raised", key="flaky")
    story.end(firing, mono + 0.2, "failed", "failed")


# -- I8, I13, I20: order and time --------------------------------------------------------------------------------------


def watermark_that_went_back(story: Story) -> None:
    story.write("trigger_clocks", 22.0, id=1, watermark=wall(3))


def next_slot_before_the_watermark(story: Story) -> None:
    story.write("trigger_clocks", 22.0, id=1, watermark=wall(22), next_fire_at=wall(21))


def epoch_that_went_back(story: Story) -> None:
    story.write("clusters", 20.0, "INSERT", id=1, epoch=4)
    story.write("clusters", 21.0, id=1, epoch=3)


def taken_before_its_slot(story: Story) -> None:
    at = _versions(story, _firing(story, "tick_1", SLOT))[0]
    story.changes[at] = replace(story.changes[at], at=SLOT * SECOND - 5)


def begun_before_its_slot(story: Story) -> None:
    firing = _firing(story, "tick_1", SLOT)
    body = next(body for body in story.bodies if body.firing == firing)
    body.began -= 0.1


def late_in_a_calm_time(story: Story) -> None:
    firing = _firing(story, "tick_1", SLOT)
    for at in _versions(story, firing):
        change = story.changes[at]
        story.changes[at] = replace(change, mono=change.mono + 4, at=change.at + 4 * SECOND)
    body = next(body for body in story.bodies if body.firing == firing)
    body.began, body.ended, body.until = body.began + 4, body.began + 4.1, body.began + 4.1


# -- I15: misfires -----------------------------------------------------------------------------------------------------


def _missed(story: Story, key: str, rows: list[tuple[tuple[int, ...], str]], reason: str = "misfire") -> None:
    """Three slots of a trigger of every two seconds, from 20 on, decided at 26: as these rows."""
    first = next(n for n in range(20, 22) if slot_at(n) % 2 == 0)
    for mono in (first, first + 2, first + 4):
        _erase(story, _firing(story, key, slot_at(mono)))
    for places, state in rows:
        slots = tuple(slot_at(first + 2 * place) for place in places)
        said = {"covers": len(slots), "reason": reason, "state": state, "noticed_at": wall(26.0)}
        firing = story.decide(key, slots, 26.0, **said)
        if state == "running":
            story.body(firing, 26.1, 26.2)
            story.end(firing, 26.3)


def fire_once_as_promised(story: Story) -> None:
    _missed(story, "once_2", [((0, 1, 2), "running")])


def fire_once_that_ran_each(story: Story) -> None:
    _missed(story, "once_2", [((0,), "running"), ((1,), "running"), ((2,), "running")])


def skip_that_ran(story: Story) -> None:
    _missed(story, "skip_2", [((0, 1, 2), "running")])


def fire_all_that_coalesced(story: Story) -> None:
    _missed(story, "all_2", [((0, 1, 2), "running")])


def misfire_that_was_not_called_one(story: Story) -> None:
    _missed(story, "all_2", [((0,), "running"), ((1,), "running"), ((2,), "running")], reason="schedule")


# -- I12, I21, I22: people and words -----------------------------------------------------------------------------------


def fired_while_paused(story: Story) -> None:
    story.lines.append({"what": "answered", "mono": 19.0, "n": 1, "verb": "pause", "key": "tick_1"})
    story.lines.append({"what": "asked", "mono": 21.5, "n": 2, "verb": "resume", "key": "tick_1"})


def request_without_an_answer(story: Story) -> None:
    story.lines.append({"what": "given_up", "mono": 21.0, "n": 1, "verb": "fire", "key": "tick_1"})


def secret_in_a_log(story: Story) -> None:
    story.leaks.append("nodes/n1-01/log")


def traceback_in_a_log(story: Story) -> None:
    story.logs["n1-01"] = "12:00:00.000 ERROR   planner.failed\nTraceback (most recent call last):\n"


def key_that_was_violated(story: Story) -> None:
    story.server_log = 'ERROR:  duplicate key value violates unique constraint "uq_qsched_firings_trigger_id"'


# -- I19: leaders ------------------------------------------------------------------------------------------------------


def _led(story: Story, decider: int) -> None:
    """Incarnation 1 leads in epoch 3 from 12 on, 2 in epoch 4 from 34 on; a slot of 35 is decided by this node."""
    story.lines += [
        {"what": "connected", "mono": 9.0, "node": f"n{number}", "backend": number} for number in (1, 2)
    ]
    first = next(n for n, change in enumerate(story.changes) if change.table == "firings")
    row = {"coordination": "leader", "epoch": 3, "leader_incarnation": 1}
    story.write("clusters", 12.0, "INSERT", id=1, **row)
    story.changes.insert(first, story.changes.pop())
    story.changes[:] = [replace(change, seq=n) for n, change in enumerate(story.changes, 1)]
    story.write("clusters", 34.5, id=1, epoch=4, leader_incarnation=2)
    firing = story.decide("tick_1", (slot_at(35),), 35.01, state="due", fence=0, incarnation=None)
    story.changes[-1] = replace(story.changes[-1], backend=decider)
    story.take(firing, 35.1, 1)
    story.body(firing, 35.2, 35.3)
    story.end(firing, 35.4)


def decided_by_the_leader(story: Story) -> None:
    _led(story, 2)


def decided_by_who_led_before(story: Story) -> None:
    _led(story, 1)


def trigger_in_error(story: Story) -> None:
    story.write("triggers", 25.0, id=1, state="error", error="nobody knows")


def poison_that_was_swallowed(story: Story) -> None:
    story.lines.append({"what": "poisoned", "mono": 14.0, "key": "tick_1"})


CAUGHT: list[tuple[Doctor, str]] = [
    (trigger_in_error, "I18"),
    (poison_that_was_swallowed, "I18"),
    (lost_slot, "I1"),
    (slot_that_is_none, "I1"),
    (slot_decided_twice, "I2"),
    (range_that_miscounts, "I1"),
    (request_run_twice, "I2"),
    (two_bodies_of_one_take, "I2"),
    (take_after_the_verdict, "I3"),
    (back_from_the_dead, "I3"),
    (final_state_changed, "I4"),
    (success_without_a_body, "I4"),
    (failure_of_a_success, "I4"),
    (ended_by_another_node, "I4"),
    (released_after_it_began, "I4"),
    (success_recorded_as_lost, "I17"),
    (healthy_node_declared_dead, "I14"),
    (living_node_declared_gone, "I14"),
    (recovered_too_late, "I5"),
    (recovered_unasked, "I5"),
    (lost_though_recovery_was_asked, "I5"),
    (key_changed_between_runs, "I5"),
    (still_running_at_the_end, "I10"),
    (permit_held_at_the_end, "I10"),
    (node_that_left_by_itself, "I10"),
    (two_running_rows, "I6"),
    (two_bodies_at_once, "I16"),
    (zombie_beside_its_successor, "I16"),
    (zombie_process, "I16"),
    (retried_too_soon, "I7"),
    (retried_too_often, "I7"),
    (given_up_without_a_retry, "I7"),
    (retry_taken_early, "I13"),
    (watermark_that_went_back, "I8"),
    (next_slot_before_the_watermark, "I8"),
    (epoch_that_went_back, "I8"),
    (taken_before_its_slot, "I13"),
    (begun_before_its_slot, "I13"),
    (late_in_a_calm_time, "I20"),
    (fire_once_that_ran_each, "I15"),
    (skip_that_ran, "I15"),
    (fire_all_that_coalesced, "I15"),
    (misfire_that_was_not_called_one, "I15"),
    (fired_while_paused, "I21"),
    (request_without_an_answer, "I20"),
    (secret_in_a_log, "I22"),
    (traceback_in_a_log, "I12"),
    (key_that_was_violated, "I12"),
]


@pytest.mark.parametrize(("doctor", "rule"), CAUGHT, ids=[doctor.__name__ for doctor, _ in CAUGHT])
def test_a_doctored_history_is_caught(doctor: Doctor, rule: str) -> None:
    story = clean()
    doctor(story)
    assert rule in _rules(story)


@pytest.mark.parametrize(
    ("doctor", "rules"), [(decided_by_the_leader, set()), (decided_by_who_led_before, {"I19"})]
)
def test_only_the_leader_of_the_epoch_decides(doctor: Doctor, rules: set[str]) -> None:
    story = clean()
    doctor(story)
    assert _rules(story, "leader") == rules


EXCUSED: list[Doctor] = [
    recovered_in_time,
    stopped_zombie,
    deaf_zombie,
    retried_as_declared,
    fire_once_as_promised,
]


@pytest.mark.parametrize("doctor", EXCUSED, ids=[doctor.__name__ for doctor in EXCUSED])
def test_what_is_allowed_is_not_held_against_anybody(doctor: Doctor) -> None:
    story = clean()
    doctor(story)
    assert [str(each) for each in check(story.evidence())] == []


def test_a_change_keeps_its_place_in_the_databases_order() -> None:
    changes: list[Change] = clean().changes
    assert [change.seq for change in changes] == list(range(1, len(changes) + 1))
