"""What a node leaves running as it ends: nothing of a no-overlap job starts beside it before its process must be gone."""

import pytest
from qsched.scheduler.control import fire
from qsched.scheduler.leaving import leave
from qsched.triggers.instant import SECOND

from support.hand_node import World, every, python

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
