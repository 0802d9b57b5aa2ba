"""What nodes driven by hand are made of besides the house's own parts: a clock, a session lock, jobs by name."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from qsched.scheduler.clock import Waitable
from qsched.scheduler.errors import JobUnloadable
from qsched.scheduler.identity import Identity
from qsched.scheduler.jobs import declaration_of
from qsched.scheduler.loaded_job import Arguments, LoadedJob
from qsched.scheduler.registry import JobRegistry
from qsched.scheduler.store.session_lock import SessionLock
from qsched.scheduler.store.tx import Tx
from qsched.triggers.instant import SECOND
from qsched.triggers.job import JobDefinition

Function = Callable[..., Any]


class Time(Protocol):
    """Where time passes: a World."""

    time: int
    elapsed: float

    def pass_time(self, seconds: float) -> None: ...


class HandLock(SessionLock):
    """A session lock that is always held: whether it is free is the world's to say."""

    def __init__(self) -> None:
        super().__init__(Identity(""), None)

    def held(self, tx: Tx, incarnation: int, backend: int) -> bool:
        return True

    def let_go(self, tx: Tx, incarnation: int) -> None:
        return None


class HandClock:
    """A node's clock: the world's time, and a wall of its own that can be wrong. Waiting lets the world's time pass."""

    def __init__(self, world: Time) -> None:
        self._world = world
        self.wrong = 0

    def wall(self) -> int:
        return self._world.time + self.wrong

    def monotonic(self) -> float:
        return self._world.elapsed

    def wait(self, waitable: Waitable, timeout: float | None) -> bool:
        assert isinstance(waitable, threading.Event)
        if waitable.is_set():
            return True
        assert timeout is not None, "nobody is there who could end this wait"
        self._world.pass_time(timeout)
        return waitable.is_set()

    def set_wrong(self, seconds: float) -> None:
        """Step this host's wall clock so far from the truth."""
        self.wrong = round(seconds * SECOND)


class FunctionRegistry(JobRegistry):
    """Loads jobs from the test's functions by name, but for those this node `cannot`."""

    def __init__(self, functions: Mapping[str, Function], cannot: Sequence[str] = ()) -> None:
        super().__init__()
        self._functions = functions
        self.cannot = set(cannot)

    def resolve(self, definition: JobDefinition) -> LoadedJob:
        if definition.name in self.cannot or definition.name not in self._functions:
            raise JobUnloadable(f"cannot import {definition.name}: not on this node")
        function = self._functions[definition.name]
        declared = declaration_of(function)
        policies = definition.policies if declared is None else definition.policies.over(declared.policies)
        return LoadedJob(definition, function, policies, definition.data, arguments=Arguments.of(function))
