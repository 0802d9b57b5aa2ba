"""What runs of a trigger that is retired meanwhile runs to its end, and nothing of it is due again."""

from typing import Any

from qsched.scheduler.context import RunRequest
from qsched.scheduler.control import delete
from qsched.scheduler.outcome import Outcome
from qsched.triggers.retry import RetryPolicy

from support.hand_node import HandNode, World, every, python


def running_and_retired(world: World, **policies: Any) -> tuple[HandNode, RunRequest]:
    world.apply(every("tick", 10), jobs=[python("report", **policies)])
    world.pass_time(10)
    node = world.node()
    (request,) = node.turn()
    delete(world.store, ["tick"])
    return node, request


def test_a_failed_run_of_a_retired_trigger_is_not_retried(world: World) -> None:
    node, request = running_and_retired(world, retry=RetryPolicy.fixed(3, "2s"))
    node.finish(request, Outcome.failure("ValueError", "boom"))
    ((state, outcome, dropped, note),) = world.firings("state, outcome, retry_dropped, note")
    assert (state, outcome, dropped) == ("failed", "failed", "retired")
    assert "the trigger was retired" in note


def test_an_interrupted_run_of_a_retired_trigger_is_cancelled(world: World) -> None:
    node, request = running_and_retired(world, request_recovery=True)
    node.finish(request, Outcome.cancelled("shutdown"))
    assert world.firings("state, outcome") == [("cancelled", "interrupted")]


def test_a_run_of_a_retired_trigger_that_succeeds_has_succeeded(world: World) -> None:
    node, request = running_and_retired(world)
    node.finish(request)
    assert world.firings("state, outcome") == [("succeeded", "succeeded")]


def test_what_was_not_begun_of_a_retired_trigger_is_cancelled_when_it_is_given_back(world: World) -> None:
    node, request = running_and_retired(world, overlap="queue")
    node.release(request)
    node.settle()
    assert world.firings("state, outcome, started_at") == [("cancelled", "cancelled", None)]
    assert world.sql("SELECT firing_id FROM qsched_permits WHERE cluster = ?", world.store.cluster_id) == [
        (None,)
    ]
