"""Nodes driven by hand: the whole protocol on a real store, in one thread, on a clock that moves when told to.

A `World` is a cluster's store and time; its nodes are made of the house's own planner, settler, check-in, rescuer and
upkeep. Only the worker pool is the test's: what was taken waits in `node.taken` until the test lets it run or end.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from qsched.cluster.check_in import CheckInService, Telling
from qsched.cluster.self_fence import SelfFence
from qsched.scheduler.apply import apply
from qsched.scheduler.context import JobContext, RunRequest
from qsched.scheduler.control import end_pauses
from qsched.scheduler.definitions import Definitions, KnownJob
from qsched.scheduler.errors import StoreUnavailable
from qsched.scheduler.groups import end_group_pauses
from qsched.scheduler.hand import Hand
from qsched.scheduler.identity import Identity
from qsched.scheduler.loaded_job import LoadedJob
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.parts import Parts
from qsched.scheduler.planner import Hooks, Planner
from qsched.scheduler.pruner import Pruner
from qsched.scheduler.publish import publish_loaded
from qsched.scheduler.rescuer import Rescuer, Senses
from qsched.scheduler.running.runner import Runner
from qsched.scheduler.settler import Settler
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.definition_reads import read_cluster
from qsched.scheduler.store.node_rows import NodeFacts
from qsched.scheduler.store.rescue_rows import Observed
from qsched.scheduler.store.schema import open_store
from qsched.scheduler.upkeep import Upkeep
from qsched.triggers.instant import SECOND
from qsched.triggers.job import JobDefinition, JobPolicies
from qsched.triggers.trigger import TriggerDefinition

from .declared import Declared
from .hand_parts import Function, HandClock, HandLock
from .hand_parts import FunctionRegistry as FunctionRegistry

START = 1_704_877_200_000_000
"""2024-01-10T09:00:00Z, a Wednesday."""
_MOST_STEPS = 2000


class World:
    """One cluster: a store, the time that passes in it, the functions its nodes can load, and its nodes."""

    def __init__(self, url: str, cluster: str = "default") -> None:
        self.url = url
        self.cluster = cluster
        self.time = START
        self.elapsed = 1000.0
        self.functions: dict[str, Function] = {"report": lambda: None}
        self.nodes: list[HandNode] = []
        self.ended: dict[int, bool] = {}
        """Incarnations whose process has ended and whose session lock is free; True: that is seen for certain."""
        self.store = self.open()

    def open(self) -> Store:
        """A store of its own connections, under the world's time."""
        return open_store(self.url, cluster=self.cluster, create=True, now=lambda: self.time)

    def close(self) -> None:
        for store in {self.store, *(node.store for node in self.nodes)}:
            store.close()

    # -- time --------------------------------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """Let time pass for the database and every node."""
        self.elapsed += seconds
        self.time += round(seconds * SECOND)

    def live(self, seconds: float, tick: float = 0.25) -> None:
        """Let time pass while every node that is neither gone nor stopped goes about its loops."""
        for _ in range(round(seconds / tick)):
            self.pass_time(tick)
            for node in self.nodes:
                node.tick()

    def live_until(self, true: Callable[[], object], within: float = 60.0, tick: float = 0.25) -> float:
        """Let time pass until something is so; answers how many seconds that took."""
        began = self.elapsed
        while not true():
            assert self.elapsed - began < within, f"not so within {within:g} s"
            self.live(tick, tick)
        return self.elapsed - began

    def step_clock(self, seconds: float) -> None:
        """Set the database's clock forth or back; nobody's monotonic clock moves."""
        self.time += round(seconds * SECOND)

    # -- what is declared ----------------------------------------------------------------------------------------------

    def apply(self, *triggers: TriggerDefinition, **options: Any) -> None:
        """Apply these triggers; `jobs` are the job definitions (else `report` and whatever they name)."""
        jobs = options.pop("jobs", None)
        if jobs is None:
            names = {trigger.job for trigger in triggers} | {"report"}
            jobs = tuple(python(name) for name in sorted(names))
        apply(self.store, Declared(triggers, tuple(jobs), **options))

    # -- what is there -------------------------------------------------------------------------------------------------

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement; what a query answers."""

        def work(tx: Any) -> list[tuple[Any, ...]]:
            result = tx.run(statement, *values)
            return [tuple(row) for row in result] if result.returns_rows else []

        return self.store.transaction("test", work)

    def firings(self, columns: str, where: str = "1 = 1") -> list[tuple[Any, ...]]:
        """These columns of the ledger's rows, oldest first."""
        return self.sql(
            f"SELECT {columns} FROM qsched_firings WHERE cluster = ? AND {where} ORDER BY scheduled_at, id",
            self.store.cluster_id,
        )

    def clock_of(self, name: str, columns: str) -> tuple[Any, ...]:
        """These columns of a trigger (t) and its clock (c)."""
        (row,) = self.sql(
            f"SELECT {columns} FROM qsched_triggers t JOIN qsched_trigger_clocks c ON c.id = t.id"
            " WHERE t.cluster = ? AND t.name = ?",
            self.store.cluster_id,
            name,
        )
        return row

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def node(self, name: str = "one", **options: Any) -> "HandNode":
        """A new node that has registered; the others hear of it at their next check-in."""
        node = HandNode(self, name, **options)
        self.nodes.append(node)
        node.check_in.register()
        self.hear()
        return node

    def hear(self) -> None:
        """Every node checks in, and again, so that all know who lives."""
        for node in self.nodes * 2:
            if not node.gone and not node.stopped:
                node.check_in.step()


class HandNode:
    """One node. `turn` is a round of its services; `run`, `end` and `settle` are what its worker would do.

    `tick` does what is due of all its loops, the rescuer's too (`World.live` calls it). `kill` ends its process, `stopped`
    stops it, `cut_off` takes its database away.
    """

    def __init__(
        self,
        world: World,
        name: str,
        *,
        capacity: int = 20,
        cannot: Sequence[str] = (),
        own_store: bool = False,
        interval: float = 1.0,
    ) -> None:
        self.world = world
        self.drains: list[str | None] = []
        self.store = world.open() if own_store else world.store
        self.clock = HandClock(world)
        registry = FunctionRegistry(world.functions, cannot)
        who = Identity(name)
        self.parts = Parts(self.store, self.clock, who, Hand(capacity), Definitions(registry, self.clock))
        who.cluster_uuid, _ = self.store.read("cluster", read_cluster)
        self.settler = Settler(self.parts, lambda: None)
        self.planner = Planner(self.parts, Hooks(self._submit, self._loaded, self._more_due))
        self.upkeep = Upkeep(self.parts, self._end_pauses, "2024a", self._loaded)
        self.pruner = Pruner(self.parts)
        every = round(interval * SECOND)
        facts = NodeFacts(
            name, "host", 1, None, capacity, "0", "2024a", None, self.store.lease, check_in=every
        )
        telling = Telling(self._cancel, self._cancel_all, drain=self.drains.append)
        self.check_in = CheckInService(self.parts, facts, every, telling, HandLock())
        senses = Senses(self._gone, lambda: self.check_in.steady_since, self._rescued)
        self.rescuer = Rescuer(self.parts, every, senses)
        self.self_fence = SelfFence(self.parts, self._cancel_exclusive)
        self.runner = Runner(self.clock)
        self.taken: list[RunRequest] = []
        """What was taken and neither run nor ended, oldest first."""
        self.contexts: dict[tuple[int, int], JobContext] = {}
        self.announced = 0
        self.rescued = 0
        self.gone = False
        self.stopped = False
        """As by SIGSTOP: `tick` does nothing, and its session lock stays held."""
        self._checked_in = self.clock.monotonic()
        self._due: dict[str, float] = {}

    # -- rounds --------------------------------------------------------------------------------------------------------

    def turn(self) -> list[RunRequest]:
        """Check in when that is due, then take until nothing more can be taken; what was taken now."""
        if self.clock.monotonic() - self._checked_in >= 1.0:
            self.check_in.step()
            self._checked_in = self.clock.monotonic()
        before = len(self.taken)
        for _ in range(_MOST_STEPS):
            if self.planner.step() > 0:
                return self.taken[before:]
        raise AssertionError(f"the planner asked for {_MOST_STEPS} steps at once: it spins")

    def tick(self) -> None:
        """Do what is due of its loops; each comes again when it said it would."""
        if self.gone or self.stopped:
            return
        loops = {
            "check-in": self.check_in.step,
            "self-fence": self.self_fence.step,
            "rescuer": self.rescuer.step,
            "planner": self.planner.step,
        }
        for name, step in loops.items():
            for _ in range(_MOST_STEPS):
                now = self.clock.monotonic()
                if now < self._due.get(name, now):
                    break
                try:
                    wait = step()
                except StoreUnavailable:
                    wait = 0.25
                if wait > 0:
                    self._due[name] = (
                        now + wait - 1e-9
                    )  # the sum of what passed may be short of it by rounding
            else:
                raise AssertionError(f"{name} asked for {_MOST_STEPS} steps at once: it spins")

    def work(self) -> list[Outcome]:
        """A turn, then run all that was taken to its end, and so on until there is nothing more to do."""
        outcomes: list[Outcome] = []
        while self.turn():
            outcomes += self.run()
        return outcomes

    def run(self) -> list[Outcome]:
        """Run the bodies of all that was taken, in order, and settle their ends."""
        outcomes = []
        for request in list(self.taken):
            if self.settler.may_begin(request):
                outcome = self.runner.run(self.context_of(request))
                outcomes.append(outcome)
                self.end(request, outcome)
            else:
                self.release(request)
        self.settle()
        return outcomes

    def end(self, request: RunRequest, outcome: Outcome | None = None) -> None:
        """Let a body end now; it is settled by the next `settle`."""
        self._forget(request)
        self.settler.ended(request, outcome or Outcome.success(), self.clock.monotonic())

    def release(self, request: RunRequest) -> None:
        """Give back what was not begun; written by the next `settle`."""
        self._forget(request)
        self.settler.released(request)

    def settle(self) -> None:
        """Settle all that has ended."""
        self.settler.wake()  # so that it never waits
        self.settler.step()

    def finish(self, request: RunRequest, outcome: Outcome | None = None) -> None:
        """End one body and settle it."""
        self.end(request, outcome)
        self.settle()

    def context_of(self, request: RunRequest) -> JobContext:
        return self.contexts[request.firing_id, request.fence]

    def kill(self, *, certain: bool = True) -> None:
        """End its process. The others see that its session lock is free, and, if `certain`, that the process is gone."""
        self.gone = True
        self.world.ended[self.parts.who.incarnation] = certain

    def cut_off(self) -> None:
        """Take its database away, of which it has a store of its own."""
        assert self.store is not self.world.store, "cut off a node that was made with own_store=True"
        vars(self.store).update(transaction=_away, read=_away)

    def reconnect(self) -> None:
        """Give it its database back."""
        for name in ("transaction", "read"):
            vars(self.store).pop(name, None)

    def die(self) -> None:
        """Vanish without a word, and be declared dead by others."""
        self.gone = True
        self.declare_dead()

    def declare_dead(self) -> None:
        """What the others write of a node whose lease has passed."""
        self.world.sql(
            "UPDATE qsched_nodes SET state = 'dead', ended_at = ? WHERE incarnation = ?",
            self.world.time,
            self.parts.who.incarnation,
        )

    # -- what the services tell ----------------------------------------------------------------------------------------

    def _submit(self, requests: list[RunRequest]) -> None:
        self.taken += requests
        for request in requests:
            self.contexts[request.firing_id, request.fence] = JobContext(request, self.clock)

    def _end_pauses(self, groups: Sequence[str], keys: Sequence[str]) -> None:
        if groups:
            end_group_pauses(self.store, groups)
        if keys:
            end_pauses(self.store, keys)

    def _forget(self, request: RunRequest) -> None:
        if request in self.taken:
            self.taken.remove(request)

    def _loaded(self, fresh: list[tuple[KnownJob, LoadedJob]]) -> None:
        for job, loaded in fresh:
            publish_loaded(self.store, job.name, loaded)

    def _more_due(self) -> None:
        self.announced += 1

    def _cancel(self, firing_id: int, fence: int, reason: str) -> None:
        context = self.contexts.get((firing_id, fence))
        if context is not None:
            context.cancel(reason)

    def _cancel_all(self, reason: str) -> None:
        for request in self.taken:
            self.context_of(request).cancel(reason)

    def _cancel_exclusive(self, reason: str) -> int:
        exclusive = [request for request in self.taken if request.exclusive]
        for request in exclusive:
            self.context_of(request).cancel(reason)
        return len(exclusive)

    def _gone(self, suspects: Sequence[Observed]) -> dict[int, bool]:
        ended = self.world.ended
        return {each.incarnation: ended[each.incarnation] for each in suspects if each.incarnation in ended}

    def _rescued(self) -> None:
        self.rescued += 1
        self._due.pop("planner", None)


def _away(*arguments: Any, **options: Any) -> Any:
    raise StoreUnavailable("it is away")


def python(name: str, **policies: Any) -> JobDefinition:
    """A job that nodes of a world load by its name, with these policies."""
    data = policies.pop("data", {})
    return JobDefinition(name, "python", f"app:{name}", data=data, policies=JobPolicies(**policies))


def every(key: str, seconds: float = 10, **fields: Any) -> TriggerDefinition:
    """A trigger each so many seconds, of job `report` unless told otherwise."""
    fields.setdefault("job", "report")
    group, _, name = key.rpartition("/")
    schedule = {"every": round(seconds * SECOND), "anchor": START}
    return TriggerDefinition(name=name, group=group or "default", schedule=schedule, **fields)


def once(key: str, seconds: float, **fields: Any) -> TriggerDefinition:
    """A trigger with one slot, so many seconds after the world's start."""
    return replace(every(key, **fields), schedule={"at": START + round(seconds * SECOND)})
