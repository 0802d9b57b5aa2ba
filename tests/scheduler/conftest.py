"""What several of these rooms' tests stand on: a store under a manual clock, and worker pools that end with their test."""

from collections.abc import Iterator
from typing import Any

import pytest
from qsched.scheduler.clock import Clock, SystemClock
from qsched.scheduler.running.worker_pool import WorkerPool
from qsched.scheduler.store.database import Store

from support.declared import Hands, new_store
from support.pool_owner import MakePool, Owner


@pytest.fixture
def hands() -> Hands:
    """The database's clock, at noon of a Wednesday until the test moves it."""
    return Hands("2024-01-10 12:00")


@pytest.fixture
def store(made_url: str, hands: Hands) -> Iterator[Store]:
    """An empty store under that clock, on each of the three databases in turn."""
    store = new_store(made_url, hands)
    yield store
    store.close()


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def make_pool(owner: Owner) -> Iterator[MakePool]:
    """Makes a pool of this test's owner."""
    made: list[WorkerPool] = []

    def pool(capacity: int = 4, clock: Clock | None = None, **said: Any) -> WorkerPool:
        made.append(WorkerPool(capacity, owner, clock or SystemClock(), **said))
        return made[-1]

    yield pool
    for each in made:
        each.close()
