"""What a node leaves running as it ends: nothing of a no-overlap job starts beside it before its process must be gone."""

from types import ModuleType
from typing import Any

import pytest
from qsched.scheduler import leaving
from qsched.scheduler.context import RunRequest
from qsched.scheduler.control import fire
from qsched.scheduler.leaving import leave
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store import finish, take_rows
from qsched.scheduler.store.tx import Tx
from qsched.triggers.instant import SECOND
from qsched.triggers.retry import RetryPolicy

from support.hand_node import HandNode, World, every, python

HELD = "SELECT firing_id FROM qsched_permits WHERE firing_id IS NOT NULL AND cluster = ?"


@pytest.mark.parametrize("recoverable", [False, True])
def test_a_body_that_is_left_running_keeps_its_permit_for_a_second(world: World, recoverable: bool) -> None:
    job = python("report", overlap="queue", request_recovery=recoverable)
    world.apply(every("tick", 3600), jobs=[job])
    node, other = world.node(own_store=True), world.node("other")
    world.pass_time(3600)
    (request,) = node.turn()
    node.cut_off()  # of its COMMIT all know; it hears of it late, and its body runs on until it does
    world.store.transaction(
        "abandon", lambda tx: leave(tx, request.incarnation, {(request.firing_id, request.fence)}, (), 0)
    )
    left_at = world.time
    manual = fire(world.store, "tick")

    def held() -> list[tuple[int]]:
        return world.sql(HELD, world.store.cluster_id)

    world.live_until(lambda: held() != [(request.firing_id,)], within=6)
    assert world.time >= left_at + SECOND
    assert other.taken == [] or world.time > left_at + SECOND
    world.live_until(lambda: other.taken, within=6)
    assert [each.firing_id for each in other.taken] == [manual]
    other.run()
    assert world.firings("state", f"id = {request.firing_id}") == [("due" if recoverable else "lost",)]
    if recoverable:
        assert [each.firing_id for each in other.turn()] == [request.firing_id]


ASK = "UPDATE qsched_firings SET cancel_requested_at = 1, cancel_requested_by = 'overlap' WHERE id = ?"


def asked_while_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch, module: ModuleType, **policies: Any
) -> tuple[HandNode, RunRequest]:
    """A node and what it runs, of which somebody asks a cancel while he holds the trigger that `module` waits for."""
    world.apply(every("tick", 3600), jobs=[python("report", overlap="cancel", **policies)])
    node = world.node()
    world.pass_time(3600)
    (request,) = node.turn()

    def waited(tx: Tx, ids: set[int]) -> None:
        take_rows.lock_clocks(tx, ids)
        tx.run(ASK, request.firing_id)

    monkeypatch.setattr(module, "lock_clocks", waited)
    return node, request


def test_a_cancel_that_is_asked_for_while_a_leaving_node_waits_for_the_trigger_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, request = asked_while_waiting(world, monkeypatch, leaving, request_recovery=True)
    key = (request.firing_id, request.fence)
    world.store.transaction("abandon", lambda tx: leave(tx, request.incarnation, {key}, (), 0))
    assert world.firings("state, outcome") == [("cancelled", "cancelled")]


def test_so_does_one_that_is_asked_for_while_an_end_waits_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, request = asked_while_waiting(world, monkeypatch, finish, retry=RetryPolicy.fixed(3, "5s"))
    node.finish(request, Outcome.failure("ValueError", "boom"))
    assert world.firings("state, outcome, retry_dropped") == [("cancelled", "cancelled", None)]
