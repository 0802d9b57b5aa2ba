"""What a killed node was running is recovered also where the restart applies its file first, changed or not (B27)."""

import pytest
from qsched.scheduler.context import RunRequest

from support.hand_node import HandNode, World, every, python

JOBS = [python("report", request_recovery=True)]
OTHERS = [every(name, 7200) for name in ("x", "y", "z")]
GONE_WITHIN = 4 * 1.0 + 0.25


def killed_mid_run(world: World) -> RunRequest:
    """The only node dies while it runs the first slot of `tick`."""
    world.apply(every("tick", 3600), *OTHERS, jobs=JOBS)
    node = world.node("only")
    world.live(3)
    world.pass_time(3600)
    world.hear()
    (request,) = node.turn()
    assert request.trigger == "tick"
    node.kill()
    return request


def restarted(world: World) -> HandNode:
    """The same node again: its name, its file, a new process."""
    node = world.node("only")
    world.live(GONE_WITHIN + 2)
    return node


@pytest.mark.parametrize("gap", [3600, 5400], ids=["unchanged", "another schedule"])
def test_a_restart_that_applies_its_file_first_recovers_once(world: World, gap: int) -> None:
    lost = killed_mid_run(world)
    world.apply(every("tick", gap), *OTHERS, jobs=JOBS)
    (again,) = restarted(world).taken
    assert (again.firing_id, again.scheduled_at, again.fence) == (lost.firing_id, lost.scheduled_at, 2)
    assert (again.recovering, again.attempt, again.default_key) == (True, 0, lost.default_key)
    world.nodes[-1].finish(again)
    world.live(30)
    assert world.nodes[-1].taken == []
    assert world.firings("state, recoveries", "trigger_name = 'tick'") == [("succeeded", 1)]


def test_what_was_removed_from_the_file_meanwhile_is_closed_as_lost_and_stays_visible(world: World) -> None:
    lost = killed_mid_run(world)
    world.apply(*OTHERS, jobs=JOBS)
    node = restarted(world)
    assert node.taken == []
    ((firing, state, outcome, note),) = world.firings(
        "id, state, outcome, note", "trigger_name = 'tick' AND state <> 'skipped'"
    )
    assert (firing, state, outcome) == (lost.firing_id, "lost", "lost")
    assert "retired" in note
