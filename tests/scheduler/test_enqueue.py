"""Enqueueing: one row for each request, however often and by however many it is made, with the policies of its job."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from qsched.scheduler.apply import apply
from qsched.scheduler.client import Scheduler
from qsched.scheduler.enqueue import enqueue
from qsched.scheduler.enqueue_order import Enqueued, order_of
from qsched.scheduler.errors import Conflict, Refused, UnknownJob
from qsched.scheduler.jobs import job
from qsched.scheduler.publish import publish_loaded
from qsched.scheduler.store.database import Store
from qsched.scheduler.testing import loaded_from
from qsched.triggers.errors import DefinitionError, QschedError
from qsched.triggers.instant import HOUR, MINUTE, from_instant
from qsched.triggers.job import JobDefinition, JobPolicies
from qsched.triggers.retry import RetryPolicy

from support.declared import Hands, command, declared, rows, trigger, write

HERE = f"{__name__}:mail"
NOON = "2024-01-10 12:00"


@job(
    request_recovery=True, max_recoveries=7, overlap="queue", timeout="10m", retry=RetryPolicy.fixed(2, "5s")
)
def mail(order_id: int = 0) -> None:
    """A job of this module."""


@job
def plain() -> None:
    """Without policies."""


def ask(store: Store, what: Any = "report", data: Any = None, **options: Any) -> Enqueued:
    return enqueue(store, order_of(what, data, options))


def firing(store: Store, firing_id: int | None, columns: str) -> tuple[Any, ...]:
    (row,) = rows(store, f"SELECT {columns} FROM qsched_firings WHERE id = ?", firing_id)
    return row


@pytest.fixture
def reports(store: Store) -> Store:
    """A store with the command `report`."""
    apply(store, declared(jobs=(command("report"),)))
    return store


# -- the row -----------------------------------------------------------------------------------------------------------


def test_what_is_enqueued_is_due_now_and_has_no_trigger(reports: Store, hands: Hands) -> None:
    done = ask(reports, data={"day": "monday"})
    assert done.created
    columns = "trigger_id, requested_trigger_id, trigger_name, job_name, reason, state, covers, attempt, data"
    assert firing(reports, done.id, columns) == (
        *(None, None, None, "report", "enqueue", "due", 1, 0),
        '{"day":"monday"}',
    )
    assert (
        firing(reports, done.id, "scheduled_at, first_scheduled_at, run_at, noticed_at")
        == (hands.instant,) * 4
    )


def test_it_has_the_policies_of_its_job(store: Store) -> None:
    """Also when no node has loaded the function: whoever enqueues it knows what its decorator says."""
    done = ask(store, mail)
    job_id, *policies = firing(
        store, done.id, "job_id, request_recovery, max_recoveries, timeout, permit_key"
    )
    assert policies == [1, 7, 10 * MINUTE, f"job:{job_id}"]
    assert rows(store, "SELECT name, namespace, state FROM qsched_jobs") == [(HERE, "code", "active")]
    assert rows(store, "SELECT permit_key, firing_id FROM qsched_permits") == [(f"job:{job_id}", None)]


def test_one_that_came_before_its_code_has_its_policies_from_the_first_node_that_loads_it(
    store: Store,
) -> None:
    done = ask(store, HERE)
    columns = "request_recovery, max_recoveries, timeout, permit_key"
    assert firing(store, done.id, columns) == (0, 3, None, None)
    assert publish_loaded(store, HERE, loaded_from(mail))
    (job_id,) = firing(store, done.id, "job_id")
    assert firing(store, done.id, columns) == (1, 7, 10 * MINUTE, f"job:{job_id}")


def test_an_edit_of_the_overlap_holds_for_what_waits(reports: Store) -> None:
    done = ask(reports)
    queued = command("report", policies=JobPolicies(overlap="queue"))
    apply(reports, declared(jobs=(queued,)))
    (job_id,) = firing(reports, done.id, "job_id")
    assert firing(reports, done.id, "permit_key") == (f"job:{job_id}",)


@pytest.mark.parametrize(
    ("when", "later"),
    [
        ({"delay": "1h"}, HOUR),
        ({"delay": timedelta(minutes=2)}, 2 * MINUTE),
        ({"delay": "0s"}, 0),
        ({"at": datetime(2024, 1, 10, 13, tzinfo=UTC)}, HOUR),
        ({"at": datetime(2024, 1, 9, tzinfo=UTC)}, 0),
        ({"delay": None, "at": None}, 0),
    ],
    ids=str,
)
def test_it_runs_when_it_was_asked_for_and_never_in_the_past(
    reports: Store, hands: Hands, when: dict[str, Any], later: int
) -> None:
    done = ask(reports, **when)
    assert firing(reports, done.id, "scheduled_at, run_at") == (hands.instant + later,) * 2


def test_a_higher_priority_comes_first(reports: Store) -> None:
    assert firing(reports, ask(reports).id, "precedence") == (95,)
    assert firing(reports, ask(reports, priority=8).id, "precedence") == (92,)


# -- which job ---------------------------------------------------------------------------------------------------------


def test_an_unknown_name_is_an_error_with_the_nearest_one(reports: Store) -> None:
    with pytest.raises(UnknownJob, match="no job 'reprot'") as caught:
        ask(reports, "reprot")
    assert caught.value.hint == "did you mean 'report'?"


def test_a_retired_job_says_so(reports: Store) -> None:
    apply(reports, declared(jobs=()), allow_mass_prune=True)
    with pytest.raises(Refused, match="job 'report' is retired"):
        ask(reports)


def test_code_that_no_trigger_uses_any_more_can_be_enqueued(store: Store) -> None:
    apply(store, declared(trigger("a", job=HERE), jobs=()))
    apply(store, declared(jobs=()), allow_mass_prune=True)
    assert rows(store, "SELECT state FROM qsched_jobs") == [("retired",)]
    assert ask(store, mail).created
    assert rows(store, "SELECT state FROM qsched_jobs") == [("active",)]


def test_many_that_enqueue_code_nobody_knew_make_one_job(store: Store) -> None:
    answers = at_once(6, lambda _: ask(store, plain))
    assert len({answer.id for answer in answers}) == 6
    assert rows(store, "SELECT COUNT(*) FROM qsched_jobs") == [(1,)]


# -- what is refused at once (B60) -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        *(lambda: 0, {1}, datetime(2024, 1, 1, tzinfo=UTC), Decimal("1.5"), float("nan"), b"x"),
        Path(__file__).open,  # a bound method
    ],
    ids=lambda value: type(value).__name__,
)
def test_data_that_json_cannot_carry_are_refused_at_once_and_by_name(reports: Store, value: object) -> None:
    with pytest.raises(DefinitionError, match=r"'report'.*order\.lines"):
        ask(reports, data={"order": {"lines": [value]}})
    assert rows(reports, "SELECT COUNT(*) FROM qsched_firings") == [(0,)]


def test_an_open_file_is_refused_with_what_to_pass(reports: Store) -> None:
    with Path(__file__).open() as file, pytest.raises(DefinitionError, match=r"input.*pass the path"):
        ask(reports, data={"input": file})


def _inner() -> Callable[[], None]:
    @job
    def nested() -> None:
        """Nobody could import it."""

    return nested


@pytest.mark.parametrize(
    ("what", "options", "said"),
    [
        (lambda: None, {}, "not marked @job"),
        (_inner(), {}, "other processes cannot import"),
        (7, {}, "takes a function marked @job, module:function or a job's name"),
        ("shop.jobs:", {}, "no module:function"),
        ("report", {"delay": "1h", "at": datetime(2024, 1, 1, tzinfo=UTC)}, "delay or at, not both"),
        ("report", {"at": datetime(2024, 1, 1)}, "no time zone"),
        ("report", {"at": "2024-01-01"}, "at must be an aware datetime"),
        ("report", {"delay": 5}, "delay must be text with a unit"),
        ("report", {"delay": "5"}, "not a duration"),
        ("report", {"delay": timedelta(seconds=-1)}, "must not be in the past"),
        ("report", {"delay": timedelta(days=100_000)}, "longer than 200 years"),
        ("report", {"unique_for": "1h"}, "give unique_key too"),
        ("report", {"unique_key": "k", "unique_for": timedelta(0)}, "must not be in the past"),
        ("report", {"unique_key": ""}, "unique_key must be 1 to 250"),
        ("report", {"request_key": "x" * 251}, "request_key must be 1 to 250"),
        ("report", {"priority": 1.5}, "priority must be a whole number"),
        ("report", {"dealy": "1h"}, "does not know dealy: did you mean delay"),
    ],
)
def test_what_could_not_work_is_refused_before_anything_is_opened(
    what: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(QschedError, match=said):
        order_of(what, None, options)


# -- request keys ------------------------------------------------------------------------------------------------------


def test_the_same_request_answers_the_same_firing(reports: Store) -> None:
    first = ask(reports, request_key="r1")
    assert first.created
    assert ask(reports, request_key="r1") == (first.id, False)
    assert ask(reports, request_key="r2").created


def test_a_request_key_of_something_else_is_a_conflict(reports: Store) -> None:
    ask(reports, request_key="r1")
    with pytest.raises(Conflict, match="request key 'r1' belongs to firing"):
        ask(reports, plain, request_key="r1")


def test_a_request_that_comes_in_many_times_at_once_is_one_firing(reports: Store) -> None:
    answers = at_once(6, lambda _: ask(reports, request_key="r1"))
    assert [answer.created for answer in answers].count(True) == 1
    assert len({answer.id for answer in answers}) == 1


# -- unique keys -------------------------------------------------------------------------------------------------------


def test_a_unique_key_is_held_until_its_firing_has_ended(reports: Store, hands: Hands) -> None:
    first = ask(reports, unique_key="order-7")
    assert ask(reports, unique_key="order-7") == (first.id, False)
    write(reports, "UPDATE qsched_firings SET state = 'running'")
    hands.move_to("2024-02-10 12:00")
    assert ask(reports, unique_key="order-7") == (first.id, False)
    write(reports, "UPDATE qsched_firings SET state = 'failed'")
    second = ask(reports, unique_key="order-7")
    assert second.created
    assert firing(reports, first.id, "unique_key, idempotency_key") == (None, "order-7")
    assert ask(reports, unique_key="order-7") == (second.id, False)


def test_for_a_duration_it_is_held_that_long_and_no_longer(reports: Store, hands: Hands) -> None:
    first = ask(reports, unique_key="k", unique_for="1h")
    write(reports, "UPDATE qsched_firings SET state = 'succeeded'")
    hands.move_to("2024-01-10 12:59")
    assert ask(reports, unique_key="k") == (first.id, False)
    hands.move_to("2024-01-10 13:00")
    assert ask(reports, unique_key="k", unique_for=timedelta(hours=1)).created


def test_one_whose_duration_is_over_gives_it_up_although_it_waits(reports: Store, hands: Hands) -> None:
    first = ask(reports, unique_key="k", unique_for="1h", delay="2h")
    hands.move_to("2024-01-10 13:30")
    assert ask(reports, unique_key="k").created
    assert firing(reports, first.id, "state, unique_key") == ("due", None)


def test_keys_are_the_clusters_own(reports: Store, made_url: str, hands: Hands) -> None:
    from qsched.scheduler.store.schema import open_store

    ask(reports, unique_key="k", request_key="r")
    other = open_store(made_url, create=True, cluster="other", now=hands)
    try:
        assert ask(other, plain, unique_key="k", request_key="r").created
    finally:
        other.close()


def test_of_many_that_enqueue_one_key_at_once_exactly_one_creates(reports: Store) -> None:
    for number in range(5):
        answers = at_once(4, lambda _, number=number: ask(reports, unique_key=f"k{number}"))  # type: ignore[misc]
        assert [answer.created for answer in answers].count(True) == 1
        assert len({answer.id for answer in answers}) == 1


def test_of_many_that_want_a_key_that_is_over_exactly_one_gets_it(reports: Store) -> None:
    ask(reports, unique_key="k")
    write(reports, "UPDATE qsched_firings SET state = 'lost'")
    answers = at_once(6, lambda _: ask(reports, unique_key="k"))
    assert [answer.created for answer in answers].count(True) == 1
    assert rows(reports, "SELECT COUNT(*) FROM qsched_firings WHERE unique_key = 'k'") == [(1,)]


# -- the client --------------------------------------------------------------------------------------------------------


def test_a_client_makes_the_store_it_enqueues_into(sqlite_url: str) -> None:
    with Scheduler(sqlite_url) as scheduler:
        done = scheduler.enqueue(mail, {"order_id": 7}, delay="1h", unique_key="mail:7")
        assert done.created
        assert scheduler.enqueue(HERE, unique_key="mail:7") == (done.id, False)
        (row,) = rows(scheduler._open(create=False), "SELECT data, run_at, noticed_at FROM qsched_firings")
    assert json.loads(row[0]) == {"order_id": 7}
    assert from_instant(row[1]) - from_instant(row[2]) == timedelta(hours=1)


def test_a_declared_job_keeps_its_name(store: Store) -> None:
    apply(store, declared(jobs=(JobDefinition("fetch", "python", HERE),)))
    assert firing(store, ask(store, "fetch").id, "job_name") == ("fetch",)


def at_once(count: int, do: Callable[[int], Enqueued]) -> list[Enqueued]:
    """What so many threads are answered that all begin together."""
    answers: list[Enqueued] = []
    start = Barrier(count)

    def one(number: int) -> None:
        start.wait(10)
        answers.append(do(number))

    threads = [Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == count
    return answers
