"""What has ended is written once, under the incarnation that took it, whatever was lost or repeated on the way."""

from typing import Any

import pytest
from qsched.scheduler import judging
from qsched.scheduler.context import RunRequest
from qsched.scheduler.errors import LEASE_LOST, StoreError
from qsched.scheduler.outcome import Outcome
from qsched.triggers.retry import RetryPolicy

from support.faults import Faults
from support.hand_node import HandNode, World, every, python

BOOM = Outcome.failure("ValueError", "boom")


def started(world: World, count: int = 1, **options: Any) -> tuple[HandNode, list[RunRequest]]:
    """A node that has just taken the first firing of each of `count` triggers."""
    policies = options.pop("policies", {})
    world.apply(*(every(f"t{number}", 60) for number in range(count)), jobs=[python("report", **policies)])
    node = world.node(**options)
    world.pass_time(60)
    world.hear()
    return node, node.turn()


def test_a_batch_of_ends_is_settled_in_one_transaction_and_frees_their_places(world: World) -> None:
    node, requests = started(world, 5)
    assert node.parts.hand.free() == 15
    for request in requests:
        node.end(request)
    node.settle()
    assert world.firings("state") == [("succeeded",)] * 5
    assert node.parts.hand.free() == 20


def test_a_settle_that_landed_and_is_repeated_is_no_fencing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    node, (request,) = started(world)
    node.finish(request)
    before = world.firings("*")
    node.finish(request)
    assert world.firings("*") == before
    assert "settle.fenced" not in caplog.text


def test_a_failure_that_landed_as_a_retry_and_is_repeated_is_no_fencing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    node, (request,) = started(world, policies={"retry": RetryPolicy.fixed(3, "5s")})
    node.finish(request, BOOM)
    before = world.firings("*")
    node.finish(request, BOOM)
    assert world.firings("*") == before
    assert "settle.fenced" not in caplog.text


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "lost"])
@pytest.mark.parametrize("outcome", [Outcome.success(), BOOM], ids=["success", "failure"])
def test_a_settle_whose_answer_was_lost_is_written_once(
    world: World, landed: bool, outcome: Outcome, caplog: pytest.LogCaptureFixture
) -> None:
    policies = {"retry": RetryPolicy.fixed(3, "5s"), "overlap": "queue"}
    node, (request,) = started(world, policies=policies, own_store=True)
    faults = Faults(node.store)
    faults.lose_commit("settle", landed=landed)
    node.finish(request, outcome)
    assert faults.raised == 1
    assert world.firings("state, attempt") == [("succeeded", 0) if outcome is not BOOM else ("due", 1)]
    assert world.sql("SELECT firing_id FROM qsched_permits WHERE cluster = ?", world.store.cluster_id) == [
        (None,)
    ]
    assert node.parts.hand.empty.is_set()
    assert "settle.fenced" not in caplog.text


def test_a_node_that_was_declared_dead_changes_nothing_any_more(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    one, (request,) = started(world)
    one.declare_dead()
    world.sql(
        "UPDATE qsched_firings SET state = 'due', incarnation = NULL WHERE cluster = ?",
        world.store.cluster_id,
    )
    two = world.node("two")
    (again,) = two.turn()
    assert again.fence == 2
    before = world.firings("*")
    one.finish(request, BOOM)
    assert world.firings("*") == before
    assert "settle.fenced" in caplog.text
    assert one.parts.hand.empty.is_set()
    two.finish(again)
    assert world.firings("state, fence") == [("succeeded", 2)]


def test_a_fenced_end_does_not_take_its_batch_along(world: World) -> None:
    node, requests = started(world, 3)
    world.sql("UPDATE qsched_firings SET state = 'lost' WHERE id = ?", requests[1].firing_id)
    for request in requests:
        node.end(request)
    node.settle()
    assert world.firings("state") == [("succeeded",), ("lost",), ("succeeded",)]


def test_a_node_that_was_declared_dead_goes_on_under_a_new_incarnation(world: World) -> None:
    node, (request,) = started(world)
    old = node.parts.who.incarnation
    node.declare_dead()
    world.pass_time(1)
    assert node.turn() == []
    assert node.parts.who.incarnation > old
    assert node.context_of(request).cancel_reason == LEASE_LOST
    world.pass_time(60)
    (fresh,) = node.turn()
    node.finish(fresh)
    assert world.firings("state, incarnation", f"id = {fresh.firing_id}") == [
        ("succeeded", node.parts.who.incarnation)
    ]
    states = world.sql(
        "SELECT incarnation, state FROM qsched_nodes WHERE cluster = ? ORDER BY incarnation",
        world.store.cluster_id,
    )
    assert states == [(old, "dead"), (node.parts.who.incarnation, "up")]


def test_a_dead_incarnation_takes_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.apply(every("tick", 60))
    node = world.node()
    world.pass_time(60)
    world.hear()
    node.declare_dead()
    node.planner.step()
    assert node.taken == []
    assert world.firings("id") == []
    assert "node.fenced" in caplog.text


def test_a_node_whose_lease_has_passed_takes_nothing_until_it_has_checked_in(world: World) -> None:
    world.apply(every("tick", 60))
    node = world.node()
    world.pass_time(16)
    world.step_clock(44)
    node.parts.who.trusted_until = 1e9  # as if its own clock had not seen the time pass
    node.planner.step()
    assert node.taken == []
    node.parts.who.trusted_until = 0.0
    assert len(node.turn()) == 1


def test_what_was_taken_before_a_dead_verdict_is_not_begun_after_it(world: World) -> None:
    """Declared dead between the take's commit and the body's first instruction: others may have the firing by now."""
    node, (request,) = started(world)
    node.declare_dead()
    node.check_in.step()
    assert node.parts.who.may_start(node.clock.monotonic())
    assert not node.settler.may_begin(request)
    node.run()
    assert world.firings("state, incarnation, outcome") == [("due", None, None)]


def test_a_drain_between_commit_and_begin_gives_the_firing_back(world: World) -> None:
    one, (request,) = started(world, policies={"overlap": "queue"})
    two = world.node("two")
    one.parts.who.draining = True
    assert one.run() == []
    assert world.firings("state, fence, run_at, started_at") == [("due", 1, request.scheduled_at, None)]
    assert one.turn() == []
    (again,) = two.turn()
    assert (again.fence, again.attempt) == (2, 0)
    two.finish(again)
    assert world.firings("state, attempt") == [("succeeded", 0)]


def test_reconciliation_gives_back_what_runs_here_by_the_ledger_alone(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    node, (known, unknown) = started(world, 2, policies={"overlap": "allow"})
    node.parts.hand.drop([(unknown.firing_id, unknown.fence)])
    node.check_in.step()
    found = dict(world.firings("id, state"))
    assert found == {known.firing_id: "running", unknown.firing_id: "due"}
    assert "reconcile.released firings=1" in caplog.text


def test_reconciliation_leaves_takes_in_flight_alone(world: World) -> None:
    node, (request,) = started(world)
    node.parts.hand.drop([(request.firing_id, request.fence)])
    ((take_no,),) = world.firings("take_no")
    hand = node.parts.hand
    hand._next_take = take_no - 1
    with hand.taking() as number:  # its commit is through, its rows are not in hand yet
        assert number == take_no
        node.check_in.step()
        assert world.firings("state") == [("running",)]
    node.check_in.step()
    assert world.firings("state") == [("due",)]


def test_an_end_that_cannot_be_stored_is_stored_without_its_text(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = judging._error_text

    def refusing(outcome: Outcome) -> str | None:
        if outcome.error_message == "poison":
            raise StoreError("the driver cannot say this")
        return real(outcome)

    monkeypatch.setattr(judging, "_error_text", refusing)
    node, requests = started(world, 3)
    for request in requests:
        node.end(request, Outcome.failure("ValueError", "poison") if request is requests[1] else BOOM)
    node.settle()
    assert world.firings("state") == [("failed",)] * 3
    assert "unstorable_outcome" in caplog.text
    assert node.parts.hand.empty.is_set()


def test_an_end_the_store_refuses_altogether_is_not_run_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(outcome: Outcome) -> str | None:
        raise ValueError("whatever it is")

    node, (request,) = started(world)
    monkeypatch.setattr(judging, "_error_text", refusing)
    node.finish(request, BOOM)
    for _ in range(3):
        world.pass_time(1)
        assert node.turn() == []
    assert world.firings("state, fence") == [("running", 1)]
    assert node.parts.hand.running() == 1


def test_text_that_no_database_takes_is_stored_cleaned(world: World) -> None:
    node, (request,) = started(world)
    node.finish(request, Outcome.failure("Value\0Error", "a\0b \ud800 " + "é" * 10_000))
    ((state, error),) = world.firings("state, error")
    assert state == "failed"
    assert "a\ufffdb \ufffd é" in error
