"""A rehearsal: declarations under the real planner and a clock that jumps from event to event; bodies only take their time."""

import heapq
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from ..triggers.instant import SECOND
from ..triggers.job import JobDefinition
from .apply import apply
from .clock import Waitable
from .context import RunRequest
from .definitions import Definitions
from .desired import Declared
from .errors import SchedulerError
from .hand import Hand
from .identity import Identity
from .loaded_job import LoadedJob
from .outcome import INTERRUPTED, Outcome
from .parts import Parts
from .planner import Hooks, Planner
from .registry import JobRegistry
from .settler import Settler
from .store.definition_reads import read_cluster
from .store.node_rows import STOPPED, NodeFacts, register, set_state
from .store.rehearsal_rows import Sum, busiest_minutes, sums
from .store.schema import open_store
from .store.take_rows import look

_AGE = 100 * 365 * 86_400 * SECOND
"""The lease of a rehearsed node: it checks in once."""
_SPINS = 10_000
_STEP = SECOND
"""How far time goes on where something is due that nobody can take, and nothing else is to come sooner."""


class Stage(NamedTuple):
    """What is assumed: from when to when (µs), the outages in it, how many nodes of which capacity, and how long bodies take."""

    start: int
    end: int
    outages: Sequence[tuple[int, int]] = ()
    nodes: int = 1
    capacity: int = 20
    runtime: int = SECOND


class Rehearsed(NamedTuple):
    """What came of it."""

    sums: list[Sum]
    busiest: dict[str, tuple[int, int]]
    """{trigger, or "" for all: (the minute in which most began, how many)}."""


@dataclass(slots=True)
class _Time:
    """The one clock, of the database and of all nodes."""

    now: int
    began: int

    def wall(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return (self.now - self.began) / SECOND + 1.0

    def wait(self, waitable: Waitable, timeout: float | None) -> bool:  # noqa: ARG002  (nobody waits in a rehearsal)
        return waitable.wait(0)


class _AnyJob(JobRegistry):
    """Every job is there; of what its code would say nothing is known."""

    def resolve(self, definition: JobDefinition) -> LoadedJob:
        return LoadedJob(definition, None, definition.policies, definition.data)


class _Node:
    """One node from its start to its end."""

    def __init__(self, rehearsal: "Rehearsal", number: int) -> None:
        stage, store = rehearsal.stage, rehearsal.store
        who = Identity(f"node-{number}", tags=rehearsal.tags)
        self.parts = Parts(
            store, rehearsal.time, who, Hand(stage.capacity), Definitions(_AnyJob(), rehearsal.time)
        )
        facts = NodeFacts(who.name, "rehearsal", os.getpid(), None, stage.capacity, "", None, None, _AGE)
        who.incarnation, who.name = store.transaction("register", lambda tx: register(tx, facts))
        who.cluster_uuid, _ = store.read("cluster", read_cluster)
        who.trusted_until, who.live_nodes = float("inf"), stage.nodes
        self.settler = Settler(self.parts, lambda: None)
        self.planner = Planner(self.parts, Hooks(self._begin, lambda _: None, lambda: None))
        self._ends: list[tuple[int, int, RunRequest]] = []
        self._numbers = count()
        self._runtime = stage.runtime

    @property
    def next_end(self) -> int | None:
        return self._ends[0][0] if self._ends else None

    def settle(self, until: int) -> bool:
        """End the bodies whose time is over; whether that may have made something due."""
        ended = moves = False
        while self._ends and self._ends[0][0] <= until:
            request = heapq.heappop(self._ends)[2]
            self.settler.ended(request, Outcome.success(), self.parts.clock.monotonic())
            ended = True
            moves = moves or request.followed or request.delayed
        self._land(ended)
        return moves

    def leave(self) -> None:
        """Go away as a drain whose time is over: what runs is broken off."""
        for _, _, request in self._ends:
            self.settler.ended(request, Outcome(INTERRUPTED), self.parts.clock.monotonic())
        broken_off = bool(self._ends)
        self._ends.clear()
        self._land(broken_off)
        who = self.parts.who
        self.parts.store.transaction("leave", lambda tx: set_state(tx, who.incarnation, STOPPED))

    def _land(self, ended: bool) -> None:
        while ended and self.parts.hand.running() > len(self._ends):
            self.settler.step()

    def plan(self) -> bool:
        """Take until there is nothing more to take; whether anything began."""
        before = len(self._ends)
        for _ in range(_SPINS):
            if self.planner.step() > 0:
                return len(self._ends) > before
        raise SchedulerError("the planner does not come to rest")

    def _begin(self, requests: list[RunRequest]) -> None:
        end = self.parts.clock.wall() + self._runtime
        for request in requests:
            heapq.heappush(self._ends, (end, next(self._numbers), request))


@dataclass
class Rehearsal:
    """One rehearsal, in a database in memory."""

    stage: Stage
    tags: frozenset[str] = frozenset()
    """What `run_on` may name: all of it."""
    time: _Time = field(init=False)

    def __post_init__(self) -> None:
        self.time = _Time(self.stage.start, self.stage.start)
        self.store = open_store("sqlite://", create=True, now=self.time.wall)
        self._nodes: list[_Node] = []
        self._due_at = 0
        """Nothing is due before, unless an end makes it so."""

    def run(self, declared: Declared, told: Callable[[int], None] = lambda _: None) -> Rehearsed:
        """From start to end; `told` hears how far it is (µs). Deterministic. Raises what `apply` raises."""
        try:
            apply(self.store, declared)
            while self.time.now < self.stage.end:
                self._at_this_instant()
                told(self.time.now)
                self.time.now = self._next_event()
            self._at_this_instant()
            found, busiest = self.store.read("sums", lambda tx: (sums(tx), busiest_minutes(tx)))
            return Rehearsed(found, busiest)
        finally:
            self.store.close()

    def _at_this_instant(self) -> None:
        out = any(begin - 1 <= self.time.now < end for begin, end in self.stage.outages)
        if out:
            for node in self._nodes:
                node.settle(self.time.now)
                node.leave()
            self._nodes = []
            return
        if not self._nodes:
            self._due_at = 0
            self._nodes = [_Node(self, number + 1) for number in range(self.stage.nodes)]
        changed = [node.settle(self.time.now) for node in self._nodes]
        if any(changed):
            self._due_at = 0  # what follows an end, or counts from it, is due when that says
        elif self.time.now < self._due_at:
            return
        while sum(node.plan() for node in self._nodes):  # what one leaves, as its share, another takes
            if self.stage.nodes == 1:
                break

    def _next_event(self) -> int:
        now, stage = self.time.now, self.stage
        # A moment before an outage: a slot at its begin is not served any more.
        ahead = [edge for begin, end in stage.outages for edge in (begin - 1, end)]
        if self._nodes:
            ahead += [node.next_end for node in self._nodes if node.next_end is not None]
            ahead.append(self._when_due(now))
        return min([stage.end, *(each for each in ahead if each > now)])

    def _when_due(self, now: int) -> int:
        """When something is due that is not yet; of what is due and waits for an end, that end is an event of its own."""
        if now < self._due_at:
            return self._due_at
        seen = self.store.read("look", lambda tx: look(tx, now, 1))
        waits = bool(seen.triggers_due + seen.firings_due)
        self._due_at = now if waits else seen.next_at or self.stage.end
        if waits and all(node.next_end is None for node in self._nodes):
            return now + _STEP
        return seen.next_at or self.stage.end
