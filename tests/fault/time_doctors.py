"""Histories doctored against the rules of overlap, retries, order, time, people and leaders; and some that are allowed."""

from dataclasses import replace
from typing import Any

from .doctors import SLOT, erase, firing_of, versions_of
from .evidence import Spell
from .story import BASE, SECOND, Story, slot_at, wall

# -- I6, I16: one at a time --------------------------------------------------------------------------------------------

ALONE = next(n for n in range(18, 24) if slot_at(n) % 3 == 0)


def two_running_rows(story: Story) -> None:
    firing = firing_of(story, "alone_3", slot_at(ALONE))
    at = versions_of(story, firing)[-1]
    end = story.changes.pop(at)
    other = versions_of(story, firing_of(story, "alone_3", slot_at(ALONE + 3)))[0]
    story.changes.insert(other + 1, replace(end, seq=story.changes[other].seq))
    story.changes[:] = [replace(change, seq=n) for n, change in enumerate(story.changes, 1)]


def two_bodies_at_once(story: Story) -> None:
    firing = firing_of(story, "alone_3", slot_at(ALONE))
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
        erase(story, firing_of(story, "flaky_6", FLAKY))
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
    at = versions_of(story, firing_of(story, "tick_1", SLOT))[0]
    story.changes[at] = replace(story.changes[at], at=SLOT * SECOND - 5)


def begun_before_its_slot(story: Story) -> None:
    firing = firing_of(story, "tick_1", SLOT)
    body = next(body for body in story.bodies if body.firing == firing)
    body.began -= 0.1


def late_in_a_calm_time(story: Story) -> None:
    firing = firing_of(story, "tick_1", SLOT)
    for at in versions_of(story, firing):
        change = story.changes[at]
        story.changes[at] = replace(change, mono=change.mono + 4, at=change.at + 4 * SECOND)
    body = next(body for body in story.bodies if body.firing == firing)
    body.began, body.ended, body.until = body.began + 4, body.began + 4.1, body.began + 4.1


# -- I15: misfires -----------------------------------------------------------------------------------------------------


def _missed(story: Story, key: str, rows: list[tuple[tuple[int, ...], str]], reason: str = "misfire") -> None:
    """Three slots of a trigger of every two seconds, from 20 on, decided at 26: as these rows."""
    first = next(n for n in range(20, 22) if slot_at(n) % 2 == 0)
    for mono in (first, first + 2, first + 4):
        erase(story, firing_of(story, key, slot_at(mono)))
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
    row: dict[str, Any] = {"coordination": "leader", "epoch": 3, "leader_incarnation": 1}
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
