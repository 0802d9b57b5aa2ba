"""A node that was declared dead, or cannot know that it was not, learns it, ends what must end, and finishes nothing twice."""

from typing import Any

import pytest
from qsched.cluster.check_in import CheckInService, Telling
from qsched.scheduler.context import RunRequest
from qsched.scheduler.errors import LEASE_LOST
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store.node_rows import NodeFacts
from qsched.triggers.instant import SECOND

from support.hand_node import HandNode, World, every, python

on_sqlite = pytest.mark.parametrize("world", ["sqlite"], indirect=True)
"""Of tests of the node itself, which ask nothing special of its database."""


def running(world: World, node: HandNode, **policies: Any) -> RunRequest:
    """The node runs the first firing of a trigger whose next slot is an hour away."""
    world.apply(every("tick", 3600), jobs=[python("report", **policies)])
    world.pass_time(3600)
    world.hear()
    (request,) = node.turn()
    world.hear()
    return request


def told(node: HandNode, request: RunRequest) -> str | None:
    return node.context_of(request).cancel_reason


# -- past its own trust ------------------------------------------------------------------------------------------------------


@on_sqlite
def test_past_its_trust_a_node_tells_what_holds_a_permit_and_lets_the_others_run_on(world: World) -> None:
    one = world.node("one", own_store=True)
    world.apply(
        every("alone", 3600, job="alone"),
        every("any", 3600, job="any"),
        jobs=[python("alone", overlap="queue"), python("any")],
    )
    world.functions |= {"alone": lambda: None, "any": lambda: None}
    world.pass_time(3600)
    world.hear()
    requests = {request.trigger: request for request in one.turn() + one.turn()}
    one.cut_off()
    world.live(13.75)
    assert told(one, requests["alone"]) is None
    world.live(0.5)  # and its lease, by the others' clock, has 0.75 s to go
    assert told(one, requests["alone"]) == LEASE_LOST
    world.live(30)
    assert told(one, requests["any"]) is None


@on_sqlite
def test_however_long_its_trust_lasts_it_is_looked_at_each_second(world: World) -> None:
    """A wait stands still while the machine sleeps: who slept through its lease must not sleep on for the rest of it."""
    one = world.node("one", own_store=True)
    request = running(world, one, overlap="queue")
    one.cut_off()
    waits = one.self_fence.step()
    world.pass_time(60)
    assert waits <= 1
    one.self_fence.step()
    assert told(one, request) == LEASE_LOST


@on_sqlite
def test_an_episode_without_trust_is_told_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    one = world.node("one", own_store=True)
    running(world, one, overlap="queue")
    for _ in range(2):
        caplog.clear()
        one.cut_off()
        world.live(60)
        assert caplog.text.count("node.self_fenced told=1") == 1
        one.reconnect()
        world.live(3)


@on_sqlite
@pytest.mark.parametrize("recovers", [True, False])
def test_what_stopped_for_a_lease_that_was_not_lost_ends_like_any_lost_attempt(
    world: World, recovers: bool
) -> None:
    """Nobody had declared the node dead: its check-in lands again, and the end of the body is its own to write."""
    one = world.node("one", own_store=True)
    request = running(world, one, overlap="queue", request_recovery=recovers)
    one.cut_off()
    world.live(20)
    one.end(request, Outcome.cancelled(told(one, request) or ""))
    one.reconnect()
    one.settle()
    world.live(3)
    if recovers:
        assert [(again.fence, again.recovering) for again in one.taken] == [(2, True)]
    else:
        assert world.firings("state, outcome") == [("lost", "lost")]
        assert world.sql(
            "SELECT firing_id FROM qsched_permits WHERE cluster = ?", world.store.cluster_id
        ) == [(None,)]


@on_sqlite
def test_a_lost_end_that_landed_and_is_repeated_is_no_fencing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    one = world.node("one")
    request = running(world, one, request_recovery=True)
    one.finish(request, Outcome.cancelled(LEASE_LOST))
    before = world.firings("*")
    one.finish(request, Outcome.cancelled(LEASE_LOST))
    assert world.firings("*") == before
    assert "settle.fenced" not in caplog.text


@on_sqlite
def test_a_body_that_ended_well_in_spite_of_it_has_ended_well(world: World) -> None:
    one = world.node("one", own_store=True)
    request = running(world, one, overlap="queue", request_recovery=True)
    one.cut_off()
    world.live(20)
    assert told(one, request) == LEASE_LOST
    one.end(request)
    one.reconnect()
    one.settle()
    assert world.firings("state, recoveries") == [("succeeded", 0)]


# -- declared dead -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [Outcome.success(), Outcome.cancelled(LEASE_LOST)], ids=["deaf", "stops"])
def test_a_node_that_comes_back_after_its_rescue_tells_all_and_its_completion_is_refused(
    world: World, outcome: Outcome, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = world.node("one"), world.node("two")
    world.live(3)
    request = running(world, one, request_recovery=True)
    old = one.parts.who.incarnation
    one.stopped = True
    world.live_until(lambda: two.taken)
    (again,) = two.taken
    one.stopped = False
    world.live(0.25)
    assert told(one, request) == LEASE_LOST
    assert one.parts.who.incarnation > old
    before = world.firings("*")
    one.finish(request, outcome)
    assert world.firings("*") == before
    assert "settle.fenced" in caplog.text
    two.finish(again)
    assert world.firings("state, fence") == [("succeeded", 2)]


def test_a_completion_that_nobodys_rescue_has_overtaken_is_accepted(world: World) -> None:
    one = world.node("one")
    request = running(world, one)
    one.declare_dead()
    one.finish(request)  # the row decides, not the node's label
    assert world.firings("state") == [("succeeded",)]


@on_sqlite
def test_a_body_left_from_an_earlier_life_keeps_its_place(world: World) -> None:
    one = world.node("one", capacity=2)
    zombie = running(world, one)
    one.declare_dead()
    world.live(1)
    assert one.parts.hand.free() == 1
    world.apply(*(every(f"more{number}", 3600) for number in range(3)), every("tick", 3600))
    world.pass_time(3600)
    world.hear()
    one.turn()
    assert len(one.taken) == 2
    one.finish(zombie)
    one.turn()
    assert len(one.taken) == 2


@on_sqlite
def test_a_node_does_not_rescue_what_it_still_runs_itself(world: World) -> None:
    one = world.node("one")
    request = running(world, one, request_recovery=True)
    one.declare_dead()
    world.live(20)
    assert one.taken == [request]
    assert world.firings("state, recoveries") == [("running", 0)]
    one.end(request, Outcome.cancelled(LEASE_LOST))
    one.settle()
    world.live(3)
    assert [again.recovering for again in one.taken] == [True]


@on_sqlite
def test_what_was_taken_in_an_earlier_life_is_not_begun_in_this_one(world: World) -> None:
    one = world.node("one")
    request = running(world, one)
    one.declare_dead()
    world.live(1)
    assert one.parts.who.may_start(one.clock.monotonic())
    assert not one.settler.may_begin(request)


def test_a_firing_that_somebody_took_away_is_told(world: World) -> None:
    """Its node lives, but its row says otherwise: a hand made it due, and another node runs it by now."""
    one, two = world.node("one"), world.node("two")
    request = running(world, one)
    one.parts.hand.capacity = 1
    world.sql("UPDATE qsched_firings SET state = 'due', incarnation = NULL WHERE id = ?", request.firing_id)
    world.live(1)
    assert told(one, request) == LEASE_LOST
    assert [again.fence for again in two.taken] == [2]


@on_sqlite
def test_what_runs_as_it_should_is_told_nothing(world: World) -> None:
    one = world.node("one")
    request = running(world, one, overlap="queue")
    world.live(40)
    assert told(one, request) is None


# -- what a check-in says and hears --------------------------------------------------------------------------------------------


@on_sqlite
def test_a_request_to_drain_is_told_once(world: World) -> None:
    one = world.node("one")
    world.sql(
        "UPDATE qsched_nodes SET drain_requested_at = 1, drain_requested_by = 'anna' WHERE incarnation = ?",
        one.parts.who.incarnation,
    )
    world.live(5)
    assert one.drains == ["anna"]


def test_a_check_in_publishes_what_is_red_and_how_often_it_comes(world: World) -> None:
    one = world.node("one")
    reds = {"planner": "no success for 9 s"}
    facts = NodeFacts("two", "host", 1, None, 5, "0", None, None, one.store.lease, check_in=2 * SECOND)
    telling = Telling(lambda firing_id, fence, reason: None, lambda reason: None, reds=lambda: reds)
    service = CheckInService(one.parts, facts, 2 * SECOND, telling)
    service.register()
    service.step()
    columns = "health, check_in, session_lock, pid_started_at"
    row = f"SELECT {columns} FROM qsched_nodes WHERE incarnation = ?"
    assert world.sql(row, one.parts.who.incarnation) == [
        ('{"planner": "no success for 9 s"}', 2 * SECOND, 0, None)
    ]
    reds.clear()
    service.step()
    assert world.sql(row, one.parts.who.incarnation)[0][0] is None


@on_sqlite
def test_check_ins_are_steady_from_the_first_that_lands_until_one_fails(world: World) -> None:
    one = world.node("one", own_store=True)
    world.live(3)
    assert one.check_in.steady_since < one.clock.monotonic()
    one.cut_off()
    world.live(1)
    assert one.check_in.steady_since == float("inf")
    one.reconnect()
    world.live(1)
    assert one.check_in.steady_since <= one.clock.monotonic()
    since = one.check_in.steady_since
    world.live(3)
    assert one.check_in.steady_since == since


@on_sqlite
@pytest.mark.parametrize("over", [False, True])
def test_what_ended_and_landed_a_moment_ago_is_no_firing_that_was_taken_away(
    world: World, caplog: pytest.LogCaptureFixture, over: bool
) -> None:
    one = world.node("one")
    request = running(world, one)
    if over:
        one.end(request)
    # Its end has landed, and the settler is about to hear so; or else somebody else has ended it.
    world.sql("UPDATE qsched_firings SET state = 'succeeded' WHERE id = ?", request.firing_id)
    one.check_in.step()
    assert ("check_in.not_ours" in caplog.text) is not over
