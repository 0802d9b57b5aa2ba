"""One virtual operating-system process that is a node: the house's own services, each loop a greenlet, and all its ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from random import Random
from typing import TYPE_CHECKING

from greenlet import getcurrent
from qsched.cluster.check_in import CheckInService, Telling
from qsched.scheduler.clock import Waitable
from qsched.scheduler.context import RunRequest
from qsched.scheduler.control import end_pauses
from qsched.scheduler.definitions import Definitions, KnownJob
from qsched.scheduler.errors import ConstraintHit, SchedulerError, StoreUnavailable, UnknownTrigger
from qsched.scheduler.groups import end_group_pauses
from qsched.scheduler.hand import Hand
from qsched.scheduler.identity import Identity
from qsched.scheduler.loaded_job import LoadedJob
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.parts import Parts
from qsched.scheduler.planner import Hooks, Planner
from qsched.scheduler.publish import publish_loaded
from qsched.scheduler.settler import Settler
from qsched.scheduler.store.definition_reads import read_cluster
from qsched.scheduler.store.node_rows import NodeFacts
from qsched.scheduler.upkeep import Upkeep

from support.hand_node import FunctionRegistry

from .bodies import Places
from .chronicle import Body
from .drains import drain
from .loops import ServiceLoop
from .plan import Strike
from .seam import NodeStore
from .senses import elector_of, rescuer_of
from .timeline import SECOND, Event, Life

if TYPE_CHECKING:
    from .world import World

_BACKOFF = (0.2, 5.0)
BUSY_POLL = 0.25
"""How soon the house's planner looks again where what is due cannot start."""


class NodeClock:
    """A process's own clocks: a wall that can be wrong, and a monotonic one that a suspended machine stops."""

    def __init__(self, life: Life, skew: int) -> None:
        self._life = life
        self._timeline = life.timeline
        self.skew = skew

    def wall(self) -> int:
        return self._timeline.now + self.skew

    def monotonic(self) -> float:
        return (self._timeline.now - self._life.lost - 1_704_870_000_000_000) / SECOND

    def wait(self, waitable: Waitable, timeout: float | None) -> bool:
        ahead = None if timeout is None else ceil(max(timeout, 0.0) * SECOND)
        if isinstance(waitable, Event):
            return self._life.wait(waitable, ahead)
        assert ahead is not None, "nobody is there who could end this wait"
        self._life.sleep(ahead)
        return False


@dataclass(frozen=True, slots=True)
class Birth:
    """Which process this is: the how-manieth start of which node."""

    node: int
    start: int
    random: Random

    @property
    def label(self) -> str:
        return f"n{self.node}"


class Process:
    """A start of a node, from its first transaction to its end."""

    def __init__(self, world: "World", birth: Birth) -> None:
        plan = world.plan
        self.world = world
        self.node = birth.node
        self.name = f"{birth.label}.{birth.start}"
        self.random = birth.random
        self.life = Life(world.timeline, self.name)
        self.clock = NodeClock(self.life, world.skews.get(birth.node, 0))
        self.store = NodeStore(world.database, world.weather, self, plan.timing.lease)
        names = [job.name for job in plan.jobs]
        cannot = [job for node, job in plan.cannot if node == birth.node]
        registry = FunctionRegistry(dict.fromkeys(names, lambda: None), cannot)
        self.capacity = plan.capacities[birth.node]
        self.parts = Parts(
            self.store,
            self.clock,
            Identity(birth.label),
            Hand(self.capacity),
            Definitions(registry, self.clock),
            stopping=Event(),  # type: ignore[arg-type]
        )
        self.settler = Settler(self.parts, self.wake_planner)
        self._tame(Random(birth.random.random()))
        self.pool = Places(self, plan.bodies, Random(birth.random.random()))
        facts = self._facts(birth)
        telling = Telling(self._cancel, self._cancel_all, self._available)
        self.check_in = CheckInService(self.parts, facts, plan.timing.check_in, telling)
        self.planner = Planner(self.parts, Hooks(self.pool.submit_many, self._loaded, self._more_due))
        self.upkeep = Upkeep(self.parts, self._end_pauses, "2024a", self._loaded)
        self.rescuer = rescuer_of(self)
        self.elector = elector_of(self)
        self.loops = self._make_loops()
        self.up = False
        self.draining = False

    def _facts(self, birth: Birth) -> NodeFacts:
        plan = self.world.plan
        return NodeFacts(
            name=birth.label,
            host="host",
            pid=birth.start,
            pid_started_at=None,
            capacity=self.capacity,
            version="0",
            tzdata="2024a",
            tags=None,
            lease=plan.timing.lease,
            coordination=plan.coordination,
            elector=plan.elector,
            check_in=plan.timing.check_in,
        )

    def _tame(self, random: Random) -> None:
        """Give what the services keep for themselves, chance and events, to the simulation."""
        self.settler._random = random
        self.settler._again = Event()  # type: ignore[assignment]

    def _make_loops(self) -> dict[str, ServiceLoop]:
        timing = self.world.plan.timing
        return {
            "check_in": ServiceLoop(self, "check_in", self.check_in.step),
            "settler": ServiceLoop(self, "settler", self._settle),
            "rescuer": ServiceLoop(self, "rescuer", self.rescuer.step),
            "elector": ServiceLoop(self, "elector", self.elector.step),
            "planner": ServiceLoop(self, "planner", self.planner.step, self._sparing),
            "upkeep": ServiceLoop(
                self, "upkeep", self.upkeep.step, lambda wait: wait * timing.upkeep / SECOND
            ),
        }

    @property
    def incarnation(self) -> int:
        return self.parts.who.incarnation

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.tell("starts")
        self.life.spawn("main", self._main)

    def _main(self) -> None:
        wait = _BACKOFF[0]
        while True:
            try:
                self._register()
                break
            except StoreUnavailable:
                self.parts.pause(wait)
                wait = min(wait * 2, _BACKOFF[1])
        self.up = True
        for loop in self.loops.values():
            loop.start()

    def _register(self) -> None:
        self.parts.who.cluster_uuid, defaults = self.store.read("cluster", read_cluster)
        self.parts.definitions.set_defaults(defaults)
        self.check_in.register()
        self.elector.look()

    def crash(self, down: int) -> None:
        """Vanish, with every body; come back under the same name after `down` µs."""
        self.tell(f"is killed, for {down / SECOND:.1f} s")
        self._vanish()
        self.world.restart(self.node, down)

    def leave(self, down: int) -> None:
        """The process has ended by itself."""
        self.tell("has left")
        self._vanish()
        self.world.restart(self.node, down)

    def drain(self, down: int) -> None:
        """SIGTERM."""
        self.draining = True
        drain(self, down)

    def _vanish(self) -> None:
        now = self.world.timeline.now
        self.world.died(self)
        for entry in self.pool.running():
            if entry.body is not None and entry.body.ended is None:
                entry.body.ended, entry.body.outcome = now, "vanished"
        self.life.end()

    def pause(self, span: int, *, suspended: bool = False) -> None:
        """Stop for `span` µs, bodies and all (`suspended`: the machine, so that its monotonic clock stops too)."""
        if self.life.frozen or self.life.ended:
            return
        timeline = self.life.timeline
        self.tell(f"is {'suspended' if suspended else 'stopped'} for {span / SECOND:.1f} s")
        self.world.weather.was_ill(self.node, timeline.now, timeline.now + span)
        if suspended:
            self.world.weather.suspended.append((self.name, timeline.now, timeline.now + span))
            self.world.weather.still_ill(self.node, timeline.now, span)
        self.life.freeze()
        timeline.undertaker.after(span, lambda: self._go_on(span if suspended else 0))
        if getcurrent() is not timeline.hub:
            self.life.sleep(0)

    def _go_on(self, suspended: int) -> None:
        if not self.life.ended:
            self.tell("goes on")
            self.life.thaw(suspended=suspended)

    # -- what the seam and the places tell -----------------------------------------------------------------------------

    def sleep(self, delay: int) -> None:
        self.life.sleep(delay)

    def tell(self, what: str) -> None:
        self.world.history.tell(self.life.timeline.now, self.name, what)

    def seen(self, what: str) -> None:
        self.world.history.seen[what] += 1

    def count(self, name: str) -> None:
        self.world.history.transactions[name] += 1

    def struck(self, strike: Strike, name: str) -> None:
        self.world.history.faults[strike.kind] += 1
        now, weather = self.life.timeline.now, self.world.weather
        weather.was_ill(
            -1 if strike.kind.startswith("doubt") else self.node, now, now + max(strike.span, SECOND)
        )
        self.tell(f"{strike.kind} at {name!r}, {strike.span / SECOND:.1f} s")

    def hit(self, name: str, error: ConstraintHit) -> None:
        self.world.complain("I12", f"{self.name}: a constraint was hit in {name!r}: {error}")

    def raised(self, loop: str, error: Exception) -> None:
        self.world.raised(f"{self.name}.{loop}", error)

    def body_began(self, request: RunRequest) -> Body:
        database = self.world.database
        job = request.job.definition.name
        times = (self.life.timeline.now, database.clock())
        body = Body(request.firing_id, request.fence, request.incarnation, self.name, job, *times)
        self.world.history.bodies.append(body)
        return body

    def body_ended(self, body: Body, outcome: Outcome) -> None:
        body.ended, body.outcome = self.life.timeline.now, outcome.kind
        body.retry_now, body.permanent = outcome.retry_now, outcome.permanent

    def settle_now(self) -> None:
        self.loops["settler"].wake()

    # -- what the services tell each other -----------------------------------------------------------------------------

    def _settle(self) -> float:
        """A step of the settler, which would wait for its first outcome if there were none."""
        if self.settler._queue.empty():
            return 3600.0
        self.settler.step()
        return 0.0

    def _sparing(self, wait: float) -> float:
        """An idle planner may sleep longer than a second where the rows say that nothing becomes due."""
        longest = self.world.plan.timing.idle / SECOND
        if wait == BUSY_POLL and longest > 1.0:
            return 4 * BUSY_POLL
        if wait < 1.0:
            return wait
        if longest <= 1.0:
            return wait
        ahead = self.world.database.next_due()
        return longest if ahead is None else min(longest, max(ahead / SECOND, 0.0) + 0.0005)

    def wake_planner(self) -> None:
        self.loops["planner"].wake()

    def _more_due(self) -> None:
        self.world.wake_others(self)

    def _available(self) -> None:
        self.settler.retry()
        for loop in self.loops.values():
            loop.wake()

    def _cancel(self, firing_id: int, fence: int, reason: str) -> None:
        self.pool.cancel(firing_id, reason, fence=fence)

    def _cancel_all(self, reason: str) -> None:
        self.pool.cancel_all(reason)

    def _loaded(self, fresh: list[tuple[KnownJob, LoadedJob]]) -> None:
        for job, loaded in fresh:
            try:
                publish_loaded(self.store, job.name, loaded)
            except StoreUnavailable:
                self.parts.definitions.forget_loaded(job.id)
            except SchedulerError as error:
                self.raised("loaded", error)

    def _end_pauses(self, groups: Sequence[str], keys: Sequence[str]) -> None:
        if groups:
            end_group_pauses(self.store, list(groups))
        for key in keys:
            try:
                end_pauses(self.store, [key])
            except UnknownTrigger:
                self.tell(f"the pause of {key} is moot")
        self.wake_planner()
