"""What the steps of one take share: its transaction, what was ordered, what is known, and what has been taken so far."""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from .definitions import CompiledTrigger, Definitions, KnownJob
from .firing import NewFiring
from .identity import Identity
from .permits import Permits
from .store.take_rows import DueClock
from .store.tx import Tx
from .taken import Order, Taken


@dataclass(slots=True)
class Desk:
    """For one attempt at one transaction."""

    tx: Tx
    order: Order
    who: Identity
    definitions: Definitions
    permits: Permits
    taken: Taken = field(default_factory=Taken)
    jobs: dict[int, KnownJob] = field(default_factory=dict)

    def read_jobs(self, ids: set[int]) -> None:
        self.jobs |= self.definitions.jobs(self.tx, ids)


class Case(NamedTuple):
    """One due trigger under decision."""

    clock: DueClock
    trigger: CompiledTrigger
    job: KnownJob


class Seats(Protocol):
    """Where what a decision starts may run: on this node, or on any of the cluster's."""

    born: str
    """The state of a firing that has a seat: running here, or due for any node."""

    def admits(self, case: Case) -> bool:
        """Whether this trigger may be decided now; why not is noted."""

    def free(self, case: Case) -> int:
        """How many of its firings have a place."""

    def take(self, case: Case) -> bool:
        """One of them gets a place, if there is one left."""

    def seated(self, case: Case, place: int, firing: NewFiring, n: int | None) -> None:
        """The firing that got it, its place among the rows to insert, and which of its group's permits it has."""


def run_on(trigger: CompiledTrigger | None, job: KnownJob) -> tuple[str, ...]:
    """The tags that a node must bear: the trigger's, else the job's."""
    return tuple((trigger.definition.run_on if trigger is not None else ()) or job.policies.run_on or ())
