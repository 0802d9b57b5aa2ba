"""What one seed will do: how many nodes of what kind, which triggers and jobs, which faults and verbs at which moments.

A plan is a plain value, drawn from its seed alone; a smaller one is made by leaving things out.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from qsched.triggers.job import JobDefinition
from qsched.triggers.trigger import TriggerDefinition


class Strike(NamedTuple):
    """A fault to come. Instants and spans in µs, `at` since the run's begin."""

    at: int
    kind: str
    node: int = -1
    """Which node; -1: all, or the database."""
    span: int = 0
    name: str = ""
    """Of a fault at a transaction: which one it waits for; empty: any."""
    size: int = 0
    """How far a clock is set."""


class Verb(NamedTuple):
    """What an operator will do."""

    at: int
    kind: str
    key: str = ""
    number: int = 0
    """Tells one request from another, and which of the drawn changes an edit makes."""
    span: int = 0


class BodyKind(NamedTuple):
    """How the bodies of a job behave; durations in µs."""

    shortest: int
    longest: int
    failing: float
    deaf: float
    """How often it does not hear that it should stop."""
    refiring: float = 0.0
    permanent: float = 0.0
    keeping: float = 0.0
    """How often a run changes what its job keeps, where it keeps data."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The cluster's times, µs, and how sparing the simulation is with what only looks."""

    check_in: int
    lease: int
    drain: int
    latency: int
    """The longest a transaction's request or answer usually travels."""
    idle: int
    """The longest an idle planner sleeps where nothing becomes due; the house's own is one second."""
    upkeep: int
    leader_ttl: int


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a run needs to know."""

    seed: int
    length: int
    """µs until the end; nothing strikes in the last `quiet` of it."""
    quiet: int
    nodes: int
    capacities: tuple[int, ...]
    timing: Timing
    jobs: tuple[JobDefinition, ...]
    bodies: dict[str, BodyKind]
    triggers: tuple[TriggerDefinition, ...]
    strikes: tuple[Strike, ...] = ()
    verbs: tuple[Verb, ...] = ()
    edits: tuple[TriggerDefinition, ...] = ()
    """What the edits among the verbs make of a trigger, by the verb's number."""
    limits: tuple[dict[str, int], ...] = ({},)
    """{group of jobs: how many run at once}: at the beginning, and what operators make of it, by the verb's number."""
    coordination: str = "row_locks"
    elector: str | None = None
    on_redis_loss: str = "row_locks"
    sense: str | None = None
    """How others learn that a process is gone: `locks` freed in the database, `marks` on one host, or by its lease alone."""
    sweeps: bool = True
    """Whether the sweep looks for what contradicts itself; no crash leaves any such thing, and none may be hidden by it."""
    cannot: tuple[tuple[int, str], ...] = ()
    """(node, job) that cannot be loaded there."""

    def keeping(self, name: str, places: set[int]) -> "Plan":
        """The same plan with only these of its strikes, verbs or triggers, by their place."""
        kept = tuple(each for place, each in enumerate(getattr(self, name)) if place in places)
        changed: dict[str, Any] = {name: kept}
        return replace(self, **changed)

    def cut(self, length: int) -> "Plan":
        """The same plan, ended after `length` µs."""
        return replace(self, length=min(self.length, length))
