"""One take: within one transaction, due triggers are decided, due firings started, and both written as running here.

Locks: own node row, then trigger clocks, firings, permits, each in index order and skipping what others hold. The clock
rows are compared and set forward before the ledger's rows go in, so a loser never touches the unique key.
"""

from typing import Any, NamedTuple

from ..triggers.decide import Decision, Due, Row, decide, wants_cancel
from .causes import Causes
from .definitions import CompiledTrigger, Definitions, KnownJob, Poison, Undecidable
from .errors import SchedulerError
from .firing import DUE, RUNNING, SKIPPED, NewFiring, permit_key, serial_key
from .identity import Identity
from .loaded_job import LoadedJob
from .store import node_rows, take_rows
from .store.error_rows import set_error
from .store.finish import supersede_retries
from .store.firing_rows import insert_firings
from .store.take_rows import DueClock, DueFiring
from .store.tx import Tx
from .taken import Fenced, Misfired, Order, Starting, Taken, Trouble, request_again, start_row

MAX_RECOVERIES = 3


class _Case(NamedTuple):
    """One due trigger under decision."""

    clock: DueClock
    trigger: CompiledTrigger
    job: KnownJob
    loaded: LoadedJob


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
        self._causes = Causes(tx, who)
        self._inserts: list[NewFiring] = []
        self._starting: dict[int, Starting] = {}
        self._clocks: list[tuple[Any, ...]] = []
        self._started: list[tuple[Any, ...]] = []
        self._holding: list[tuple[str, int, int]] = []
        self._finished_triggers: list[int] = []
        self._cancelling: set[int] = set()
        self.clock_ids: list[int] = []
        self.firing_ids: list[int] = []
        self.taken = Taken()

    def run(self) -> Taken:
        """Take; raises Fenced when this incarnation may not write any more."""
        tx = self._tx
        if not node_rows.share_alive(tx, self._who.incarnation):
            raise Fenced(f"incarnation {self._who.incarnation} was declared dead, or its lease has passed")
        self.taken.now = tx.now()
        clocks = self._lock_clocks()
        self.clock_ids = [clock.id for clock in clocks]
        firings = [] if self._order.startless or self._order.no_firings else self._lock_firings()
        self.firing_ids = [firing.id for firing in firings]
        if not clocks and not firings:
            return self.taken
        together: list[DueClock | DueFiring] = [*clocks, *firings]
        self._jobs = self._definitions.jobs(tx, {each.job_id for each in together})
        compiled = self._definitions.compiled(tx, clocks)
        self._look_at_permits(clocks, firings)
        for each in self._in_order(together):
            if isinstance(each, DueClock):
                self._decide(each, compiled[each.id])
            else:
                self._start(each)
        self._write()
        return self.taken

    def locked(self) -> bool:
        """Whether it came so far that its rows could be tried one by one."""
        return bool(self.clock_ids or self.firing_ids)

    def _lock_clocks(self) -> list[DueClock]:
        tx, order = self._tx, self._order
        if order.startless:
            return self._lock_startless()
        found: dict[int, DueClock] = {}
        for wanted in (order.on_time, order.clocks):
            if wanted is not None:
                found |= {clock.id: clock for clock in take_rows.lock_due_clocks(tx, tx.now(), wanted)}
        return sorted(found.values(), key=_by_place)

    def _lock_startless(self) -> list[DueClock]:
        """What surely starts nothing, and a window of all that is due: poison and the like is known only by trying."""
        tx, window = self._tx, self._order.clocks
        asked = take_rows.lock_due_clocks(tx, tx.now(), window)
        self.taken.resume = _by_place(asked[-1]) if len(asked) >= window.limit else None
        sure = take_rows.lock_startless_clocks(tx, tx.now(), window._replace(after=None))
        return sorted({clock.id: clock for clock in (*asked, *sure)}.values(), key=_by_place)

    def _lock_firings(self) -> list[DueFiring]:
        tx, order = self._tx, self._order
        found: dict[int, DueFiring] = {}
        for wanted in (order.on_time, order.firings):
            if wanted is not None:
                found |= {firing.id: firing for firing in take_rows.lock_due_firings(tx, tx.now(), wanted)}
        return list(found.values())

    def _in_order(self, together: list[DueClock | DueFiring]) -> list[DueClock | DueFiring]:
        """Oldest first; with a backlog what is on time comes before it, as far as places are kept for that."""
        ordered = sorted(together, key=_by_place)
        reserve = self._order.on_time
        if reserve is None or reserve.since is None:
            return ordered
        first = [each for each in ordered if _is_newcomer(each, reserve.since)][: reserve.limit]
        kept = {id(each) for each in first}
        return first + [each for each in ordered if id(each) not in kept]

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
        if not self._may_run_here(compiled, job):
            taken.elsewhere.add(clock.id)
            return
        loaded = self._definitions.loaded(job)
        if loaded is None:
            # Loading is user code and waits until this transaction is over; others may have it loaded.
            taken.to_load.add(job.id)
            taken.left += 1
            return
        if clock.next_fire_at is None:
            self._mark(clock, Poison("it waits without a next fire time"))
            return
        self._apply(_Case(clock, compiled, job, loaded), clock.next_fire_at)

    def _may_run_here(self, trigger: CompiledTrigger | None, job: KnownJob) -> bool:
        """Whether this node bears every tag that the trigger's (else the job's) `run_on` names."""
        wanted = (trigger.definition.run_on if trigger is not None else ()) or job.policies.run_on or ()
        return self._who.tags.issuperset(wanted)

    def _mark(self, clock: DueClock, error: Exception) -> None:
        if isinstance(error, Poison):
            self.taken.poisoned[clock.id] = str(error)
        else:
            self.taken.undecidable[clock.id] = Trouble(str(error), clock.version, clock.definition_hash)

    def _apply(self, case: _Case, next_fire_at: int) -> None:
        clock, compiled, job = case.clock, case.trigger, case.job
        overlap = clock.overlap  # what the row says is what is locked; the job's may have changed since
        definition = compiled.definition
        due = Due(
            schedule=compiled.schedule,
            rule=definition.misfire,
            overlap=overlap,
            next_fire_at=next_fire_at,
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
        try:
            decision = decide(due, busy=busy, capacity=capacity, now=self._tx.now())
            cancelling = decision is None and wants_cancel(due, busy=busy, now=self._tx.now())
        except Exception as error:  # a fact about this node; what the database raises is no part of it
            self._mark(clock, Undecidable(f"{type(error).__name__}: {error}"))
            return
        if decision is not None:
            self._record(case, decision)
            return
        if cancelling:
            self._cancelling.add(job.id)
        self.taken.left += 1

    def _record(self, case: _Case, decision: Decision) -> None:
        """Turn a decision into ledger rows and the clock's next state."""
        clock = case.clock
        key = self._permit_of(case, decision)
        for row in decision.rows:
            place = self._place(row, key)
            firing = self._new_firing(case, decision, row, place, key)
            if place == RUNNING:
                self._starting[len(self._inserts)] = Starting(firing, case.loaded, case.trigger)
            self._inserts.append(firing)
        if clock.retrying:
            last = decision.rows[-1].scheduled_at if decision.rows else decision.watermark
            supersede_retries(self._tx, clock.id, clock.job_id, last)
        self._clocks.append(self._advanced(clock, decision))
        if decision.done:
            self._finished_triggers.append(clock.id)
        self.taken.decided.append(clock.id)

    def _permit_of(self, case: _Case, decision: Decision) -> str | None:
        """The permit that what runs of this decision needs: the no-overlap job's, or the serial backlog's own."""
        if case.clock.overlap != "allow":
            return permit_key(case.job.id)
        if (
            not decision.rows or not decision.rows[-1].serial
        ):  # what is left out of a backlog comes before what runs
            return None
        key = serial_key(case.trigger.id)
        take_rows.make_permits(self._tx, {key})
        self._permits |= take_rows.lock_permits(self._tx, {key})
        return key

    def _place(self, row: Row, key: str | None) -> str:
        """The state a row is born in: running here, or due until its permit or a place is free (a serial backlog's rest)."""
        if not row.runs:
            return SKIPPED
        if self._left < 1 or (key is not None and not self._permit_free(key)):
            return DUE
        self._left -= 1
        if key is not None:
            self._occupied.add(key)
        return RUNNING

    def _new_firing(
        self, case: _Case, decision: Decision, row: Row, place: str, key: str | None
    ) -> NewFiring:
        compiled, job = case.trigger, case.job
        now, policies, here = self._tx.now(), job.policies, place == RUNNING
        cause = self._causes.of(case.clock, row)
        if row.policy is not None:
            self.taken.misfired.append(
                Misfired(compiled.key, row.first_scheduled_at, row.late, cause, row.policy, row.decision)
            )
        # By position, in the columns' order: names cost as much as the rest, and this is done once per firing.
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
            place,
            row.scheduled_at,
            case.clock.precedence,
            now,
            1 if here else 0,
            self._order.take_no if here else None,
            0,
            0,
            0,
            self._who.incarnation if here else None,
            now if here else None,
            now if here else None,
            now if place == SKIPPED else None,
            cause,
            row.policy,
            row.decision,
            int(bool(policies.request_recovery)),
            MAX_RECOVERIES if policies.max_recoveries is None else policies.max_recoveries,
            key if row.runs else None,
            policies.timeout,
            decision.next_fire_at,
            compiled.definition.end_at,
        )

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
        if job is None or job.problem is not None:
            # Left to others for a while: what cannot run must not stand before what can, at every look.
            self.taken.unreadable[firing.job_id] = "its row is missing" if job is None else str(job.problem)
            return
        if self._left < 1:
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
        if not self._may_run_here(trigger, job):
            self.taken.firings_elsewhere.add(firing.id)
            return
        if trigger is not None and self._is_late(firing, trigger):
            self.taken.late[trigger.id] = trigger
            return
        fence, now = firing.fence + 1, self._tx.now()
        try:
            request = request_again(firing, loaded, trigger, self._who, now)
        except ValueError as error:
            self.taken.failed[firing.id] = f"its data cannot be read: {error}"
            return
        self._left -= 1
        if key is not None:
            self._occupied.add(key)
            self._holding.append((key, firing.id, fence))
        self._started.append(start_row(firing, self._who.incarnation, self._order.take_no, now))
        self.taken.requests.append(request)

    def _is_late(self, firing: DueFiring, trigger: CompiledTrigger) -> bool:
        """A slot that was decided in time and never begun until it is older than the threshold is judged again."""
        fresh = firing.reason == "schedule" and firing.first_started_at is None
        return fresh and self._tx.now() - firing.run_at > trigger.definition.misfire.threshold

    # -- writing -----------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        tx = self._tx
        for trigger_id, reason in self.taken.poisoned.items():
            set_error(tx, trigger_id, "poison", reason)
        for firing_id, reason in self.taken.failed.items():
            take_rows.fail_due(tx, firing_id, reason)
        if take_rows.advance_clocks(tx, self._clocks) != len(self._clocks):
            raise SchedulerError("a locked trigger clock moved: the take is undone")
        if self._finished_triggers:
            take_rows.finish_triggers(tx, self._finished_triggers)
        ids = insert_firings(tx, self._inserts)
        for place, starting in self._starting.items():
            self.taken.requests.append(starting.request(ids[place], self._who))
            if starting.firing.permit_key is not None:
                self._holding.append((starting.firing.permit_key, ids[place], 1))
        if take_rows.start_due(tx, self._started) != len(self._started):
            raise SchedulerError("a locked firing moved: the take is undone")
        take_rows.hold_permits(tx, self._holding)
        if self._cancelling:
            take_rows.request_cancel(tx, self._cancelling, "overlap")


def _is_newcomer(each: DueClock | DueFiring, since: int) -> bool:
    """Whether it became due after `since` and waits for no turn of its own."""
    return _by_place(each)[0] > since and (isinstance(each, DueClock) or each.permit_key is None)


def _by_place(each: DueClock | DueFiring) -> tuple[int, int, int]:
    run_at = each.next_run_at if isinstance(each, DueClock) else each.run_at
    return run_at, each.precedence, each.id
