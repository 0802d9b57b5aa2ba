"""Due triggers are decided: each decision becomes ledger rows and the clock's next state, written together at the end.

The clock rows are compared and set forward before the ledger's rows go in, so a loser never touches the unique key.
"""

from typing import Any

from ..triggers.decide import Decision, Due, Row, decide, wants_cancel
from .causes import Causes
from .definitions import CompiledTrigger, Poison, Undecidable
from .desk import Case, Desk, Seats
from .errors import OVERLAP, SchedulerError
from .firing import DUE, MAX_RECOVERIES, RUNNING, SKIPPED, NewFiring, permit_key
from .store import take_rows
from .store.error_rows import set_error
from .store.firing_rows import insert_firings
from .store.take_rows import DueClock
from .store.waiting_retries import OF_ANOTHER_JOB, supersede_retries
from .taken import Misfired, Trouble


class Deciding:
    """Of one take. Whatever is wrong with a trigger stays its own trouble."""

    def __init__(self, desk: Desk, seats: Seats) -> None:
        self._desk = desk
        self._tx = desk.tx
        self._seats = seats
        self._causes = Causes(desk.tx, desk.who)
        self._inserts: list[NewFiring] = []
        self._clocks: list[tuple[Any, ...]] = []
        self._finished: list[int] = []
        self._cancelling: set[int] = set()

    def decide(self, clock: DueClock, compiled: CompiledTrigger | Exception) -> None:
        """Decide one due trigger, if its turn has come and somebody could start what it decides."""
        if isinstance(compiled, Exception):
            self._mark(clock, compiled)
            return
        job = self._desk.jobs.get(clock.job_id)
        if job is None or job.problem is not None:
            self._mark(clock, Poison("its job's row is missing" if job is None else str(job.problem)))
            return
        case = Case(clock, compiled, job)
        if not self._seats.admits(case):
            return
        if clock.next_fire_at is None:
            self._mark(clock, Poison("it waits without a next fire time"))
            return
        self._apply(case, clock.next_fire_at)

    def _mark(self, clock: DueClock, error: Exception) -> None:
        taken = self._desk.taken
        if isinstance(error, Poison):
            taken.poisoned[clock.id] = str(error)
        else:
            taken.undecidable[clock.id] = Trouble(str(error), clock.version, clock.definition_hash)

    def _apply(self, case: Case, next_fire_at: int) -> None:
        clock, definition, permits = case.clock, case.trigger.definition, self._desk.permits
        due = Due(
            schedule=case.trigger.schedule,
            rule=definition.misfire,
            overlap=clock.overlap,  # what the row says is what is locked; the job's may have changed since
            next_fire_at=next_fire_at,
            next_run_at=clock.next_run_at,
            max_fires=definition.max_fires,
            fires=clock.fires,
            after_end=definition.delay is not None,
        )
        exclusive = clock.overlap != "allow"
        if exclusive and not permits.known(permit_key(case.job.id)):
            self._desk.taken.left += 1  # its permit is being changed right now: next round
            return
        busy = exclusive and permits.busy(case.job.id)
        capacity = 0 if self._desk.order.startless else self._seats.free(case)
        if clock.limit_key is not None:
            capacity = min(capacity, permits.left_of_group(clock.limit_key))
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
            self._cancelling.add(case.job.id)
        self._desk.taken.left += 1

    def _record(self, case: Case, decision: Decision) -> None:
        """Turn a decision into ledger rows and the clock's next state."""
        clock = case.clock
        key = self._permit_of(case, decision)
        for row in decision.rows:
            place, n = self._place(case, row, key)
            firing = self._new_firing(case, decision, row, place, key)
            if place == RUNNING:
                self._seats.seated(case, len(self._inserts), firing, n)
            self._inserts.append(firing)
            self._desk.taken.due += place == DUE
        if clock.retrying:
            last = decision.rows[-1].scheduled_at if decision.rows else decision.watermark
            jobs = () if clock.retrying == OF_ANOTHER_JOB else (clock.job_id,)
            supersede_retries(self._tx, clock.id, jobs, last, followed=case.job.followed)
        self._clocks.append(_advanced(case, decision))
        if decision.done:
            self._finished.append(clock.id)
        self._desk.taken.decided.append(clock.id)

    def _permit_of(self, case: Case, decision: Decision) -> str | None:
        """The permit that what runs of this decision needs: the no-overlap job's, or the serial backlog's own."""
        if case.clock.overlap != "allow":
            return permit_key(case.job.id)
        # What is left out of a backlog comes before what runs, so the last row tells.
        serial = bool(decision.rows) and decision.rows[-1].serial
        return self._desk.permits.serial(case.trigger.id) if serial else None

    def _place(self, case: Case, row: Row, key: str | None) -> tuple[str, int | None]:
        """The state a row is born in, and which of its limited group's permits it has.

        What has no permit or place yet (a serial backlog's rest) is due until it has.
        """
        if not row.runs:
            return SKIPPED, None
        permits, group = self._desk.permits, case.clock.limit_key
        if not permits.admit(key, group) or not self._seats.take(case):
            return DUE, None
        return self._seats.born, permits.occupy(key, group)

    def _new_firing(self, case: Case, decision: Decision, row: Row, place: str, key: str | None) -> NewFiring:
        compiled, job, clock = case.trigger, case.job, case.clock
        now, policies, here = self._tx.now(), job.policies, place == RUNNING
        cause = self._causes.of(clock, row)
        if row.policy is not None:
            self._desk.taken.misfired.append(
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
            # With its jitter: a row that waits for a node is late only by what came after that.
            max(row.scheduled_at, clock.next_run_at)
            if row.scheduled_at == clock.next_fire_at
            else row.scheduled_at,
            clock.precedence,
            now,
            1 if here else 0,
            self._desk.order.take_no if here else None,
            0,
            0,
            0,
            self._desk.who.incarnation if here else None,
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
            limit_key=clock.limit_key if row.runs else None,
        )

    # -- writing -----------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Write what is wrong with triggers, and move the clocks of the decided ones."""
        tx = self._tx
        for trigger_id, reason in self._desk.taken.poisoned.items():
            set_error(tx, trigger_id, "poison", reason)
        if take_rows.advance_clocks(tx, self._clocks) != len(self._clocks):
            raise SchedulerError("a locked trigger clock moved: the take is undone")
        if self._finished:
            take_rows.finish_triggers(tx, self._finished)

    def insert(self) -> list[int]:
        """Write the decisions' rows; their ids, in order."""
        ids = insert_firings(self._tx, self._inserts)
        self._desk.taken.new = (ids, self._inserts)
        return ids

    def cancel(self) -> None:
        """Ask those to stop whose triggers' next slots wait for that."""
        if self._cancelling:
            take_rows.request_cancel(self._tx, self._cancelling, OVERLAP)


def _advanced(case: Case, decision: Decision) -> tuple[Any, ...]:
    clock, slot = case.clock, decision.next_fire_at
    ran = [row.scheduled_at for row in decision.rows if row.runs]
    missed = [row.scheduled_at for row in decision.rows if row.reason == "misfire"]
    return (
        clock.id,
        clock.version,
        clock.next_run_at,
        clock.version + 1,
        slot,
        None if slot is None else case.trigger.run_time(slot),
        decision.watermark,
        clock.fires + decision.fires,
        clock.misfires + decision.misfires,
        ran[-1] if ran else clock.last_fire_at,
        missed[-1] if missed else clock.last_misfire_at,
        0,
    )
