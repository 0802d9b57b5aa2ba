"""Nodes that die leave nothing running: what asked for recovery runs again elsewhere, the rest is lost and says so."""

from qsched.scheduler.context import RunRequest

from support.hand_node import HandNode, World, every, python

POLL = 0.25
GONE_WITHIN = 4 * 1.0 + POLL
SILENT_WITHIN = 15 + 2 * 1.0 + POLL


def running_on(world: World, node: HandNode, **policies: object) -> RunRequest:
    """The node runs the first firing of a trigger; the others find nothing of it to do for an hour."""
    world.apply(every("tick", 3600), jobs=[python("report", **policies)])
    world.pass_time(3600)
    world.hear()
    (request,) = node.turn()
    world.hear()
    return request


def two_nodes(world: World, **options: object) -> tuple[HandNode, HandNode]:
    one, two = world.node("one", **options), world.node("two")
    world.live(3)
    return one, two


def states(world: World) -> list[tuple[object, ...]]:
    return world.sql(
        "SELECT name, state, dead_verdict FROM qsched_nodes WHERE cluster = ? ORDER BY incarnation",
        world.store.cluster_id,
    )


def test_a_killed_nodes_firing_runs_again_elsewhere_with_its_slot_and_key(world: World) -> None:
    one, two = two_nodes(world)
    lost = running_on(world, one, request_recovery=True)
    one.kill()
    took = world.live_until(lambda: two.taken, within=30)
    assert 2 <= took <= GONE_WITHIN
    (again,) = two.taken
    assert again.recovering
    assert (again.firing_id, again.scheduled_at, again.default_key) == (
        lost.firing_id,
        lost.scheduled_at,
        lost.default_key,
    )
    assert (again.fence, again.attempt) == (2, 0)
    assert two.rescued == 1
    assert states(world) == [("one", "dead", "gone"), ("two", "up", None)]
    attempts = world.sql(
        "SELECT outcome, fence, recovering, note FROM qsched_attempts WHERE firing_id = ?", lost.firing_id
    )
    assert attempts == [("lost", 1, 0, "lost: node one is dead (gone); due again for any node")]
    two.finish(again)
    assert world.firings("state, outcome, recoveries") == [("succeeded", "succeeded", 1)]
