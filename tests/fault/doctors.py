"""Histories doctored against the rules of slots, fences and recovery: each does one thing that must never be."""

from dataclasses import replace

from .evidence import Process
from .story import SECOND, Story, slot_at, wall

SLOT = slot_at(20)


def firing_of(story: Story, key: str, slot: int) -> int:
    """The firing of this slot."""
    return next(
        int(change.row["id"])
        for change in story.changes
        if change.table == "firings"
        and change.row["trigger_name"] == key
        and change.row["scheduled_at"] == slot * SECOND
    )


def versions_of(story: Story, firing: int) -> list[int]:
    """Where the versions of a firing stand among the changes."""
    return [n for n, c in enumerate(story.changes) if c.table == "firings" and c.row["id"] == firing]


def erase(story: Story, firing: int) -> None:
    story.changes[:] = [c for c in story.changes if c.table != "firings" or c.row["id"] != firing]
    story.bodies[:] = [body for body in story.bodies if body.firing != firing]


def rewrite(story: Story, at: int, **row: object) -> None:
    change = story.changes[at]
    story.changes[at] = replace(change, row={**change.row, **row})


# -- I1, I2: slots -----------------------------------------------------------------------------------------------------


def lost_slot(story: Story) -> None:
    erase(story, firing_of(story, "tick_1", SLOT))


def slot_that_is_none(story: Story) -> None:
    firing = story.decide("once_2", (SLOT + 1,), 21.1)
    story.end(firing, 21.2, "cancelled", "cancelled")


def slot_decided_twice(story: Story) -> None:
    firing = story.decide("tick_1", (SLOT - 1, SLOT), 20.1, state="skipped", covers=2)
    del firing


def range_that_miscounts(story: Story) -> None:
    firing = firing_of(story, "tick_1", SLOT)
    for at in versions_of(story, firing):
        rewrite(story, at, covers=3)


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
    firing = firing_of(story, "tick_1", SLOT)
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
    firing = firing_of(story, "tick_1", SLOT)
    story.write("firings", 22.0, id=firing, state="failed", outcome="failed")


def success_without_a_body(story: Story) -> None:
    firing = firing_of(story, "tick_1", SLOT)
    story.bodies[:] = [body for body in story.bodies if body.firing != firing]


def failure_of_a_success(story: Story) -> None:
    firing = firing_of(story, "tick_1", SLOT)
    rewrite(story, versions_of(story, firing)[-1], state="failed", outcome="failed")


def ended_by_another_node(story: Story) -> None:
    story.lines.append({"what": "connected", "mono": 9.0, "node": "n2", "backend": 1})


def released_after_it_began(story: Story) -> None:
    firing = story.decide("tick_1", (SLOT,), 20.2, reason="manual", trigger_id=None)
    story.body(firing, 20.21, None, key="manual", until=20.3)
    story.write("firings", 20.3, id=firing, state="due")
    story.write("firings", 20.4, id=firing, state="cancelled", outcome="cancelled")


def success_recorded_as_lost(story: Story) -> None:
    firing = firing_of(story, "tick_1", SLOT)
    rewrite(story, versions_of(story, firing)[-1], state="lost", outcome="lost")


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
    firing = firing_of(story, key, SLOT)
    erase(story, firing)
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
    firing = firing_of(story, "tick_1", SLOT)
    del story.changes[versions_of(story, firing)[-1]]
    story.bodies[:] = [body for body in story.bodies if body.firing != firing]


def permit_held_at_the_end(story: Story) -> None:
    story.write("permits", 30.0, "INSERT", permit_key="job:3", n=1, firing_id=7, fence=1)


def node_that_left_by_itself(story: Story) -> None:
    story.processes.append(Process("n3", 1, 777, 10.0, 15.0, code=1))
