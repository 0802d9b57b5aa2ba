"""The services of one running node, wired together: planner, settler, check-in, upkeep, pruner, listener, worker pool."""

import json
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..scheduler.clock import Clock, SystemClock
from ..scheduler.context import RunRequest
from ..scheduler.control import end_pauses
from ..scheduler.definitions import Definitions, KnownJob
from ..scheduler.enqueue import enqueue
from ..scheduler.enqueue_order import Enqueued, EnqueueOrder
from ..scheduler.errors import SchedulerError, StoreUnavailable, UnknownTrigger
from ..scheduler.events import Event, Fact
from ..scheduler.groups import end_group_pauses
from ..scheduler.hand import Hand
from ..scheduler.identity import Identity
from ..scheduler.listeners import Audience, Teller
from ..scheduler.loaded_job import LoadedJob
from ..scheduler.parts import Parts
from ..scheduler.planner import Hooks, Planner
from ..scheduler.pruner import Pruner
from ..scheduler.publish import publish_loaded
from ..scheduler.registry import JobRegistry
from ..scheduler.rescuer import Rescuer, Senses
from ..scheduler.running.http_address import HttpAllow
from ..scheduler.running.process_mark import mark_of
from ..scheduler.running.run_async import JobLoop
from ..scheduler.running.runner import Runner
from ..scheduler.running.worker_pool import WorkerPool
from ..scheduler.settler import Settler
from ..scheduler.store.database import Store
from ..scheduler.store.definition_reads import read_cluster
from ..scheduler.store.node_rows import NodeFacts
from ..scheduler.store.session_lock import SessionLock
from ..scheduler.store.wake import Listener, announce
from ..scheduler.upkeep import Upkeep
from ..scheduler.witness import Witness
from .check_in import CheckInService, Telling
from .coordinating import Coordinating
from .health import Health
from .loop import Loop, Rhythm
from .self_fence import SelfFence
from .settings import NodeSettings
from .versions import tzdata_version, version

_ANNOUNCE_EVERY = 0.05
_UPKEEP = "qsched: the pause ended"
_STOP_WITHIN = 3.0
_PRUNER_EVERY = 60.0

log = logging.getLogger("qsched.node")


@dataclass(frozen=True, slots=True)
class Around:
    """What is around one start of a node."""

    loop: JobLoop | None = None
    """Of its async jobs and hooks; it outlives the services."""
    revision: int | None = None
    """Of the declarations that the node carries."""
    asked_to_drain: Callable[[str | None], None] = lambda _: None
    audience: Audience = field(default_factory=Audience)


class Services:
    """Everything that runs while a node is up; made anew for each start (and after a fork)."""

    def __init__(self, store: Store, settings: NodeSettings, registry: JobRegistry, around: Around) -> None:
        clock: Clock = SystemClock()
        self.settings = settings
        self._asked_to_drain = around.asked_to_drain
        self.parts = Parts(
            store,
            clock,
            Identity(settings.label(), tags=frozenset(settings.tags)),
            Hand(settings.capacity),
            Definitions(registry, clock),
            teller=Teller(around.audience, registry.listeners(), clock),
        )
        self._loops: dict[str, Loop] = {}
        self.health = Health(clock, self._loops)
        self.settler = Settler(self.parts, self._freed)
        runner = Runner(clock, http_allow=HttpAllow.of(settings.http_allow))
        self.pool = WorkerPool(settings.capacity, self.settler, clock, runner=runner, loop=around.loop)
        facts, who = self._facts(around.revision), self.parts.who
        lock = SessionLock(who, facts.pid_started_at)
        self.check_in = CheckInService(self.parts, facts, settings.check_in, self._telling(), lock)
        self.self_fence = SelfFence(self.parts, self._cancel_exclusive)
        witness = Witness(store, who, facts.host)
        senses = Senses(witness.gone, lambda: self.check_in.steady_since, self._rescued)
        self.rescuer = Rescuer(self.parts, settings.check_in, senses)
        self.planner = Planner(self.parts, Hooks(self._submit, self._loaded, self._more_due))
        self.upkeep = Upkeep(self.parts, self._end_pauses, tzdata_version(), self._loaded)
        self.pruner = Pruner(self.parts)
        self.listener = Listener(store, self._wake)
        self.coordinating = Coordinating(self.parts, settings, self._wake)
        self._announced = 0.0
        seconds = settings.check_in / 1_000_000
        beat = Rhythm(seconds, (seconds / 4, seconds / 4), lambda: self.check_in.trouble)
        self._loops |= {
            "check_in": Loop("check-in", self.check_in.step, clock, beat),
            "settler": Loop("settler", self._settle, clock, Rhythm(trouble=lambda: self.settler.trouble)),
            "planner": Loop("planner", self.planner.step, clock, Rhythm(trouble=self._untrusted)),
            "upkeep": Loop("upkeep", self.upkeep.step, clock),
            "rescuer": Loop("rescuer", self.rescuer.step, clock, Rhythm(seconds, trouble=self._untrusted)),
            "self_fence": Loop("self-fence", self.self_fence.step, clock),
            "pruner": Loop("pruner", self.pruner.step, clock, Rhythm(_PRUNER_EVERY)),
        }
        self._loops |= self.coordinating.loops
        if self.listener.works:
            self._loops["listener"] = Loop("listener", self.listener.step, clock)
        self._loops["health"] = Loop("health", self.health.step, clock)

    def start(self, leaving: threading.Event) -> None:
        """Register, then start the loops: the check-in first. A node that is told to leave meanwhile takes nothing."""
        store = self.parts.store
        self.parts.who.cluster_uuid, defaults = store.read("cluster", read_cluster)
        self.parts.definitions.set_defaults(defaults)
        self.check_in.register()
        self.coordinating.begin()
        self.pool.asking = self._enqueue
        # Whoever told it need not have waited, and then believes that nothing runs here.
        self.parts.who.draining = leaving.is_set()
        for loop in self._loops.values():
            loop.start()

    def stop_taking(self) -> None:
        """Take nothing more; what was taken and not begun is released. The planner may still be in its last take."""
        self.parts.who.draining = True
        self._loops["planner"].end()
        self.coordinating.drain()

    def takes(self) -> bool:
        """Whether the planner may still be in a take."""
        return not self._loops["planner"].stop(0.0)

    def stop(self) -> None:
        """End the loops, the check-in last."""
        self.parts.stopping.set()
        for loop in self._loops.values():
            if loop is not self._loops["check_in"]:
                loop.end()
        self.settler.wake()
        until = self.parts.clock.monotonic() + _STOP_WITHIN  # for all of them: a database may hold up each
        for name in ("upkeep", "pruner", "listener", "rescuer", "elector", "settler", "check_in"):
            if name in self._loops:
                self._loops[name].stop(max(0.0, until - self.parts.clock.monotonic()))
        self.pool.close()
        self.listener.close()
        self.coordinating.end()

    def tell_left(self, at: int | None) -> None:
        """The node has said (at this instant) that it stopped: let its listeners hear that, and no more."""
        teller, who = self.parts.teller, self.parts.who
        if at is not None and teller.heard:
            teller.tell(
                [Event(fact=Fact.NODE_LEFT, at=at, node=who.name, reason=f"incarnation {who.incarnation}")]
            )
        teller.close()

    # -- what the services tell each other -----------------------------------------------------------------------------

    def _settle(self) -> float:
        self.settler.step()
        return 0.0

    def _untrusted(self) -> str | None:
        """Why nothing is taken although no step fails."""
        if self.parts.who.draining or self.parts.who.may_start(self.parts.clock.monotonic()):
            return None
        return "no check-in landed for a lease: nothing is taken or begun until one does"

    def _wake(self) -> None:
        self._loops["planner"].wake()

    def _freed(self) -> None:
        self._wake()

    def _rescued(self) -> None:
        """Something is due again: this node may take it at once, and so may the others."""
        self._wake()
        self._more_due()

    def _cancel_exclusive(self, reason: str) -> int:
        exclusive = [entry.request for entry in self.pool.running() if entry.request.exclusive]
        return sum(self.pool.cancel(request.firing_id, reason, fence=request.fence) for request in exclusive)

    def _submit(self, requests: list[RunRequest]) -> None:
        self.pool.submit_many(requests)

    def _loaded(self, fresh: list[tuple[KnownJob, LoadedJob]]) -> None:
        """A job row says what its code says, so that others can end its firings without the code."""
        for job, loaded in fresh:
            try:
                publish_loaded(self.parts.store, job.name, loaded)
            except StoreUnavailable as error:
                log.warning("job.not_published job=%s reason=%s; tried again", job.name, error)
                self.parts.definitions.forget_loaded(job.id)
            except SchedulerError as error:
                log.error("job.not_published job=%s reason=%s", job.name, error)

    def _more_due(self) -> None:
        now = self.parts.clock.monotonic()
        if now - self._announced >= _ANNOUNCE_EVERY:
            self._announced = now
            announce(self.parts.store)
            self.coordinating.announce()

    def _enqueue(self, order: EnqueueOrder, connection: Any) -> Enqueued:
        """What a job's body asks for."""
        return enqueue(self.parts.store, order, connection, self._rescued)

    def _end_pauses(self, groups: Sequence[str], keys: Sequence[str]) -> None:
        if groups:
            end_group_pauses(self.parts.store, list(groups), who=_UPKEEP)
        for key in keys:
            try:
                end_pauses(self.parts.store, [key], who=_UPKEEP)
            except UnknownTrigger:
                log.info("pause.moot trigger=%s: it is gone", key)
        self._wake()

    def _telling(self) -> Telling:
        def cancel(firing_id: int, fence: int, reason: str) -> None:
            self.pool.cancel(firing_id, reason, fence=fence)

        def cancel_all(reason: str) -> None:
            self.pool.cancel_all(reason)

        def available() -> None:
            self.parts.store.cut_silent()
            self.settler.retry()
            self.listener.renew()
            for loop in self._loops.values():
                if loop is not self._loops["check_in"]:
                    loop.retry()

        return Telling(
            cancel,
            cancel_all,
            available,
            self._asked_to_drain,
            reds=self.health.reds,
            renewed=self.pool.renew,
        )

    def _facts(self, revision: int | None) -> NodeFacts:
        settings = self.settings
        return NodeFacts(
            name=settings.label(),
            host=settings.host[:255],
            pid=os.getpid(),
            pid_started_at=mark_of(os.getpid()),
            capacity=settings.capacity,
            version=version(),
            tzdata=tzdata_version(),
            tags=json.dumps(list(settings.tags)) if settings.tags else None,
            lease=settings.lease,
            revision=revision,
            coordination=settings.mode,
            elector=settings.elector,
            check_in=settings.check_in,
        )
