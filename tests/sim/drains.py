"""A node's orderly end: the house's own drain on virtual time, and a process exit that ends nothing but its greenlets."""

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import qsched.cluster.drain as house
from qsched.cluster.drain import Drain
from qsched.scheduler.errors import SchedulerError
from qsched.scheduler.store.node_rows import DRAINING, STOPPED, set_state

from .timeline import SECOND, Gone

if TYPE_CHECKING:
    from .bodies import Places
    from .process import Process

_LEAVES_WITHIN = 5 * SECOND


class Exit(BaseException):
    """What `os._exit` is in a simulation."""


def _exit(code: int) -> None:
    raise Exit(code)


vars(house)["os"] = SimpleNamespace(_exit=_exit)
vars(house)["logging"] = SimpleNamespace(shutdown=lambda: None, getLogger=logging.getLogger)


class Draining:
    """What the house's Drain asks of a node's services."""

    def __init__(self, process: "Process") -> None:
        self._process = process
        self.parts = process.parts
        self.settler = process.settler
        self.pool: Places = process.pool

    def stop_taking(self) -> None:
        self.parts.who.draining = True
        self._process.loops["planner"].end()

    def takes(self) -> bool:
        return self._process.loops["planner"].running


def drain(process: "Process", down: int) -> None:
    """SIGTERM: what `Node` does then, in greenlets of the process."""
    process.tell("is told to drain")
    process.life.spawn("draining", lambda: _say(process, DRAINING))
    process.life.spawn("drain", lambda: _drain(process, down))


def _drain(process: "Process", down: int) -> None:
    timeout = process.world.plan.timing.drain / SECOND
    services: Any = Draining(process)
    drained = Drain(services, lambda: False, leaves=False)
    process.life.after(int(timeout * SECOND) + _LEAVES_WITHIN, lambda: process.leave(down))
    if drained.run(timeout):
        _stop(process)
        _say(process, STOPPED, drained.handed_over)
    else:
        try:
            drained.abandon()
        except Exit:
            process.world.history.seen["abandoned"] += 1
    process.world.history.seen["drained"] += 1
    process.leave(down)
    raise Gone


def _stop(process: "Process") -> None:
    process.parts.stopping.set()
    for name, loop in process.loops.items():
        if name != "check_in":
            loop.end()
    _until(
        process, lambda: not any(loop.running for name, loop in process.loops.items() if name != "check_in")
    )
    process.loops["check_in"].end()
    _until(process, lambda: not process.loops["check_in"].running)


def _until(process: "Process", over: Callable[[], bool]) -> None:
    """Up to three seconds, as `Services.stop` waits for a loop."""
    for _ in range(30):
        if over():
            return
        process.sleep(SECOND // 10)


def _say(process: "Process", state: str, handed_over: int | None = None) -> None:
    incarnation = process.incarnation
    try:
        process.store.transaction(
            "node state",
            lambda tx: set_state(tx, incarnation, state, handed_over=handed_over),
            patience=2.0,
        )
    except SchedulerError:
        pass
