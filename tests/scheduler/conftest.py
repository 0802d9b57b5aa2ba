"""Worker pools that end with their test."""

from collections.abc import Iterator
from typing import Any

import pytest
from qsched.scheduler.clock import Clock, SystemClock
from qsched.scheduler.worker_pool import WorkerPool

from support.pool_owner import MakePool, Owner


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
