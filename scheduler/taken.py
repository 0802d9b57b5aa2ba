"""What a take is asked for, what it did, and the requests to run that come of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..triggers.instant import rfc3339
from .context import RunRequest
from .definitions import CompiledTrigger, KnownJob
from .errors import SchedulerError
from .firing import BACKFILL, DUE, RUNNING, NewFiring
from .identity import Identity, Term
from .loaded_job import LoadedJob
from .store.take_rows import DueFiring, Wanted

_NO_DATA: Mapping[str, Any] = {}


class Fenced(SchedulerError):
    """This incarnation may not write any more."""


class StaleTerm(SchedulerError):
    """The database knows a later epoch: this node does not lead any more."""


@dataclass(slots=True)
class Order:
    """What to take."""

    clocks: Wanted
    firings: Wanted
    capacity: int
    take_no: int
    no_firings: bool = False
    """The look saw no due firings: none are looked for."""
    no_clocks: bool = False
    """A leader decides: no triggers are looked for."""
    startless: bool = False
    """Only decide what starts nothing: the node is full. Every due trigger is asked in turn, `clocks.after` on."""
    on_time: Wanted | None = None
    """The part of the capacity that serves what is on time, when there is a backlog: it comes first."""
    term: Term | None = None
    """The leader's: decide for all nodes, and start nothing."""
    due: int = 0
    """How many triggers are due, as far as they were counted; for a leader, who learns in its transaction how many may start."""
    since: int = 0
    """What became due later is on time."""
    turn: bool = False
    """Whether a single place serves what is on time."""
    full: bool = False
    """Whether `clocks.after` is where the scan of a full cluster stopped."""


class Misfired(NamedTuple):
    """A misfire that was decided, for the log."""

    trigger: str
    scheduled_at: int
    late: int
    cause: str | None
    policy: str | None
    decision: str | None


class Trouble(NamedTuple):
    """Why a trigger could not be decided here; the version of its clock then, and its definition's hash."""

    reason: str
    version: int | None = None
    definition: int | None = None


@dataclass(frozen=True, slots=True)
class Late:
    """A trigger with due firings that must be judged again, and these firings' jobs."""

    trigger: CompiledTrigger
    job_ids: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Taken:
    """What a take did; nothing of it counts before the commit."""

    now: int = 0
    requests: list[RunRequest] = field(default_factory=list)
    decided: list[int] = field(default_factory=list)
    new: tuple[Sequence[int], Sequence[NewFiring]] = ((), ())
    """The rows that were written for decisions, and their ids before them."""
    misfired: list[Misfired] = field(default_factory=list)
    undecidable: dict[int, Trouble] = field(default_factory=dict)
    elsewhere: set[int] = field(default_factory=set)
    """Triggers whose `run_on` names tags that this node does not bear; likewise due firings below."""
    firings_elsewhere: set[int] = field(default_factory=set)
    poisoned: dict[int, str] = field(default_factory=dict)
    unreadable: dict[int, str] = field(default_factory=dict)
    """Jobs whose due firings cannot run, for what their row says cannot be read: {job id: reason}."""
    failed: dict[int, str] = field(default_factory=dict)
    """Due firings that can never run: {firing id: reason}."""
    to_load: set[int] = field(default_factory=set)
    resume: tuple[int, int, int] | None = None
    """Where a full node goes on asking; None: from the head again."""
    late: dict[int, Late] = field(default_factory=dict)
    """Triggers with due firings that must be judged again before they run."""
    left: int = 0
    """Due rows that were seen and left: no capacity, not loaded, busy."""
    due: int = 0
    """Firings that were made due, to be taken by any node."""
    full: bool = False
    """A leader found no node with a free place: only what starts nothing was decided."""
    nobody: set[int] = field(default_factory=set)
    """Triggers that no live node can run now, or whose job a leader does not know yet."""

    @property
    def moved(self) -> bool:
        """Whether another take at once may find other rows than this one."""
        ran = self.requests or self.decided or self.late
        left = self.undecidable or self.poisoned or self.unreadable or self.failed or self.to_load
        return bool(ran or left or self.elsewhere or self.firings_elsewhere or self.nobody)


class Starting(NamedTuple):
    """A new firing that runs here, once its row has an id."""

    firing: NewFiring
    job: LoadedJob
    trigger: CompiledTrigger
    known: KnownJob
    n: int | None = None
    """Which of its limited group's permits it has."""

    def request(self, firing_id: int, who: Identity) -> RunRequest:
        """The request to run it."""
        firing, trigger = self.firing, self.trigger
        return RunRequest(
            firing_id=firing_id,
            fence=1,
            job=self.job,
            trigger=trigger.key,
            scheduled_at=firing.scheduled_at,
            fired_at=firing.noticed_at,
            node=who.name,
            default_key=f"{who.cluster_uuid}/{trigger.key}/{rfc3339(firing.scheduled_at)}",
            late=firing.noticed_at - firing.scheduled_at,
            trigger_data=trigger.definition.data,
            timeout=firing.timeout,
            exclusive=firing.permit_key is not None or firing.limit_key is not None,
            incarnation=firing.incarnation or 0,
            job_id=self.known.id,
            followed=self.known.followed,
            delayed=trigger.definition.delay is not None,
            saved=_NO_DATA if self.known.policies.persist_data else None,
        )


class Runs(NamedTuple):
    """What a due firing runs: its job, loaded here and as the store knows it, and its trigger, if it has one."""

    loaded: LoadedJob
    known: KnownJob
    trigger: CompiledTrigger | None


def request_again(firing: DueFiring, runs: Runs, who: Identity, now: int) -> RunRequest:
    """The request to run a due firing: a retry, a manual start, a slot that was handed on.

    Raises ValueError where its data cannot be read.
    """
    trigger = runs.trigger
    key = firing.request_key
    if firing.trigger_id is not None or firing.reason == BACKFILL:  # of the slot, whoever asks for it
        key = f"{firing.trigger_name}/{rfc3339(firing.scheduled_at)}"
    return RunRequest(
        firing_id=firing.id,
        fence=firing.fence + 1,
        job=runs.loaded,
        trigger=firing.trigger_name,
        scheduled_at=firing.scheduled_at,
        fired_at=now,
        node=who.name,
        default_key=firing.idempotency_key or f"{who.cluster_uuid}/{key}",
        late=max(0, now - firing.scheduled_at),
        attempt=firing.attempt,
        recovering=firing.recoveries > 0,
        trigger_data=_NO_DATA if trigger is None else trigger.definition.data,
        fire_data=_NO_DATA if firing.data is None else _mapping(firing.data),
        timeout=firing.timeout,
        exclusive=firing.permit_key is not None or firing.limit_key is not None,
        incarnation=who.incarnation,
        job_id=firing.job_id,
        followed=runs.known.followed,
        delayed=trigger is not None and trigger.definition.delay is not None,
        saved=_NO_DATA if runs.known.policies.persist_data else None,
        follows=firing.of_firing if firing.reason == "after" else None,
    )


def start_row(firing: DueFiring, incarnation: int, take_no: int, now: int) -> tuple[Any, ...]:
    """What `take_rows.start_due` compares and sets to start this firing here."""
    first = now if firing.first_started_at is None else firing.first_started_at
    seen = (firing.id, firing.fence, DUE)
    return (*seen, RUNNING, firing.fence + 1, take_no, incarnation, now, first, None, None, None, None)


def _mapping(text: str) -> Mapping[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not a mapping")
    return value
