"""The last transaction of a node that leaves while bodies run: what has begun, what has not, what has ended; and its lock."""

import threading
from collections.abc import Collection
from typing import Any

from qsched.scheduler.context import RunRequest
from qsched.scheduler.leaving import Left, leave
from qsched.scheduler.store.node_rows import share_alive
from qsched.scheduler.store.tx import Tx
from qsched.triggers.instant import SECOND

from support.hand_node import HandNode, World, every, python

Key = tuple[int, int]


def taken(world: World, *names: str, **policies: bool) -> tuple[HandNode, list[RunRequest]]:
    """A node that has taken one firing of each of these triggers."""
    world.apply(*(every(name) for name in names), jobs=(python("report", **policies),))
    node = world.node()
    world.pass_time(10)
    return node, sorted(node.turn(), key=lambda request: request.firing_id)


NOTHING: frozenset[Key] = frozenset()


def left(
    node: HandNode, *, begun: Collection[Key] = NOTHING, ended: Collection[Key] = NOTHING, before: int = 0
) -> Left | None:
    incarnation = node.parts.who.incarnation
    return node.store.transaction("abandon", lambda tx: leave(tx, incarnation, begun, ended, before))


def keys(*requests: RunRequest) -> set[Key]:
    return {(request.firing_id, request.fence) for request in requests}


def test_a_recoverable_body_is_due_again_in_a_second_and_burns_no_retry(world: World) -> None:
    node, (request,) = taken(world, "a", request_recovery=True)
    assert left(node, begun=keys(request)) == Left(1, 0, 0)
    assert world.firings("state, run_at, attempt, recoveries, fence, incarnation") == [
        ("due", world.time + SECOND, 0, 0, 1, None)
    ]
    assert world.sql(
        "SELECT outcome, attempt FROM qsched_attempts WHERE firing_id = ?", request.firing_id
    ) == [("interrupted", 0)]
    two = world.node("two")
    assert two.turn() == []
    world.pass_time(1)
    (again,) = two.turn()
    assert (again.firing_id, again.fence, again.attempt, again.recovering) == (request.firing_id, 2, 0, False)


def test_a_body_of_a_job_that_asks_for_no_recovery_is_lost_and_says_why(world: World) -> None:
    node, (request,) = taken(world, "a")
    assert left(node, begun=keys(request)) == Left(1, 0, 0)
    ((state, outcome, note),) = world.firings("state, outcome, note")
    assert (state, outcome) == ("lost", "lost")
    assert note.startswith("shutdown")


def test_a_body_that_was_to_be_cancelled_is_not_begun_elsewhere(world: World) -> None:
    node, (request,) = taken(world, "a", request_recovery=True)
    world.sql("UPDATE qsched_firings SET cancel_requested_at = 1 WHERE id = ?", request.firing_id)
    left(node, begun=keys(request))
    assert world.firings("state, outcome") == [("cancelled", "cancelled")]


def test_what_had_not_begun_is_given_back_and_what_had_ended_is_left_as_it_is(world: World) -> None:
    node, (begun, unbegun, ended) = taken(world, "a", "b", "c")
    assert left(node, begun=keys(begun), ended=keys(ended), before=2) == Left(1, 1, 1)
    assert world.firings("id, state, fence") == [
        (begun.firing_id, "lost", 1),
        (unbegun.firing_id, "due", 1),
        (
            ended.firing_id,
            "running",
            1,
        ),  # its end is not ours to guess: the node is stopped, and it is an orphan
    ]
    assert node.world.sql(
        "SELECT state, running, handed_over FROM qsched_nodes WHERE incarnation = ?",
        node.parts.who.incarnation,
    ) == [("stopped", 0, 3)]


def test_the_permit_of_what_had_not_begun_is_given_back_with_it(world: World) -> None:
    world.apply(every("a"), jobs=(python("report", overlap="queue"),))
    node = world.node()
    world.pass_time(10)
    (request,) = node.turn()
    held = "SELECT firing_id FROM qsched_permits WHERE cluster = ?"
    assert world.sql(held, world.store.cluster_id) == [(request.firing_id,)]
    left(node)
    assert world.sql(held, world.store.cluster_id) == [(None,)]


def test_a_node_that_was_declared_dead_settles_nothing(world: World) -> None:
    node, (request,) = taken(world, "a", request_recovery=True)
    node.declare_dead()
    assert left(node, begun=keys(request)) is None
    assert world.firings("state, incarnation") == [("running", request.incarnation)]


def test_a_take_in_flight_is_waited_for_and_its_firings_are_given_back(server_world: World) -> None:
    """The planner was held up in its last take: what that commits meanwhile must not stay behind, taken by nobody."""
    world = server_world
    world.apply(every("a"))
    node = world.node(own_store=True)
    world.pass_time(10)
    taking, go_on = threading.Event(), threading.Event()
    transaction = node.store.transaction

    def slow(name: str, work: Any, **options: Any) -> Any:
        def and_wait(tx: Tx) -> Any:
            done = work(tx)
            if done.requests:
                taking.set()
                assert go_on.wait(30)
            return done

        return transaction(name, and_wait if name == "take" else work, **options)

    node.store.transaction = slow  # type: ignore[method-assign]
    planner = threading.Thread(target=node.turn)
    planner.start()
    assert taking.wait(30)
    seen: list[Left | None] = []
    leaving = threading.Thread(
        target=lambda: seen.append(
            world.store.transaction(
                "abandon", lambda tx: leave(tx, node.parts.who.incarnation, set(), set(), 0)
            )
        )
    )
    leaving.start()
    leaving.join(0.5)
    assert leaving.is_alive(), "the last transaction did not wait for the take"
    go_on.set()
    planner.join()
    leaving.join()
    assert seen == [Left(0, 1, 0)]
    assert world.firings("state, fence") == [("due", 1)]
    assert not node.store.transaction("test", lambda tx: share_alive(tx, node.parts.who.incarnation))


def test_a_node_that_is_declared_dead_while_it_drains_drains_on_under_its_new_incarnation(
    world: World,
) -> None:
    node, (request,) = taken(world, "a")
    node.parts.who.draining = True
    node.declare_dead()
    node.check_in.step()
    assert node.parts.who.incarnation != request.incarnation
    states = world.sql("SELECT state FROM qsched_nodes WHERE incarnation = ?", node.parts.who.incarnation)
    assert states == [("draining",)]
