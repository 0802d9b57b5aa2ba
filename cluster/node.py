"""Node: runs jobs for a cluster, in a process of its own or inside any application."""

import asyncio
import logging
import os
import signal
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any

from ..scheduler.around.hooks import Hooks
from ..scheduler.clock import Clock, SystemClock
from ..scheduler.errors import SchedulerError, StoreUnavailable
from ..scheduler.listeners import Audience, Listener
from ..scheduler.store.node_rows import DRAINING, STOPPED, set_state
from ..triggers.duration import format_duration, parse_duration
from .drain import Drain
from .services import Around, Services
from .settings import NodeSettings
from .start import Start

_ASKED = 0
"""Among the signals: no signal, but `qsched nodes drain`."""

log = logging.getLogger("qsched.node")


@dataclass(eq=False)
class _Life:
    """A node from its start to its stop: made anew for each, and in a forked child."""

    start: Start | None = None
    starter: threading.Thread | None = None
    ready: threading.Event = field(default_factory=threading.Event)
    failed: BaseException | None = None
    services: Services | None = None
    leaving: threading.Event = field(default_factory=threading.Event)
    # A signal handler may run while the main thread holds a lock: it only puts into this queue, which is reentrant.
    signals: SimpleQueue[int] = field(default_factory=SimpleQueue)
    hurried: bool = False
    asked: bool = False
    ending: threading.Lock = field(default_factory=threading.Lock)
    code: int | None = None
    """How its drain ended."""

    def hurry(self) -> bool:
        """Whether the drain is to end now: a second signal came, or `stop(now=True)`."""
        while not self.signals.empty():
            self.hurried = self.signals.get() != _ASKED or self.hurried
        return self.hurried


class Node:
    """`with Node(url, app=["shop.jobs"]):` runs jobs in background threads; `run()` in the foreground.

    A database that is down delays work, never the caller's start. After a fork the child's copy starts anew, as a new
    incarnation. `loop` runs async jobs on the caller's event loop; `listeners` hear the node's events as with `listen`.
    Other keywords are fields of NodeSettings; durations (`lease`, `check_in`, `drain_timeout`, `leader_ttl`) may be texts
    (`"15s"`) or timedeltas.
    """

    def __init__(
        self,
        url: str = "sqlite:///qsched.db",
        settings: NodeSettings | None = None,
        *,
        app: Sequence[str] = (),
        loop: asyncio.AbstractEventLoop | None = None,
        listeners: Sequence[Listener] = (),
        **fields: Any,
    ) -> None:
        given = settings or NodeSettings(embedded=True)
        self.settings = replace(given, apps=(*given.apps, *app), **_in_microseconds(fields))
        self.url = url
        self._loop = loop
        self._audience = Audience(listeners)
        self._clock: Clock = SystemClock()
        self._life = _Life()
        _nodes.add(self)

    # -- inside an application -----------------------------------------------------------------------------------------

    def __enter__(self) -> "Node":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start in background threads and return at once; raises AppError or DeclarationError for what cannot ever work.

        One that was asked to drain from elsewhere (`qsched nodes drain`) stays stopped until `stop()` and another start.
        """
        life = self._life
        if life.start is not None:
            return
        asked = lambda who: self._asked_to_drain(life, who)  # noqa: E731
        around = Around(asked_to_drain=asked, audience=self._audience)
        life.start = Start(self.url, self.settings, self._clock, self._loop, around)
        life.failed = None
        life.starter = threading.Thread(
            target=self._start_up, args=(life, life.start), name="qsched-start", daemon=True
        )
        life.starter.start()

    def wait_ready(self, timeout: float | None = None) -> bool:
        """Wait until the node takes work; raises what its start failed of."""
        life = self._life
        self._clock.wait(life.ready, timeout)
        if life.failed is not None:
            raise life.failed
        return life.services is not None

    def wait_idle(self, timeout: float) -> bool:
        """Wait until nothing runs here and every end is in the store; False when the time (seconds) ran out."""
        services = self._life.services
        return services is None or self._clock.wait(services.parts.hand.empty, timeout)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have `listener(event)` called with every Event of this node from now on; answers a function that ends it.

        In one thread of the node's, in order, each behind the commit that made it true; events that nobody keeps up with are
        dropped, and a listener that raises is logged. What other nodes do is heard by theirs: `qsched events` tells it all.
        Raises DefinitionError for what cannot be called so.
        """
        return self._audience.add(listener)

    def stop(self, *, now: bool = False) -> int:
        """Drain and stop: 0 when all that ran has ended, 8 when something was handed over or cancelled.

        Not from the event loop that `loop` named: it waits for the jobs that run there. The node can be started again.
        """
        life = self._life
        life.hurried = life.hurried or now
        life.leaving.set()
        self._wait_for_starter(life)
        code = self._end(life)
        if self._life is life:
            self._life = _Life(failed=life.failed)
        return code

    @property
    def name(self) -> str:
        """The node's name, as it is known in the cluster."""
        services = self._life.services
        return self.settings.label() if services is None else services.parts.who.name

    @property
    def incarnation(self) -> int | None:
        """The current incarnation; None before the node has registered."""
        services = self._life.services
        return None if services is None else services.parts.who.incarnation

    def health(self) -> dict[str, str]:
        """Which of this node's loops have had no success for too long, and why; empty when nothing is amiss.

        `start` is among them while the node waits for its database, and when it could not start.
        """
        life = self._life
        if life.services is not None:
            return life.services.health.reds()
        trouble = str(life.failed) if life.failed is not None else life.start and life.start.trouble
        return {"start": trouble} if trouble else {}

    # -- in the foreground ---------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Run until SIGTERM or SIGINT, or until asked to drain; drain, and answer the exit code. A second signal ends that.

        When job threads are left at the end, their firings are settled and the process leaves on the spot.
        """
        self.settings = replace(self.settings, embedded=False)
        before = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)
        }
        life = self._life
        try:
            self.start()
            while not life.leaving.is_set() and life.failed is None:
                if _signalled(life, 1.0):
                    life.leaving.set()
            if life.failed is not None:
                raise life.failed
            return self.stop()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._life.signals.put(number)

    def _asked_to_drain(self, life: _Life, who: str | None) -> None:
        """The check-in heard that somebody asked (`qsched nodes drain`): as SIGTERM, once. Returns at once."""
        if life.asked or life.leaving.is_set():
            return
        life.asked = True
        log.info("node.drain_requested by=%s", who or "-")
        if self.settings.embedded:
            threading.Thread(target=self._end, args=(life,), name="qsched-drain", daemon=True).start()
        else:
            life.signals.put(_ASKED)

    # -- start ---------------------------------------------------------------------------------------------------------

    def _start_up(self, life: _Life, start: Start) -> None:
        """Become a node; a database that is away is waited for."""
        services, failed = None, None
        while not life.leaving.is_set():
            try:
                services = start.attempt(life.leaving)
            except StoreUnavailable as error:
                self._clock.wait(life.leaving, start.waits(error))
                continue
            except BaseException as error:
                failed = error
            break
        if services is not None:
            self._started(life, services)
        else:
            start.hooks.close(self.settings.drain_timeout / 1_000_000, lambda: life.hurried)
        if failed is not None:
            life.failed = failed
            if self.settings.embedded:
                log.error("node.failed reason=%s", failed)
            life.leaving.set()
        life.ready.set()

    def _started(self, life: _Life, services: Services) -> None:
        with life.ending:
            late = life.code is not None
            if not late:
                life.services = services
        if late:  # whoever stopped it did not wait for it; what it may have begun by then is drained like anything else
            life.ready.set()
            self._drain(life, services, leaves=False)
            self._close_store(life, services)
            return
        who = services.parts.who
        said = (who.name, who.incarnation, self.settings.capacity)
        log.info("node.ready name=%s incarnation=%s capacity=%s", *said)

    def _wait_for_starter(self, life: _Life) -> None:
        """It ends by itself when it sees that the node leaves; where a database holds it up it is not waited for for ever."""
        starter = life.starter
        if starter is None or starter is threading.current_thread():
            return
        until = self._clock.monotonic() + self.settings.drain_timeout / 1_000_000
        while starter.is_alive() and not life.hurry() and self._clock.monotonic() < until:
            starter.join(0.1)
        if starter.is_alive():
            log.warning("node.start_left: the database did not answer")

    # -- end -----------------------------------------------------------------------------------------------------------

    def _end(self, life: _Life) -> int:
        """Drain, once: who comes later (an application that stops what was asked to drain) waits, and hears the same."""
        with life.ending:
            if life.code is None:
                services = life.services
                leaves = not self.settings.embedded
                life.code = 0 if services is None else self._drain(life, services, leaves=leaves)
                self._close_store(life, services)
            return life.code

    def _close_store(self, life: _Life, services: Services | None) -> None:
        store = None if life.start is None else life.start.store
        if store is not None and (services is None or services.parts.hand.idle()):
            store.close()

    def _drain(self, life: _Life, services: Services, *, leaves: bool) -> int:
        """`leaves`: what does not end is left behind, and the process with it. Else it is waited for in the background."""
        assert life.start is not None
        parts, hooks = services.parts, life.start.hooks
        until = self._clock.monotonic() + self.settings.drain_timeout / 1_000_000
        timeout = format_duration(self.settings.drain_timeout)
        log.info("node.drain running=%s at_most=%s (a second signal: now)", parts.hand.running(), timeout)
        drain = Drain(services, life.hurry, leaves=leaves)
        # Beside it: a database that does not answer must not hold up the drain.
        saying = threading.Thread(target=_say, args=(services, DRAINING), name="qsched-draining", daemon=True)
        saying.start()
        ended = drain.run(self.settings.drain_timeout / 1_000_000)
        code, handed_over = drain.exit_code(), drain.handed_over
        if ended:
            saying.join(2.0)
            _shut(services, handed_over)
        elif not leaves:
            # What still runs goes on to check in and is settled when it ends: nobody may run it beside itself.
            threading.Thread(
                target=_shut_later, args=(services, drain, hooks), name="qsched-stop", daemon=True
            ).start()
        else:
            drain.abandon()
        drain.over()
        if ended:  # and everything is in the store: what the hooks do holds up nobody else
            hooks.close(max(0.0, until - self._clock.monotonic()), life.hurry)
        log.info("node.stop name=%s handed_over=%s", parts.who.name, handed_over)
        return code

    # -- fork ----------------------------------------------------------------------------------------------------------

    def _after_fork(self) -> None:
        """The child has none of the threads: its copy is a new node, which starts if this one ran in an application.

        Not under `run()`, and not in a process that a job made for itself: that is no worker of the application, and what it
        took would be lost with it.
        """
        restart = self._life.start is not None and self.settings.embedded and not _in_own_thread()
        self._life = _Life()
        if restart:
            self.start()


def _signalled(life: _Life, timeout: float) -> bool:
    try:
        life.signals.get(timeout=timeout)
    except Empty:
        return False
    return True


def _shut_later(services: Services, drain: Drain, hooks: Hooks) -> None:
    drain.wait_on()
    _shut(services, drain.handed_over)
    hooks.close(None)
    services.parts.store.close()


def _shut(services: Services, handed_over: int = 0) -> None:
    """Nothing runs here any more: end the services, and say so."""
    services.stop()
    services.tell_left(_say(services, STOPPED, handed_over))


def _say(services: Services, state: str, handed_over: int | None = None) -> int | None:
    """Answers when that was written; None where it could not be, or others were faster."""
    incarnation = services.parts.who.incarnation
    try:
        return services.parts.store.transaction(
            "node state",
            lambda tx: tx.now() if set_state(tx, incarnation, state, handed_over=handed_over) else None,
            patience=2.0,
        )
    except SchedulerError as error:
        log.warning("node.state_unsaid state=%s reason=%s", state, error)
        return None


def _in_microseconds(fields: dict[str, Any]) -> dict[str, Any]:
    """Durations as people write them, as NodeSettings keeps them."""
    made = dict(fields)
    for name in {"lease", "check_in", "drain_timeout", "leader_ttl"} & made.keys():
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
