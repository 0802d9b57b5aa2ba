"""What people do to single firings: what waits ends at once, what runs is asked, what has ended runs again as a new one."""

import json
from collections.abc import Iterator
from threading import Barrier, Thread
from typing import Any

import pytest
from qsched.scheduler.apply import apply
from qsched.scheduler.control import fire
from qsched.scheduler.enqueue import enqueue
from qsched.scheduler.enqueue_order import order_of
from qsched.scheduler.errors import INTERRUPT, Conflict, Refused, UnknownFiring
from qsched.scheduler.firing_acts import ASKED, cancel, retry
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND
from qsched.triggers.job import JobPolicies
from qsched.triggers.retry import RetryPolicy

from support.declared import Hands, command, declared, rows, trigger, write
from support.hand_node import World, python

SEEN = "state, outcome, note, finished_at, error"


@pytest.fixture
def world(made_url: str) -> Iterator[World]:
    world = World(made_url)
    yield world
    world.close()


@pytest.fixture
def reports(store: Store) -> Store:
    """A store with the trigger `a` of the job `report`."""
    apply(store, declared(trigger("a", "0 0 1 1 *", data={"from": "trigger"})))
    return store


def firing(store: Store, firing_id: int, columns: str) -> tuple[Any, ...]:
    (row,) = rows(store, f"SELECT {columns} FROM qsched_firings WHERE id = ?", firing_id)
    return row


def audited(store: Store, verb: str) -> list[tuple[Any, ...]]:
    return rows(store, "SELECT who, object, detail FROM qsched_audit WHERE verb = ? ORDER BY id", verb)


def ended(store: Store, state: str, **options: Any) -> int:
    """A firing of `a` that has come to this end."""
    made = fire(store, "a", **options)
    write(store, "UPDATE qsched_firings SET state = ?, outcome = ? WHERE id = ?", state, state, made)
    return made


# -- cancel ------------------------------------------------------------------------------------------------------------


def test_what_waits_ends_at_once_and_says_who_and_why(reports: Store, hands: Hands) -> None:
    one, other = fire(reports, "a"), fire(reports, "a")
    assert cancel(reports, [other, one], who="ann", reason="wrong day") == {
        one: "cancelled",
        other: "cancelled",
    }
    said = "cancelled by ann: wrong day"
    assert firing(reports, one, SEEN) == ("cancelled", "cancelled", said, hands.instant, None)
    assert audited(reports, "cancel") == [
        ("ann", str(each), '{"reason":"wrong day"}') for each in sorted((one, other))
    ]


def test_a_waiting_retry_ends_too_and_keeps_its_attempts(world: World) -> None:
    def fails() -> None:
        raise ValueError("no stock")

    world.functions["report"] = fails
    retries = RetryPolicy.fixed(3, "10m")
    world.apply(trigger("a", "0 0 1 1 *"), jobs=(python("report", retry=retries),))
    made = fire(world.store, "a")
    node = world.node()
    node.work()
    assert firing(world.store, made, "state, attempt") == ("due", 1)
    assert cancel(world.store, [made]) == {made: "cancelled"}
    assert firing(world.store, made, "state, note") == ("cancelled", "cancelled by somebody")
    assert rows(world.store, "SELECT outcome FROM qsched_attempts") == [("failed",)]
    world.live(1000, tick=10)
    assert node.taken == []


def test_what_runs_is_told_at_its_nodes_next_check_in_and_ends_cancelled(world: World) -> None:
    world.apply(trigger("a", "0 0 1 1 *"), jobs=(python("report", overlap="queue"),))
    made = fire(world.store, "a")
    node = world.node()
    (request,) = node.turn()
    assert cancel(world.store, [made], who="ann") == {made: ASKED}
    assert firing(world.store, made, "state, cancel_requested_by") == ("running", "ann")
    assert not node.context_of(request).cancelled
    node.check_in.step()
    assert node.context_of(request).cancel_reason == INTERRUPT
    node.finish(request, Outcome.failure("ValueError", "broken off"))
    assert firing(world.store, made, "state, outcome") == ("cancelled", "cancelled")
    assert rows(world.store, "SELECT firing_id FROM qsched_permits") == [(None,)]


def test_who_asked_first_is_remembered_and_a_name_is_never_taken_for_an_overlap(world: World) -> None:
    world.apply(trigger("a", "0 0 1 1 *"))
    made = fire(world.store, "a")
    node = world.node()
    (request,) = node.turn()
    cancel(world.store, [made], who="overlap")
    cancel(world.store, [made], who="bob")
    node.check_in.step()
    assert node.context_of(request).cancel_reason == INTERRUPT


@pytest.mark.parametrize("state", ["succeeded", "failed", "lost", "cancelled", "skipped"])
def test_what_has_ended_is_refused_and_nothing_else_of_the_request_is_done(
    reports: Store, state: str
) -> None:
    waits, over = fire(reports, "a"), ended(reports, state)
    with pytest.raises(Refused, match=f"firing {over} has ended: it is {state}"):
        cancel(reports, [waits, over])
    assert firing(reports, waits, "state") == ("due",)
    assert audited(reports, "cancel") == []


def test_a_firing_that_is_not_there_is_unknown_another_clusters_too(
    reports: Store, made_url: str, hands: Hands
) -> None:
    made = fire(reports, "a")
    other = open_store(made_url, create=True, cluster="other", now=hands)
    try:
        for act in (lambda: cancel(other, [made]), lambda: retry(other, made)):
            with pytest.raises(UnknownFiring, match=f"no firing {made}"):
                act()
    finally:
        other.close()


# -- retry -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["failed", "lost", "cancelled"])
def test_a_retry_is_a_new_firing_that_names_the_old_one(reports: Store, hands: Hands, state: str) -> None:
    old = ended(reports, state, data={"day": "monday", "full": True})
    before = firing(reports, old, "*")
    hands.move_to("2024-01-10 15:00")
    new = retry(reports, old, data={"day": "tuesday"}, who="ann")
    assert firing(reports, old, "*") == before
    columns = "state, reason, of_firing, attempt, fence, trigger_id, trigger_name, job_name"
    assert firing(reports, new, columns) == ("due", "manual", old, 0, 0, None, "a", "report")
    assert firing(reports, new, "requested_trigger_id") == firing(reports, old, "requested_trigger_id")
    (data,) = firing(reports, new, "data")
    assert json.loads(data) == {"day": "tuesday", "full": True}
    assert firing(reports, new, "run_at, noticed_at") == (hands.instant,) * 2
    assert firing(reports, new, "request_key") != firing(reports, old, "request_key")
    assert [row[:2] for row in audited(reports, "retry")] == [("ann", str(old))]


def test_it_is_for_the_slot_of_the_old_one(world: World) -> None:
    """The report of the night that is run again in the morning is the night's."""

    def fails() -> None:
        raise ValueError("no stock")

    world.functions["report"] = fails
    world.apply(trigger("a", "5 9 * * *", data={"from": "trigger"}))
    node = world.node()
    world.pass_time(300)
    node.work()
    ((old, slot, trigger_id),) = world.firings("id, scheduled_at, trigger_id")
    world.pass_time(3600)
    new = retry(world.store, old)
    assert firing(world.store, new, "scheduled_at, requested_trigger_id") == (slot, trigger_id)
    (request,) = node.turn()
    assert request.trigger_data == {"from": "trigger"}
    assert request.scheduled_at == slot
    assert node.parts.clock.wall() - world.time < SECOND


def test_one_that_succeeded_needs_force(reports: Store) -> None:
    old = ended(reports, "succeeded")
    with pytest.raises(Refused, match="has succeeded") as caught:
        retry(reports, old)
    assert "--force" in str(caught.value.hint)
    assert firing(reports, retry(reports, old, force=True), "of_firing") == (old,)


@pytest.mark.parametrize(
    ("state", "said"), [("due", "has not ended"), ("running", "has not ended"), ("skipped", "it never ran")]
)
def test_one_that_has_not_ended_or_never_ran_is_refused(reports: Store, state: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        retry(reports, ended(reports, state), force=True)


def test_a_retry_of_what_was_enqueued_has_its_jobs_policies_of_now(reports: Store) -> None:
    old = enqueue(reports, order_of("report", {"day": 1}, {"unique_key": "k"})).id
    assert old is not None
    write(reports, "UPDATE qsched_firings SET state = 'failed'")
    apply(
        reports,
        declared(
            trigger("a", "0 0 1 1 *"),
            jobs=(command("report", policies=JobPolicies(overlap="queue", request_recovery=True)),),
        ),
    )
    new = retry(reports, old)
    (job_id,) = firing(reports, old, "job_id")
    columns = "permit_key, request_recovery, data, unique_key, requested_trigger_id"
    assert firing(reports, new, columns) == (f"job:{job_id}", 1, '{"day":1}', None, None)


def test_the_same_request_is_one_retry_also_when_it_comes_twice_at_once(reports: Store) -> None:
    old, other = ended(reports, "failed"), ended(reports, "failed")
    start, made = Barrier(2), list[int]()

    def one() -> None:
        start.wait(10)
        made.append(retry(reports, old, request_key="r"))

    threads = [Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2
    assert len(set(made)) == 1
    with pytest.raises(Conflict, match="belongs to firing"):
        retry(reports, other, request_key="r")


def test_the_job_of_a_retry_must_be_there(reports: Store) -> None:
    old = ended(reports, "failed")
    write(reports, "UPDATE qsched_jobs SET state = 'retired'")
    with pytest.raises(Refused, match="job 'report' is retired"):
        retry(reports, old)


def test_data_that_cannot_be_read_are_said(reports: Store) -> None:
    old = ended(reports, "failed")
    write(reports, "UPDATE qsched_firings SET data = '[1' WHERE id = ?", old)
    with pytest.raises(Refused, match="cannot be read"):
        retry(reports, old)
