"""One take: within one transaction, due triggers are decided, due firings started, and both written as running here.

Locks: own node row, then trigger clocks, permits, firings, each in index order and skipping what others hold. The clock
rows are compared and set forward before the ledger's rows go in, so a loser never touches the unique key.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..triggers.decide import Decision, Due, Row, decide, wants_cancel
from ..triggers.instant import rfc3339
from .context import RunRequest
from .definitions import CompiledTrigger, Definitions, KnownJob, Poison
from .errors import SchedulerError
from .firing import DUE, RUNNING, SKIPPED, NewFiring, permit_key, precedence, serial_key
from .identity import Identity
from .loaded_job import LoadedJob
from .store import node_rows, take_rows
from .store.error_rows import set_error
from .store.finish import supersede_retries
from .store.firing_rows import insert_firings
from .store.take_rows import DueClock, DueFiring, Wanted
from .store.tx import Tx

MAX_RECOVERIES = 3


_NO_DATA: Mapping[str, Any] = {}


class Fenced(SchedulerError):
    """This incarnation may not write any more."""


@dataclass(slots=True)
class Order:
    """What to take."""

    clocks: Wanted
    firings: Wanted
    capacity: int
    take_no: int
    startless: bool = False
    """Only decide what starts nothing: the node is full."""
    clocks_on_time: Wanted | None = None
    """The part of the capacity that serves what is on time, when there is a backlog."""


class Misfired(NamedTuple):
    """A misfire that was decided, for the log."""

    trigger: str
    scheduled_at: int
    late: int
    cause: str | None
    policy: str | None
    decision: str | None


@dataclass(slots=True)
class Taken:
    """What a take did; nothing of it counts before the commit."""

    now: int = 0
    requests: list[RunRequest] = field(default_factory=list)
    decided: list[int] = field(default_factory=list)
    misfired: list[Misfired] = field(default_factory=list)
    undecidable: dict[int, str] = field(default_factory=dict)
    poisoned: dict[int, str] = field(default_factory=dict)
    to_load: set[int] = field(default_factory=set)
    left: int = 0
    """Due rows that were seen and left: no capacity, not loaded, busy."""


class _Starting(NamedTuple):
    """A new firing that runs here, once its row has an id."""

    firing: NewFiring
    job: LoadedJob
    trigger: CompiledTrigger


class Take:
    """One attempt at a take; make a new one each time the transaction is repeated."""

    def __init__(self, tx: Tx, order: Order, who: Identity, definitions: Definitions) -> None:
        self._tx = tx
        self._order = order
        self._who = who
        self._definitions = definitions
        self._left = order.capacity
        self._jobs: dict[int, KnownJob] = {}
        self._permits: dict[str, int | None] = {}
        self._occupied: set[str] = set()
        self._busy_jobs: set[int] = set()
        self._covered: dict[int, bool] = {}
        self._inserts: list[NewFiring] = []
        self._starting: dict[int, _Starting] = {}
        self._clocks: list[tuple[Any, ...]] = []
        self._started: list[tuple[Any, ...]] = []
        self._holding: list[tuple[str, int, int]] = []
        self._finished_triggers: list[int] = []
        self._cancelling: set[int] = set()
        self.clock_ids: list[int] = []
        self.taken = Taken()

    def run(self) -> Taken:
        """Take; raises Fenced when this incarnation may not write any more."""
        tx = self._tx
        if not node_rows.share_alive(tx, self._who.incarnation):
            raise Fenced(f"incarnation {self._who.incarnation} was declared dead, or its lease has passed")
        self.taken.now = tx.now()
        clocks = self._lock_clocks()
        self.clock_ids = [clock.id for clock in clocks]
        firings = (
            [] if self._order.startless else take_rows.lock_due_firings(tx, tx.now(), self._order.firings)
        )
        if not clocks and not firings:
            return self.taken
        together: list[DueClock | DueFiring] = [*clocks, *firings]
        self._jobs = self._definitions.jobs(tx, {each.job_id for each in together})
        compiled = self._definitions.compiled(tx, clocks)
        self._look_at_permits(clocks, firings)
        for each in sorted(together, key=_by_place):
            if isinstance(each, DueClock):
                self._decide(each, compiled[each.id])
            else:
                self._start(each)
        self._write()
        return self.taken

    def _lock_clocks(self) -> list[DueClock]:
        tx, order = self._tx, self._order
        if order.startless:
            return take_rows.lock_startless_clocks(tx, tx.now(), order.clocks)
        found: dict[int, DueClock] = {}
        for wanted in (order.clocks_on_time, order.clocks):
            if wanted is not None and wanted.limit > 0:
                found |= {clock.id: clock for clock in take_rows.lock_due_clocks(tx, tx.now(), wanted)}
        return sorted(found.values(), key=_by_place)

    def _look_at_permits(self, clocks: list[DueClock], firings: list[DueFiring]) -> None:
        """Lock the permits that may be needed; one that somebody else is changing counts as held."""
        exclusive = {clock.job_id for clock in clocks if clock.overlap != "allow"}
        keys = {permit_key(job_id) for job_id in exclusive}
        keys |= {firing.permit_key for firing in firings if firing.permit_key is not None}
        if keys:
            self._permits = take_rows.lock_permits(self._tx, keys)
        if exclusive:
            self._busy_jobs = take_rows.jobs_with_due_firings(self._tx, exclusive, self._tx.now())

    def _permit_free(self, key: str) -> bool:
        return key in self._permits and self._permits[key] is None and key not in self._occupied

    # -- triggers ----------------------------------------------------------------------------------------------------

    def _decide(self, clock: DueClock, compiled: CompiledTrigger | Exception) -> None:
        """Decide one due trigger; whatever is wrong with it stays its own trouble."""
        taken = self.taken
        if isinstance(compiled, Exception):
            self._mark(clock, compiled)
            return
        job = self._jobs.get(clock.job_id)
        if job is None or job.problem is not None:
            self._mark(clock, Poison("its job's row is missing" if job is None else str(job.problem)))
            return
        loaded = self._definitions.loaded(job)
        if loaded is None:
            # Loading is user code and waits until this transaction is over; others may have it loaded.
            taken.to_load.add(job.id)
            taken.left += 1
            return
        try:
            self._apply(clock, compiled, job, loaded)
        except Exception as error:
            taken.undecidable[clock.id] = f"{type(error).__name__}: {error}"

    def _mark(self, clock: DueClock, error: Exception) -> None:
        if isinstance(error, Poison):
            self.taken.poisoned[clock.id] = str(error)
        else:
            self.taken.undecidable[clock.id] = str(error)

    def _apply(self, clock: DueClock, compiled: CompiledTrigger, job: KnownJob, loaded: LoadedJob) -> None:
        if clock.next_fire_at is None:
            raise Poison("it waits without a next fire time")
        overlap = job.policies.overlap or "allow"
        definition = compiled.definition
        due = Due(
            schedule=compiled.schedule,
            rule=definition.misfire,
            overlap=overlap,
            next_fire_at=clock.next_fire_at,
            next_run_at=clock.next_run_at,
            max_fires=definition.max_fires,
            fires=clock.fires,
        )
        exclusive = None if overlap == "allow" else permit_key(job.id)
        if exclusive is not None and exclusive not in self._permits:
            self.taken.left += 1  # its permit is being changed right now: next round
            return
        busy = exclusive is not None and (not self._permit_free(exclusive) or job.id in self._busy_jobs)
        capacity = 0 if self._order.startless else self._left
        decision = decide(due, busy=busy, capacity=capacity, now=self._tx.now())
        if decision is None:
            if wants_cancel(due, busy=busy, now=self._tx.now()):
                self._cancelling.add(job.id)
            self.taken.left += 1
            return
        self._record(clock, compiled, (job, loaded), decision)

    def _record(
        self, clock: DueClock, compiled: CompiledTrigger, job: tuple[KnownJob, LoadedJob], decision: Decision
    ) -> None:
        """Turn a decision into ledger rows and the clock's next state."""
        rows = [self._new_firing(clock, compiled, job[0], row, decision) for row in decision.rows]
        serial = any(row.serial for row in decision.rows)
        if serial and rows[-1].permit_key == serial_key(compiled.id):
            take_rows.make_permits(self._tx, {serial_key(compiled.id)})
            self._permits |= take_rows.lock_permits(self._tx, {serial_key(compiled.id)})
        for row, firing in zip(decision.rows, rows, strict=True):
            self._inserts.append(self._placed(row, firing, compiled, job[1]))
        if clock.retrying:
            supersede_retries(
                self._tx, compiled.id, decision.rows[-1].scheduled_at if decision.rows else decision.watermark
            )
        self._clocks.append(self._advanced(clock, decision))
        if decision.done:
            self._finished_triggers.append(clock.id)
        self.taken.decided.append(clock.id)

    def _placed(self, row: Row, firing: NewFiring, compiled: CompiledTrigger, loaded: LoadedJob) -> NewFiring:
        """A row that runs: running here, or (the rest of a serial backlog) due until its permit is free."""
        if not row.runs:
            return firing
        key = firing.permit_key
        if self._left < 1 or (key is not None and not self._permit_free(key)):
            return firing._replace(state=DUE)
        self._left -= 1
        if key is not None:
            self._occupied.add(key)
        now = self._tx.now()
        firing = firing._replace(
            fence=1,
            take_no=self._order.take_no,
            incarnation=self._who.incarnation,
            started_at=now,
            first_started_at=now,
        )
        self._starting[len(self._inserts)] = _Starting(firing, loaded, compiled)
        return firing

    def _new_firing(
        self, clock: DueClock, compiled: CompiledTrigger, job: KnownJob, row: Row, decision: Decision
    ) -> NewFiring:
        now, policies = self._tx.now(), job.policies
        key = permit_key(job.id) if (policies.overlap or "allow") != "allow" else None
        if key is None and row.serial:
            key = serial_key(compiled.id)
        cause = self._cause(clock, row)
        if row.policy is not None:
            self.taken.misfired.append(
                Misfired(compiled.key, row.first_scheduled_at, row.late, cause, row.policy, row.decision)
            )
        return NewFiring(
            self._tx.cluster,
            compiled.id,
            None,
            job.id,
            compiled.key,
            job.name,
            row.scheduled_at,
            row.first_scheduled_at,
            row.covers,
            row.reason,
            RUNNING if row.runs else SKIPPED,
            row.scheduled_at,
            precedence(compiled.definition.priority),
            now,
            finished_at=None if row.runs else now,
            misfire_cause=cause,
            misfire_policy=row.policy,
            misfire_decision=row.decision,
            request_recovery=int(bool(policies.request_recovery)),
            max_recoveries=MAX_RECOVERIES if policies.max_recoveries is None else policies.max_recoveries,
            permit_key=key if row.runs else None,
            timeout=policies.timeout,
            next_at=decision.next_fire_at,
            retry_until=compiled.definition.end_at,
        )

    def _cause(self, clock: DueClock, row: Row) -> str | None:
        """Why a misfired slot was late, as far as the rows tell."""
        if row.cause is not None or row.policy is None:
            return row.cause
        slot = row.first_scheduled_at
        if clock.overlap != "allow" and take_rows.was_running(self._tx, clock.id, slot):
            return "overlap"
        if self._who.database_was_down(slot):
            return "database_down"
        if slot not in self._covered:
            self._covered[slot] = node_rows.covered(self._tx, slot)
        return "no_capacity" if self._covered[slot] else "node_down"

    def _advanced(self, clock: DueClock, decision: Decision) -> tuple[Any, ...]:
        ran = [row.scheduled_at for row in decision.rows if row.runs]
        missed = [row.scheduled_at for row in decision.rows if row.reason == "misfire"]
        return (
            clock.id,
            clock.version,
            clock.next_run_at,
            clock.version + 1,
            decision.next_fire_at,
            decision.next_fire_at,
            decision.watermark,
            clock.fires + decision.fires,
            clock.misfires + decision.misfires,
            ran[-1] if ran else clock.last_fire_at,
            missed[-1] if missed else clock.last_misfire_at,
            0,
        )

    # -- firings -----------------------------------------------------------------------------------------------------

    def _start(self, firing: DueFiring) -> None:
        """Start one due firing here, if its permit is free, its job is loaded and there is a place."""
        job = self._jobs.get(firing.job_id)
        if self._left < 1 or job is None or job.problem is not None:
            self.taken.left += 1
            return
        loaded = self._definitions.loaded(job)
        if loaded is None:
            self.taken.to_load.add(job.id)
            self.taken.left += 1
            return
        key = firing.permit_key
        if key is not None and not self._permit_free(key):
            self.taken.left += 1
            return
        trigger_id = firing.trigger_id or firing.requested_trigger_id
        trigger = None if trigger_id is None else self._definitions.trigger(self._tx, trigger_id)
        self._left -= 1
        fence, now = firing.fence + 1, self._tx.now()
        if key is not None:
            self._occupied.add(key)
            self._holding.append((key, firing.id, fence))
        first = now if firing.first_started_at is None else firing.first_started_at
        self._started.append(
            (
                firing.id,
                firing.fence,
                DUE,
                RUNNING,
                fence,
                self._order.take_no,
                self._who.incarnation,
                now,
                first,
                None,
                None,
            )
        )
        self.taken.requests.append(self._request_of(firing, fence, loaded, trigger))

    def _request_of(
        self, firing: DueFiring, fence: int, loaded: LoadedJob, trigger: CompiledTrigger | None
    ) -> RunRequest:
        slot = firing.trigger_id is not None
        key = f"{firing.trigger_name}/{rfc3339(firing.scheduled_at)}" if slot else firing.request_key
        now = self._tx.now()
        return RunRequest(
            firing_id=firing.id,
            fence=fence,
            job=loaded,
            trigger=firing.trigger_name,
            scheduled_at=firing.scheduled_at,
            fired_at=now,
            node=self._who.name,
            default_key=f"{self._who.cluster_uuid}/{key}",
            late=max(0, now - firing.scheduled_at),
            attempt=firing.attempt,
            recovering=firing.recoveries > 0,
            trigger_data=_NO_DATA if trigger is None else trigger.definition.data,
            fire_data=_NO_DATA if firing.data is None else _mapping(firing.data),
            timeout=firing.timeout,
            exclusive=firing.permit_key is not None,
        )

    # -- writing -----------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        tx = self._tx
        for trigger_id, reason in self.taken.poisoned.items():
            set_error(tx, trigger_id, "poison", reason)
        if take_rows.advance_clocks(tx, self._clocks) != len(self._clocks):
            raise SchedulerError("a locked trigger clock moved: the take is undone")
        if self._finished_triggers:
            take_rows.finish_triggers(tx, self._finished_triggers)
        ids = insert_firings(tx, self._inserts)
        for place, starting in self._starting.items():
            self.taken.requests.append(self._request_for(starting, ids[place]))
            if starting.firing.permit_key is not None:
                self._holding.append((starting.firing.permit_key, ids[place], 1))
        if take_rows.start_due(tx, self._started) != len(self._started):
            raise SchedulerError("a locked firing moved: the take is undone")
        take_rows.hold_permits(tx, self._holding)
        if self._cancelling:
            take_rows.request_cancel(tx, self._cancelling, "overlap")

    def _request_for(self, starting: _Starting, firing_id: int) -> RunRequest:
        firing, trigger = starting.firing, starting.trigger
        return RunRequest(
            firing_id=firing_id,
            fence=1,
            job=starting.job,
            trigger=trigger.key,
            scheduled_at=firing.scheduled_at,
            fired_at=firing.noticed_at,
            node=self._who.name,
            default_key=f"{self._who.cluster_uuid}/{trigger.key}/{rfc3339(firing.scheduled_at)}",
            late=firing.noticed_at - firing.scheduled_at,
            trigger_data=trigger.definition.data,
            timeout=firing.timeout,
            exclusive=firing.permit_key is not None,
        )


def _by_place(each: DueClock | DueFiring) -> tuple[int, int, int]:
    run_at = each.next_run_at if isinstance(each, DueClock) else each.run_at
    return run_at, each.precedence, each.id


def _mapping(text: str) -> Mapping[str, Any]:
    value = json.loads(text)
    return value if isinstance(value, dict) else _NO_DATA
