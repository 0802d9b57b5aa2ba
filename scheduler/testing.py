"""For tests of jobs and of the house itself: a clock that moves when told to, and runs without a node."""

import inspect
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..triggers.job import JobDefinition, JobPolicies
from .around.chain import Chain
from .clock import Clock, Waitable
from .context import JobContext, RunRequest
from .enqueue_order import Asking
from .jobs import declaration_of
from .loaded_job import Allowed, Arguments, LoadedJob

_LOOK = 0.002
"""How often, in real seconds, a manual wait looks whether the clock has been moved."""
START = 1_704_844_800_000_000
"""2024-01-10T00:00:00Z, a Wednesday."""


class ManualClock:
    """A clock whose two hands are moved by the test, each alone; waits end by the monotonic one."""

    def __init__(self, wall: int = START, monotonic: float = 1000.0) -> None:
        self._lock = threading.Lock()
        self._wall = wall
        self._monotonic = monotonic
        self._waits: list[Waitable] = []

    def wall(self) -> int:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def wait(self, waitable: Waitable, timeout: float | None) -> bool:
        """As every clock waits; the time-out passes by the clock's moves alone.

        A wait for a condition may end early, as any may: its caller looks again at what it waits for.
        """
        with self._lock:
            until = None if timeout is None else self._monotonic + timeout
            self._waits.append(waitable)
        try:
            if isinstance(waitable, threading.Condition):
                return self._wait_for_condition(waitable, until)
            while until is None or self._monotonic < until:
                if waitable.wait(_LOOK):
                    return True
            return waitable.wait(0)
        finally:
            with self._lock:
                self._waits.remove(waitable)

    @property
    def waiting(self) -> int:
        """How many threads wait on this clock now."""
        return len(self._waits)

    def advance(self, seconds: float) -> None:
        """Move both hands forward, as time does."""
        with self._lock:
            self._wall += round(seconds * 1_000_000)
        self.advance_monotonic(seconds)

    def set_wall(self, wall: int) -> None:
        """Step the wall clock alone, as an operator or NTP does."""
        with self._lock:
            self._wall = wall

    def advance_monotonic(self, seconds: float) -> None:
        """Move the monotonic hand alone, as if the wall clock had been set back by as much."""
        with self._lock:
            self._monotonic += seconds
            conditions = {each for each in self._waits if isinstance(each, threading.Condition)}
        for condition in conditions:  # polling would lose a notification that comes at the end of a poll
            with condition:
                condition.notify_all()

    def _wait_for_condition(self, condition: threading.Condition, until: float | None) -> bool:
        if until is None or self._monotonic < until:
            condition.wait()
        return until is None or self._monotonic < until


def loaded_from(function: Callable[..., Any]) -> LoadedJob:
    """A function, marked `@job` or not, as a node would have loaded it."""
    declared = declaration_of(function)
    name = declared.name if declared else function.__name__
    target = f"{function.__module__}:{function.__name__}"
    is_async = inspect.iscoroutinefunction(function)
    return LoadedJob(
        definition=JobDefinition(name=name, kind="python", target=target),
        function=function,
        policies=declared.policies if declared else JobPolicies(),
        data=declared.data if declared else {},
        is_async=is_async,
        arguments=Arguments.of(function),
        place=target,
        allowed=Allowed(modules=(function.__module__,)),
        chain=Chain.of((), (declared.scopes if declared else None) or (), is_async=is_async),
    )


def request_for(job: Callable[..., Any] | JobDefinition, **data: Any) -> RunRequest:
    """A first run, on time, of a function or of a command's definition; `replace(…)` makes it another."""
    if isinstance(job, JobDefinition):
        loaded = LoadedJob(definition=job, function=None, policies=job.policies, data=job.data)
    else:
        loaded = loaded_from(job)
    return RunRequest(
        firing_id=1,
        fence=1,
        job=loaded,
        trigger="test",
        scheduled_at=START,
        fired_at=START,
        node="test",
        default_key="cluster/test/2024-01-10T00:00:00Z",
        fire_data=data,
        timeout=loaded.policies.timeout,
    )


def context_for(
    job: Callable[..., Any], clock: Clock | None = None, *, asking: Asking | None = None, **fields: Any
) -> JobContext:
    """A context to call a job's function with, as in `send(ctx=context_for(send, attempt=2), order_id=7)`.

    `fields` are those of RunRequest: attempt, recovering, scheduled_at, trigger_data, … `asking(order, connection)` is called
    for what the job enqueues, and answers as an Enqueued.
    """
    return JobContext(replace(request_for(job), **fields), clock or ManualClock(), asking)
