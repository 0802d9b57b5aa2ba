"""Node: runs jobs for a cluster, in a process of its own or inside any application."""

import asyncio
import logging
import os
import signal
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any

from ..scheduler.apply import apply
from ..scheduler.clock import Clock, SystemClock
from ..scheduler.errors import SchedulerError, StoreUnavailable
from ..scheduler.registry import JobRegistry
from ..scheduler.store.database import Store
from ..scheduler.store.node_rows import DRAINING, STOPPED, set_state
from ..scheduler.store.schema import open_store
from ..triggers.declaration import Declarations, load
from ..triggers.duration import format_duration, parse_duration
from .drain import Drain
from .services import Services
from .settings import NodeSettings

_BACKOFF = (0.2, 5.0)
_ASKED = 0
"""Among the signals: no signal, but `qsched nodes drain`."""

log = logging.getLogger("qsched.node")


class Node:
    """`with Node(url, app=["shop.jobs"]):` runs jobs in background threads; `run()` in the foreground.

    A database that is down delays work, never the caller's start. After a fork the child's copy starts anew, as a new
    incarnation. `loop` runs async jobs on the caller's event loop. Other keywords are fields of NodeSettings; durations
    (`lease`, `check_in`, `drain_timeout`) may be texts (`"15s"`) or timedeltas.
    """

    def __init__(
        self,
        url: str = "sqlite:///qsched.db",
        settings: NodeSettings | None = None,
        *,
        app: Sequence[str] = (),
        loop: asyncio.AbstractEventLoop | None = None,
        **fields: Any,
    ) -> None:
        given = settings or NodeSettings(embedded=True)
        self.settings = replace(given, apps=(*given.apps, *app), **_in_microseconds(fields))
        self.url = url
        self._loop = loop
        self._clock: Clock = SystemClock()
        self._reset()
        _nodes.add(self)

    def _reset(self) -> None:
        self._services: Services | None = None
        self._store: Store | None = None
        self._starter: threading.Thread | None = None
        self._ready = threading.Event()
        self._leaving = threading.Event()
        self._failed: BaseException | None = None
        self._started = False
        self._hurried = False
        self._asked = False
        self._ending = threading.Lock()
        self._code: int | None = None
        # A signal handler may run while the main thread holds a lock: it only puts into this queue, which is reentrant.
        self._signals: SimpleQueue[int] = SimpleQueue()

    # -- inside an application -----------------------------------------------------------------------------------------

    def __enter__(self) -> "Node":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start in background threads and return at once; raises AppError or DeclarationError for what cannot ever work."""
        if self._started:
            return
        declared = self._declared()
        registry = self._registry(declared)
        self._started = True
        self._starter = threading.Thread(
            target=self._start_up,
            args=(declared, registry, self._leaving, self._ready),
            name="qsched-start",
            daemon=True,
        )
        self._starter.start()

    def wait_ready(self, timeout: float | None = None) -> bool:
        """Wait until the node takes work; raises what its start failed of."""
        self._clock.wait(self._ready, timeout)
        if self._failed is not None:
            raise self._failed
        return self._services is not None

    def wait_idle(self, timeout: float) -> bool:
        """Wait until nothing runs here and every end is in the store; False when the time (seconds) ran out."""
        services = self._services
        return services is None or self._clock.wait(services.parts.hand.empty, timeout)

    def stop(self, *, now: bool = False) -> int:
        """Drain and stop: 0 when all that ran has ended, 8 when something was handed over or cancelled.

        Not from the event loop that `loop` named: it waits for the jobs that run there. The node can be started again.
        """
        self._hurried = self._hurried or now
        self._leaving.set()
        self._wait_for_starter()
        code, failed = self._end(), self._failed
        self._reset()
        self._failed = failed
        return code

    def _end(self) -> int:
        """Drain, once: who comes later (an application that stops what was asked to drain) waits, and hears the same."""
        with self._ending:
            if self._code is None:
                services, store = self._services, self._store
                self._code = 0 if services is None else self._drain(services)
                if store is not None and (services is None or services.parts.hand.idle()):
                    store.close()
            return self._code

    def _wait_for_starter(self) -> None:
        """A start that a database holds up ends by itself when it sees that the node leaves; it is not waited for for ever."""
        starter = self._starter
        if starter is None or starter is threading.current_thread():
            return
        until = self._clock.monotonic() + self.settings.drain_timeout / 1_000_000
        while starter.is_alive() and not self._hurry() and self._clock.monotonic() < until:
            starter.join(0.1)
        if starter.is_alive():
            log.warning("node.start_left: the database did not answer")

    @property
    def name(self) -> str:
        """The node's name, as it is known in the cluster."""
        return self.settings.label() if self._services is None else self._services.parts.who.name

    @property
    def incarnation(self) -> int | None:
        """The current incarnation; None before the node has registered."""
        return None if self._services is None else self._services.parts.who.incarnation

    # -- in the foreground ---------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Run until SIGTERM or SIGINT, drain, and answer the exit code; a second signal ends the drain.

        When job threads are left at the end, their firings are settled and the process leaves on the spot.
        """
        self.settings = replace(self.settings, embedded=False)
        before = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            self.start()
            while not self._leaving.is_set() and self._failed is None:
                if self._signalled(1.0):
                    self._leaving.set()
            if self._failed is not None:
                raise self._failed
            return self.stop()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._signals.put(number)

    def _signalled(self, timeout: float) -> bool:
        try:
            self._signals.get(timeout=timeout)
        except Empty:
            return False
        return True

    def _hurry(self) -> bool:
        """Whether the drain is to end now: a second signal came, or `stop(now=True)`."""
        while not self._signals.empty():
            self._hurried = self._signals.get() != _ASKED or self._hurried
        return self._hurried

    def asked_to_drain(self, who: str | None) -> None:
        """The check-in heard that somebody asked (`qsched nodes drain`): the same as SIGTERM, once. Returns at once."""
        if self._asked or self._leaving.is_set():
            return
        self._asked = True
        log.info("node.drain_requested by=%s", who or "-")
        if self.settings.embedded:
            threading.Thread(target=self._end, name="qsched-drain", daemon=True).start()
        else:
            self._signals.put(_ASKED)

    # -- start ---------------------------------------------------------------------------------------------------------

    def _declared(self) -> Declarations | None:
        if not self.settings.files:
            return None
        known = [declared.name for declared in JobRegistry(self.settings.apps).jobs()]
        return load(
            list(self.settings.files), now=self._clock.wall(), known_jobs=known, environ=dict(os.environ)
        )

    def _registry(self, declared: Declarations | None) -> JobRegistry:
        jobs = () if declared is None else declared.jobs
        return JobRegistry(self.settings.apps, jobs, self.settings.allow)

    def _start_up(
        self,
        declared: Declarations | None,
        registry: JobRegistry,
        leaving: threading.Event,
        ready: threading.Event,
    ) -> None:
        """Open the store, apply the files, register, run; a database that is away is waited for."""
        wait = _BACKOFF[0]
        while not leaving.is_set():
            try:
                services = self._open(declared, registry, leaving)
            except StoreUnavailable as error:
                log.warning("node.waiting reason=%s", error)
                self._clock.wait(leaving, wait)
                wait = min(wait * 2, _BACKOFF[1])
                continue
            except BaseException as error:
                self._failed = error
                if self.settings.embedded:
                    log.error("node.failed reason=%s", error)
                leaving.set()
                break
            if services is not None and self._leaving is not leaving:  # it was not waited for
                self._shut(services)
            elif services is not None:
                self._services = services
                said = (self.name, self.incarnation, self.settings.capacity)
                log.info("node.ready name=%s incarnation=%s capacity=%s", *said)
            break
        ready.set()

    def _open(
        self, declared: Declarations | None, registry: JobRegistry, leaving: threading.Event
    ) -> Services | None:
        """The services, running; None when the node was told to leave before it was one."""
        settings = self.settings
        if self._store is None:
            self._store = open_store(self.url, cluster=settings.cluster, create=True, lease=settings.lease)
        store, revision = self._store, None
        if declared is not None and settings.apply != "never":
            revision = self._apply(store, declared)
        if leaving.is_set():
            return None
        services = Services(
            store, settings, registry, loop=self._loop, revision=revision, asked_to_drain=self.asked_to_drain
        )
        services.start()
        return services

    def _apply(self, store: Store, declared: Declarations) -> int:
        applied = apply(
            store, declared, who=f"node {self.settings.label()}", if_newer=self.settings.apply == "if-newer"
        )
        event = {"applied": "declarations.applied", "older": "declarations.older"}.get(
            applied.status, "declarations.current"
        )
        log.log(
            logging.WARNING if applied.status == "older" else logging.INFO,
            "%s namespace=%s revision=%s current=%s added=%s changed=%s renamed=%s revived=%s retired=%s unchanged=%s",
            event,
            applied.namespace,
            applied.revision,
            applied.current,
            len(applied.added),
            len(applied.changed),
            len(applied.renamed),
            len(applied.revived),
            len(applied.retired),
            applied.unchanged,
        )
        return applied.revision

    # -- end -----------------------------------------------------------------------------------------------------------

    def _drain(self, services: Services) -> int:
        parts = services.parts
        timeout = format_duration(self.settings.drain_timeout)
        log.info("node.drain running=%s at_most=%s (a second signal: now)", parts.hand.running(), timeout)
        drain = Drain(services, self._hurry, leaves=not self.settings.embedded)
        # Beside it: a database that does not answer must not hold up the drain.
        saying = threading.Thread(
            target=self._say, args=(services, DRAINING), name="qsched-draining", daemon=True
        )
        saying.start()
        ended = drain.run(self.settings.drain_timeout / 1_000_000)
        code, handed_over = drain.exit_code(), drain.handed_over
        if ended:
            saying.join(2.0)
            self._shut(services, handed_over)
        elif self.settings.embedded:
            # What still runs goes on to check in and is settled when it ends: nobody may run it beside itself.
            threading.Thread(
                target=self._stop_later, args=(services, drain), name="qsched-stop", daemon=True
            ).start()
        else:
            drain.abandon()
        drain.over()
        log.info("node.stop name=%s handed_over=%s", parts.who.name, handed_over)
        return code

    def _stop_later(self, services: Services, drain: Drain) -> None:
        drain.wait_on()
        self._shut(services, drain.handed_over)
        services.parts.store.close()

    def _shut(self, services: Services, handed_over: int = 0) -> None:
        """Nothing runs here any more: end the services, and say so."""
        services.stop()
        self._say(services, STOPPED, handed_over)

    @staticmethod
    def _say(services: Services, state: str, handed_over: int | None = None) -> None:
        incarnation = services.parts.who.incarnation
        try:
            services.parts.store.transaction(
                "node state",
                lambda tx: set_state(tx, incarnation, state, handed_over=handed_over),
                patience=2.0,
            )
        except SchedulerError as error:
            log.warning("node.state_unsaid state=%s reason=%s", state, error)

    # -- fork ----------------------------------------------------------------------------------------------------------

    def _after_fork(self) -> None:
        """The child has none of the threads: its copy is a new node, which starts if this one ran in an application.

        Not under `run()`, and not in a process that a job made for itself: that is no worker of the application, and what it
        took would be lost with it.
        """
        restart = self._started and self.settings.embedded and not _in_own_thread()
        self._reset()
        if restart:
            self.start()


def _in_microseconds(fields: dict[str, Any]) -> dict[str, Any]:
    """Durations as people write them, as NodeSettings keeps them."""
    made = dict(fields)
    for name in {"lease", "check_in", "drain_timeout"} & made.keys():
        if isinstance(made[name], str):
            made[name] = parse_duration(made[name], zero=name == "drain_timeout")
        elif isinstance(made[name], timedelta):
            made[name] = made[name] // timedelta(microseconds=1)
    return made


def _in_own_thread() -> bool:
    return threading.current_thread().name.startswith("qsched-")


_nodes: "weakref.WeakSet[Node]" = weakref.WeakSet()


def _restart_in_child() -> None:
    for node in list(_nodes):
        node._after_fork()


os.register_at_fork(after_in_child=_restart_in_child)
