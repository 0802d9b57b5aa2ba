"""Delay: the next slot comes so long after the end of the run before, whoever writes that end, and never beside the run."""

from dataclasses import replace
from typing import Any

import pytest
from qsched.scheduler.control import pause, resume
from qsched.scheduler.errors import PermanentError
from qsched.scheduler.firing_acts import cancel
from qsched.scheduler.groups import pause_group, resume_group
from qsched.scheduler.outcome import Outcome
from qsched.triggers.instant import SECOND
from qsched.triggers.retry import RetryPolicy
from qsched.triggers.trigger import TriggerDefinition

from support.hand_node import START, World, every, python

MINUTE = 60 * SECOND


def delayed(name: str = "sync", seconds: float = 60, **fields: Any) -> TriggerDefinition:
    """A trigger whose next run is due so many seconds after the end of the one before."""
    return replace(every(name, **fields), schedule={"delay": round(seconds * SECOND)})


def next_of(world: World, name: str = "sync") -> tuple[float | None, float | None, str]:
    """Its next slot and run time, in seconds from the start, and its state."""
    slot, run_at, state = world.clock_of(name, "c.next_fire_at, c.next_run_at, t.state")
    return _seconds(slot), _seconds(run_at), state


def _seconds(instant: int | None) -> float | None:
    return None if instant is None else (instant - START) / SECOND


def test_the_first_slot_comes_one_delay_after_the_declaration_and_each_other_after_an_end(
    world: World,
) -> None:
    world.apply(delayed())
    assert next_of(world) == (60, 60, "waiting")
    node = world.node()
    world.pass_time(60)
    (request,) = node.turn()
    assert next_of(world) == (None, None, "waiting")
    world.pass_time(100)
    assert node.turn() == []
    node.finish(request)
    assert next_of(world) == (220, 220, "waiting")
    world.pass_time(59)
    assert node.turn() == []
    world.pass_time(1)
    assert len(node.turn()) == 1
    assert [row[0] for row in world.firings("scheduled_at")] == [START + 60 * SECOND, START + 220 * SECOND]


def test_with_start_at_the_first_slot_is_there(world: World) -> None:
    world.apply(delayed(start_at=START + 5 * MINUTE))
    assert next_of(world) == (300, 300, "waiting")


def test_no_slot_comes_while_a_retry_of_the_run_is_waiting(world: World) -> None:
    world.apply(delayed(retry=RetryPolicy.fixed(1, "2m")))
    node = world.node()
    world.pass_time(60)
    (request,) = node.turn()
    node.finish(request, Outcome.failure("ValueError", "boom"))
    assert next_of(world) == (None, None, "waiting")
    world.pass_time(119)
    assert node.turn() == []
    world.pass_time(1)
    (again,) = node.turn()
    assert again.attempt == 1
    node.finish(again, Outcome.failure("ValueError", "boom"))
    assert next_of(world) == (240, 240, "waiting")


@pytest.mark.parametrize("recovery", [False, True])
def test_a_dead_nodes_run_counts_from_when_it_was_given_up_or_ended_elsewhere(
    world: World, recovery: bool
) -> None:
    world.apply(delayed(job="sync"), jobs=[python("sync", request_recovery=recovery)])
    world.functions["sync"] = lambda: None
    dying = world.node("dying")
    world.pass_time(60)
    assert len(dying.turn()) == 1
    other = world.node("other")
    dying.kill()
    world.live_until(lambda: world.firings("id", "(fence > 1 OR state = 'lost')"))
    other.run()
    other.settle()
    (ended,) = world.firings("finished_at, state")
    slot = next_of(world)[0]
    assert slot == pytest.approx((ended[0] - START) / SECOND + 60)
    assert ended[1] == ("succeeded" if recovery else "lost")


def test_paused_while_it_runs_it_waits_and_resumed_it_counts_from_the_end(world: World) -> None:
    world.apply(delayed())
    node = world.node()
    world.pass_time(60)
    (request,) = node.turn()
    pause(world.store, ["sync"])
    resume(world.store, ["sync"])
    assert next_of(world) == (None, None, "waiting")
    pause(world.store, ["sync"])
    world.pass_time(10)
    node.finish(request)
    assert next_of(world) == (130, None, "waiting")
    world.pass_time(5)
    resume(world.store, ["sync"])
    assert next_of(world) == (130, 130, "waiting")


def test_an_edit_while_it_runs_starts_nothing_beside_the_run(world: World) -> None:
    world.apply(delayed(seconds=60))
    node = world.node()
    world.pass_time(60)
    (request,) = node.turn()
    world.apply(delayed(seconds=30))
    assert next_of(world) == (None, None, "waiting")
    world.pass_time(100)
    assert node.turn() == []
    node.finish(request)
    assert next_of(world) == (190, 190, "waiting")


def test_from_a_grid_to_a_delay_and_back(world: World) -> None:
    world.apply(every("sync", 40))
    node = world.node()
    world.pass_time(40)
    (request,) = node.turn()
    world.apply(delayed(seconds=60))
    assert next_of(world) == (100, 100, "waiting")
    world.pass_time(5)
    node.finish(request)  # taken while it had slots of its own: its end moves nothing
    assert next_of(world)[0] is not None
    world.apply(every("sync", 40))
    assert next_of(world) == (80, 80, "waiting")


def test_a_skipped_slot_is_followed_by_one_a_delay_later(world: World) -> None:
    from qsched.triggers.misfire import MisfireRule

    world.apply(delayed(misfire=MisfireRule("skip")))
    world.pass_time(300)
    world.node().work()
    assert world.firings("state, covers") == [("skipped", 1)]
    assert next_of(world) == (360, 360, "waiting")


def test_a_slot_that_is_late_by_more_than_a_delay_runs_alone(world: World) -> None:
    world.apply(delayed(seconds=5))
    world.pass_time(30)
    node = world.node()
    assert len(node.turn()) == 1
    assert world.firings("scheduled_at, covers") == [(START + 5 * SECOND, 1)]
    assert next_of(world) == (None, None, "waiting")


def test_max_fires_and_end_at_make_it_done(world: World) -> None:
    world.apply(delayed("few", max_fires=1), delayed("short", end_at=START + 100 * SECOND))
    node = world.node()
    world.pass_time(60)
    node.work()
    assert next_of(world, "few") == (None, None, "done")
    assert next_of(world, "short") == (None, None, "done")
    world.pass_time(600)
    node.work()
    assert len(world.firings("id")) == 2


def waiting_retry(world: World) -> int:
    """The id of a firing whose retry is an hour away."""
    world.apply(delayed(retry=RetryPolicy.fixed(1, "1h")))
    node = world.node()
    world.pass_time(60)
    (request,) = node.turn()
    node.finish(request, Outcome.failure("ValueError", "boom"))
    ((firing,),) = world.firings("id")
    return int(firing)


def test_a_cancel_of_what_waits_is_an_end_too(world: World) -> None:
    firing = waiting_retry(world)
    world.pass_time(10)
    cancel(world.store, [firing])
    assert next_of(world) == (130, 130, "waiting")


def test_what_a_resume_skips_had_been_waited_for(world: World) -> None:
    waiting_retry(world)
    pause(world.store, ["sync"])
    world.pass_time(10)
    resume(world.store, ["sync"])
    assert world.firings("state") == [("skipped",)]
    assert next_of(world) == (130, 130, "waiting")


def test_what_a_groups_resume_skips_had_been_waited_for(world: World) -> None:
    waiting_retry(world)
    pause_group(world.store, "default")
    world.pass_time(10)
    resume_group(world.store, "default")
    assert next_of(world) == (130, 130, "waiting")


def test_what_was_not_begun_and_asked_to_stop_is_an_end_too(world: World) -> None:
    world.apply(delayed())
    node = world.node()
    world.pass_time(60)
    (request,) = node.turn()
    cancel(world.store, [request.firing_id])
    world.pass_time(5)
    node.release(request)
    node.settle()
    assert world.firings("state") == [("cancelled",)]
    assert next_of(world) == (125, 125, "waiting")


def test_an_end_that_nobody_followed_is_found_by_the_sweep(world: World) -> None:
    firing = waiting_retry(world)
    world.sql("UPDATE qsched_firings SET state = 'failed' WHERE id = ?", firing)
    world.live_until(lambda: next_of(world)[0] is not None)
    assert next_of(world)[2] == "waiting"


def test_a_permanent_failure_is_an_end_like_any_other(world: World) -> None:
    world.apply(delayed())

    def broken() -> None:
        raise PermanentError("no")

    world.functions["report"] = broken
    node = world.node()
    world.pass_time(60)
    node.work()
    assert world.firings("state") == [("failed",)]
    assert next_of(world) == (120, 120, "waiting")
