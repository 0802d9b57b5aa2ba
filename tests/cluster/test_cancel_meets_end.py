"""A cancel that arrives while a node judges how a body ended: the end sees it, and nothing of it runs again."""

from typing import Any

import pytest
from qsched.scheduler import settler
from qsched.scheduler.control import fire
from qsched.scheduler.enqueue import enqueue
from qsched.scheduler.enqueue_order import order_of
from qsched.scheduler.firing_acts import ASKED, cancel
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store.finish import finish
from qsched.triggers.retry import RetryPolicy

from support.hand_node import HandNode, World, every, python


def started(world: World, what: str) -> tuple[HandNode, Any]:
    """A node that runs a firing of a slot, of a manual start, or of an order; its job would be retried."""
    world.apply(every("tick", 60), jobs=(python("report", retry=RetryPolicy.fixed(3, "1s")),))
    if what == "slot":
        world.pass_time(60)
    elif what == "manual":
        fire(world.store, "tick")
    else:
        enqueue(world.store, order_of("report", {}, {}))
    node = world.node()
    (request,) = node.turn()
    return node, request


@pytest.mark.parametrize("what", ["slot", "manual", "enqueued"])
def test_a_cancel_between_the_verdict_and_its_writing_is_kept(
    server_world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    world = server_world
    node, request = started(world, what)
    asked: list[dict[int, str]] = []

    def finish_after_cancel(tx: Any, endings: Any) -> Any:
        asked.append(cancel(world.store, [request.firing_id], who="ann"))
        return finish(tx, endings)

    monkeypatch.setattr(settler, "finish", finish_after_cancel)
    node.finish(request, Outcome.failure("ValueError", "broken off"))
    assert asked == [{request.firing_id: ASKED}]
    assert world.firings("state, outcome", f"id = {request.firing_id}") == [("cancelled", "cancelled")]
    world.pass_time(5)
    assert node.turn() == []
