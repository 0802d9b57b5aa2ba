"""An owner for worker pools that remembers what it is told, and what tests ask a pool to run."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from qsched.scheduler.context import RunRequest
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.running.worker_pool import WorkerPool
from qsched.scheduler.testing import request_for
from qsched.triggers.job import JobDefinition

MakePool = Callable[..., WorkerPool]


class Owner:
    """Remembers what a pool tells it; `begins` and `ends` are what it does when asked or told."""

    def __init__(self) -> None:
        self.begins: Callable[[RunRequest], bool] = lambda request: True
        self.ends: Callable[[RunRequest], None] = lambda request: None
        self.outcomes: dict[int, Outcome] = {}
        self.ended_at: dict[int, float] = {}
        self.given_back: list[int] = []

    def may_begin(self, request: RunRequest) -> bool:
        return self.begins(request)

    def ended(self, request: RunRequest, outcome: Outcome, ended_at: float) -> None:
        self.outcomes[request.firing_id] = outcome
        self.ended_at[request.firing_id] = ended_at
        self.ends(request)

    def released(self, request: RunRequest) -> None:
        self.given_back.append(request.firing_id)

    def kinds(self) -> dict[int, str]:
        return {number: outcome.kind for number, outcome in sorted(self.outcomes.items())}


class Gate:
    """A body that waits until it is let through."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.inside = threading.Semaphore(0)

    def __call__(self) -> None:
        self.inside.release()
        assert self.open.wait(60)

    __name__ = "gate"


def ask(job: Callable[..., Any] | JobDefinition, number: int = 1, **fields: Any) -> RunRequest:
    """The request to run firing `number` of a job."""
    return replace(request_for(job), firing_id=number, **fields)


def new_threads(before: set[threading.Thread]) -> set[threading.Thread]:
    """The threads that run now and did not run `before`."""
    return set(threading.enumerate()) - before
