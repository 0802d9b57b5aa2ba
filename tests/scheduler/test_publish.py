"""What the code says of a job reaches its row, once, and its triggers' clocks."""

from collections.abc import Iterator

import pytest
from qsched.scheduler.apply import apply
from qsched.scheduler.control import fire
from qsched.scheduler.jobs import declaration_of, job
from qsched.scheduler.loaded_job import LoadedJob
from qsched.scheduler.publish import publish_loaded
from qsched.scheduler.store.database import Store
from qsched.triggers.job import JobDefinition, JobPolicies

from support.declared import Declared, Hands, at, dump, new_store, rows, trigger


@pytest.fixture
def store(made_url: str) -> Iterator[Store]:
    store = new_store(made_url, Hands("2024-01-10 12:00"))
    yield store
    store.close()


@job(overlap="queue", timeout="10m", data={"base": "EUR"})
def rates() -> None:
    """A job."""


@job
def plain() -> None:
    """A job that says nothing."""


def loaded(definition: JobDefinition, function: object = rates) -> LoadedJob:
    declared = declaration_of(function)
    assert declared is not None
    return LoadedJob(definition, declared.function, definition.policies.over(declared.policies))


RATES = JobDefinition("rates", "python", "rates")


def test_the_first_node_that_loads_a_job_completes_its_row(store: Store) -> None:
    apply(store, Declared((trigger("a", job="rates"), trigger("b", job="rates"), trigger("c", job="other"))))
    assert publish_loaded(store, "rates", loaded(RATES))
    found = rows(store, "SELECT loaded FROM qsched_jobs ORDER BY name")
    assert found == [(None,), ('{"data":{"base":"EUR"},"overlap":"queue","timeout":600000000}',)]
    assert rows(store, "SELECT overlap FROM qsched_trigger_clocks ORDER BY id") == [
        ("queue",),
        ("queue",),
        ("allow",),
    ]
    assert rows(store, "SELECT COUNT(*) FROM qsched_permits") == [(1,)]
    before = dump(store)
    assert not publish_loaded(store, "rates", loaded(RATES))
    assert not publish_loaded(store, "unknown", loaded(RATES))
    assert dump(store) == before


@job(overlap="queue", timeout="10m", request_recovery=True, max_recoveries=7)
def ledger() -> None:
    """A job that wants to be run again."""


def test_a_manual_start_that_came_before_any_node_had_the_code_is_of_the_same_job(store: Store) -> None:
    definition = JobDefinition("ledger", "python", "ledger")
    apply(store, Declared((trigger("a", job="ledger"),)))
    before = fire(store, "a")
    assert publish_loaded(store, "ledger", loaded(definition, ledger))
    after = fire(store, "a")
    said = "SELECT id, request_recovery, max_recoveries, timeout, permit_key FROM qsched_firings ORDER BY id"
    first, second = rows(store, said)
    assert (first[0], second[0]) == (before, after)
    assert first[1:] == second[1:] == (1, 7, 600_000_000, "job:1")


def test_what_yaml_says_stays_stronger(store: Store) -> None:
    said = JobDefinition("rates", "python", "app:rates", policies=JobPolicies(overlap="skip"))
    apply(store, Declared((trigger("a", job="rates"),), (said,)))
    assert publish_loaded(store, "rates", loaded(said))
    assert rows(store, "SELECT overlap FROM qsched_trigger_clocks") == [("skip",)]
    freed = JobDefinition("rates", "python", "app:rates")
    apply(store, Declared((trigger("a", job="rates"),), (freed,)))
    assert rows(store, "SELECT overlap FROM qsched_trigger_clocks") == [("queue",)]


def test_code_that_says_nothing_writes_nothing(store: Store) -> None:
    apply(store, Declared((trigger("a", job="plain", end_at=at("2030-01-01 00:00")),)))
    before = dump(store)
    assert not publish_loaded(store, "plain", loaded(JobDefinition("plain", "python", "plain"), plain))
    assert dump(store) == before
