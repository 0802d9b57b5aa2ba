"""Who is declared dead, how soon, and whom no stall, jump or outage kills: the formulas on the manual clock."""

from typing import Any

import pytest
from qsched.scheduler.context import RunRequest

from support.hand_node import HandNode, World, every, python

POLL = 0.25
GONE_WITHIN = 4 * 1.0 + POLL
SILENT_WITHIN = 15 + 2 * 1.0 + POLL

pytestmark = pytest.mark.parametrize("world", ["sqlite"], indirect=True)
"""Who is judged dead, and when, depends on no database: what becomes of the rows is tested with the rescue."""


def two_nodes(world: World, **options: Any) -> tuple[HandNode, HandNode]:
    """Two nodes that know each other."""
    one, two = world.node("one", **options), world.node("two")
    world.live(3)
    return one, two


def running_on(world: World, node: HandNode, **policies: Any) -> RunRequest:
    """What the node takes of a trigger whose next slot is an hour away."""
    world.apply(every("tick", 3600), jobs=[python("report", **policies)])
    world.pass_time(3600)
    world.hear()
    (request,) = node.turn()
    world.hear()
    return request


def states(world: World) -> list[tuple[Any, ...]]:
    return world.sql(
        "SELECT name, state, dead_verdict FROM qsched_nodes WHERE cluster = ? ORDER BY incarnation",
        world.store.cluster_id,
    )


# -- how soon, and by whom ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("certain", [True, False], ids=["process-seen-gone", "lock-free"])
@pytest.mark.parametrize("after", [0.25, 0.5, 0.75, 1.0])
def test_a_gone_node_is_replaced_within_four_check_ins(world: World, after: float, certain: bool) -> None:
    one, two = two_nodes(world)
    running_on(world, one, request_recovery=True)
    world.live(after)
    one.kill(certain=certain)
    assert 1 <= world.live_until(lambda: two.taken) <= GONE_WITHIN


@pytest.mark.parametrize("after", [0.25, 0.5, 0.75, 1.0])
def test_a_silent_node_is_replaced_within_a_lease_and_two_check_ins(world: World, after: float) -> None:
    one, two = two_nodes(world)
    running_on(world, one, request_recovery=True, overlap="queue")
    world.live(after)
    one.stopped = True
    assert 14 <= world.live_until(lambda: two.taken) <= SILENT_WITHIN
    assert states(world) == [("one", "dead", "silent"), ("two", "up", None)]


def test_one_that_is_alone_rescues_what_all_the_others_left(world: World) -> None:
    one, two = two_nodes(world)
    running_on(world, one, request_recovery=True)
    one.kill()
    two.kill()
    three = world.node("three")
    assert world.live_until(lambda: three.taken) <= GONE_WITHIN
    assert states(world) == [("one", "dead", "gone"), ("two", "dead", "gone"), ("three", "up", None)]


def test_the_same_name_started_again_rescues_what_its_namesake_ran(world: World) -> None:
    one = world.node("web")
    running_on(world, one, request_recovery=True)
    one.kill()
    world.live(3)
    again = world.node("web")
    assert world.live_until(lambda: again.taken) <= GONE_WITHIN
    assert again.taken[0].recovering


# -- whom nothing kills ------------------------------------------------------------------------------------------------------


def test_a_stall_of_ten_seconds_kills_nobody(world: World) -> None:
    one, _ = two_nodes(world)
    request = running_on(world, one)
    one.stopped = True
    world.live(10)
    one.stopped = False
    world.live(10)
    assert [state for _, state, _ in states(world)] == ["up", "up"]
    one.finish(request)
    assert world.firings("state") == [("succeeded",)]


@pytest.mark.parametrize("seconds", [3600, -3600], ids=["forth", "back"])
def test_a_database_clock_that_jumps_kills_nobody(world: World, seconds: int) -> None:
    one, _ = two_nodes(world)
    running_on(world, one, overlap="queue")
    world.step_clock(seconds)
    world.live(20)
    world.step_clock(seconds)
    world.live(20)
    assert [state for _, state, _ in states(world)] == ["up", "up"]


def test_nor_does_one_that_jumps_twice_between_two_check_ins(world: World) -> None:
    """By the database's time it stays suspected for a whole lease then; by anybody's own for a moment."""
    one, two = two_nodes(world)
    three = world.node("three")
    running_on(world, one, overlap="queue")
    world.live(3)
    for _ in range(2):
        world.step_clock(3600)
        for _ in range(2):
            world.pass_time(0.2)
            two.rescuer.step()
            three.rescuer.step()
    world.live(20)
    assert [state for _, state, _ in states(world)] == ["up", "up", "up"]


def test_a_dead_node_is_found_although_the_clock_was_set_back_behind_its_last_check_in(world: World) -> None:
    one, _ = two_nodes(world)
    running_on(world, one, request_recovery=True)
    one.stopped = True
    world.step_clock(-3600)
    assert 28 <= world.live_until(lambda: states(world)[0][1] == "dead") <= 33


def test_a_stall_of_everybody_kills_nobody(world: World) -> None:
    """The machine slept: all leases have passed when all of them wake."""
    one, two = two_nodes(world)
    running_on(world, one)
    world.pass_time(120)
    for _ in range(3):
        two.tick()  # the one that wakes first
    world.live(20)
    assert [state for _, state, _ in states(world)] == ["up", "up"]


def test_a_database_that_was_away_for_longer_than_the_lease_kills_nobody(world: World) -> None:
    one, two = two_nodes(world, own_store=True)
    three = world.node("three", own_store=True)
    running_on(world, one)
    for node in (one, two, three):
        if node.store is not world.store:
            node.cut_off()
    two.stopped = True  # its store is the world's own: for it, too, the database is away
    world.live(40)
    three.reconnect()  # long before the others
    world.live(1.5)
    one.reconnect()
    two.stopped = False
    world.live(20)
    assert [state for _, state, _ in states(world)] == ["up", "up", "up"]


def test_a_node_that_cannot_check_in_declares_nobody_dead(world: World) -> None:
    one, two = two_nodes(world)
    running_on(world, one)
    one.stopped = True
    two.check_in.steady_since = float("inf")
    two._due["check-in"] = float("inf")
    world.live(30)
    assert [state for _, state, _ in states(world)] == ["up", "up"]


def test_a_node_whose_connection_was_made_again_begins_to_watch_anew(world: World) -> None:
    """A server that restarted has forgotten all session locks, and whoever is back first must not judge by that."""
    one, two = two_nodes(world)
    running_on(world, one)
    one.stopped = True
    world.ended[one.parts.who.incarnation] = True  # free, for its connection is gone
    for _ in range(6):
        world.live(1)
        two.check_in.steady_since = two.clock.monotonic()  # and two's was made again, and again
    assert states(world)[0][1] == "up"
    one.stopped = False
    del world.ended[one.parts.who.incarnation]
    world.live(5)
    assert states(world)[0][1] == "up"


def test_a_process_that_is_found_again_at_the_second_look_is_not_gone(world: World) -> None:
    one, _ = two_nodes(world)
    running_on(world, one)
    one.stopped = True
    for second in range(12):
        world.ended.clear()
        if second % 2:
            world.ended[one.parts.who.incarnation] = False
        world.live(1)
    assert states(world)[0][1] == "up"


def test_a_check_in_that_lands_between_the_looks_saves_a_node(world: World) -> None:
    one, _ = two_nodes(world)
    running_on(world, one)
    world.ended[one.parts.who.incarnation] = True
    for _ in range(8):
        world.live(1)  # whoever checks in is not asked whether it is gone
    assert states(world)[0][1] == "up"
