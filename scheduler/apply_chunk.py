"""One transaction of an apply: jobs and triggers as they are wanted, what old definitions owed closed on the way."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..triggers.schedule import Schedule
from ..triggers.trigger import SPEC_VERSION, TriggerDefinition
from .changes import ADD, RETIRE, REVIVE, JobChange, TriggerChange
from .desired import named as named_by
from .effective import group_of, overlap_of, skip_after
from .firing import NewFiring, limit_key, precedence
from .store import calendar_rows, definition_rows, job_rows, limit_rows, trigger_rows, waiting_rows
from .store.after_end import set_next
from .store.firing_rows import insert_firings
from .store.job_rows import JobHead, JobRow
from .store.trigger_rows import DONE, RETIRED, WAITING, ClockChange, DefinitionChange, NewTrigger, TriggerRow
from .store.tx import Tx
from .stored import PAUSED, Stored, closing_row, next_slot, reason_for, span_owed, waits_for_end

BY_FILE = "declared paused"


class Moved(Exception):
    """The store is not as it was when the changes were worked out: look again."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A change with its schedules compiled: what is wanted, and what the stored row says."""

    change: TriggerChange
    schedule: Schedule | None
    before: TriggerRow | None
    stored: Stored

    @classmethod
    def of(cls, change: TriggerChange, before: TriggerRow | None) -> "Prepared":
        """Compile what is wanted and what there was; raises CronError, ZoneError, … for what is wrong with the wanted."""
        schedule = None if change.wanted is None else change.wanted.definition.compile()
        return cls(change, schedule, before, Stored() if before is None else Stored.of(before))


@dataclass(slots=True)
class Chunk:
    """What one transaction is to do, and under which name."""

    namespace: str
    revision: int
    who: str | None
    forget: bool
    """Whether a trigger that goes also forgets its pause (`prune` delete)."""
    keep: bool = False
    """Whether what left the file stays (`prune` keep)."""
    jobs: list[JobChange] = field(default_factory=list)
    triggers: list[Prepared] = field(default_factory=list)
    retired_jobs: list[JobChange] = field(default_factory=list)
    defaults: Mapping[str, object] | None = None
    """New cluster defaults; None where they stay."""
    limits: Mapping[str, int] | None = None
    """New limits of the namespace's groups; None where they stay."""

    calendars: Mapping[str, Mapping[str, object]] | None = None
    """The namespace's register of calendars; None where it stays."""

    @property
    def for_all(self) -> bool:
        """Whether it changes what holds for all jobs of the cluster."""
        return self.defaults is not None or self.limits is not None


@dataclass(slots=True)
class Written:
    """What one transaction did, beyond what was asked."""

    closed: int = 0
    cancelled: int = 0
    warnings: list[str] = field(default_factory=list)


def write_chunk(tx: Tx, chunk: Chunk) -> Written:
    """Do `chunk`; raises Moved when the store is no longer what it was compiled for. The namespace is locked already."""
    writing = _Writing(tx, chunk)
    writing.write_jobs()
    writing.write_triggers()
    if chunk.calendars is not None:
        calendar_rows.write_calendars(tx, chunk.namespace, chunk.calendars, keep=chunk.keep)
    limit_rows.number_permits(tx, writing.permits)
    job_rows.retire_jobs(tx, [_head(change).id for change in chunk.retired_jobs])
    return writing.written


class _Writing:
    """The state of one `write_chunk`."""

    def __init__(self, tx: Tx, chunk: Chunk) -> None:
        self.tx = tx
        self.chunk = chunk
        self.now = tx.now()
        self.written = Written()
        self.paused_groups = definition_rows.read_paused_groups(tx)
        self.defaults = definition_rows.read_defaults(tx)[0]
        self.jobs: dict[str, JobRow] = {}
        self.limits: dict[str, limit_rows.Limit] = {}
        self.permits: dict[str, int] = {}
        """{key of a group whose limit is new: how many permits it has from now on}"""
        self.overlaps: dict[int, str] = {}
        self.closings: list[NewFiring] = []
        self.clocks: list[ClockChange] = []
        self.states: list[tuple[int, str]] = []
        self.next_of: dict[int, int | None] = {}
        self.job_ids: set[int] = set()
        self.skipped: list[int] = []
        """Triggers whose waiting firings end here: where slots count from ends, the next counts from now."""

    # -- jobs --------------------------------------------------------------------------------------------------------

    def write_jobs(self) -> None:
        """Jobs first: triggers carry their ids and their effective overlap."""
        chunk, tx = self.chunk, self.tx
        if chunk.defaults is not None:
            definition_rows.write_defaults(tx, chunk.defaults, chunk.namespace)
            self.defaults = dict(chunk.defaults)
        if chunk.limits is not None:
            self.permits = limit_rows.write_limits(tx, chunk.namespace, chunk.limits)
        self.limits = limit_rows.read_limits(tx)
        named = {
            name
            for each in chunk.triggers
            if each.change.wanted is not None
            for name in named_by(each.change.wanted.definition)
        }
        names = named | {change.name for change in (*chunk.jobs, *chunk.retired_jobs)}
        rows = job_rows.read_jobs(tx, names, lock=True)
        for change in (*chunk.jobs, *chunk.retired_jobs):
            row = rows.get(change.name)
            if (None if row is None else JobHead(*row[:5])) != change.head:
                raise Moved
        added = [change.wanted for change in chunk.jobs if change.kind == ADD and change.wanted is not None]
        job_rows.insert_jobs(tx, [(job.name, job.namespace, job.spec, job.digest) for job in added])
        changed = [(_head(change).id, change.wanted) for change in chunk.jobs if change.kind != ADD]
        job_rows.update_jobs(
            tx, [(job_id, job.namespace, job.spec, job.digest) for job_id, job in changed if job is not None]
        )
        self.jobs = job_rows.read_jobs(tx, names) if chunk.jobs else rows
        if named - self.jobs.keys() or any(self.jobs[name].state != job_rows.ACTIVE for name in named):
            raise Moved
        self._write_overlaps()

    def _write_overlaps(self) -> None:
        """Whose policies changed gives its new overlap to its triggers' clocks."""
        rows = [self.jobs[change.name] for change in self.chunk.jobs]
        if self.chunk.for_all:
            rows = job_rows.all_jobs(self.tx, lock=True)
        job_rows.set_overlap(self.tx, {row.id: self._overlap(row) for row in rows})
        if self.limits or self.chunk.limits is not None:
            limit_rows.set_limit_keys(self.tx, {row.id: self._limit(row) for row in rows})

    def _limit(self, row: JobRow) -> str | None:
        limit = self.limits.get(group_of(row.spec)) if self.limits else None
        return None if limit is None else limit_key(limit.id)

    def _after(self, trigger: TriggerDefinition) -> tuple[int | None, str | None]:
        """(the job that it follows, which ends) of a continuation; the nodes are told that the job is followed."""
        if trigger.after is None:
            return None, None
        name, condition = trigger.after
        job_rows.mark_followed(self.tx, self.jobs[name].id)
        return self.jobs[name].id, condition

    def _overlap(self, row: JobRow) -> str:
        if row.id not in self.overlaps:
            self.overlaps[row.id] = overlap_of(row.spec, row.loaded, self.defaults)
        return self.overlaps[row.id]

    # -- triggers ----------------------------------------------------------------------------------------------------

    def write_triggers(self) -> None:
        """Insert what is new; lock, check and move what there is."""
        tx, chunk = self.tx, self.chunk
        known = [each for each in chunk.triggers if each.before is not None]
        rows = trigger_rows.lock_triggers(tx, [each.before.id for each in known if each.before is not None])
        definitions: list[DefinitionChange] = []
        retired: list[TriggerRow] = []
        for each in known:
            row = self._checked(each, rows)
            if each.change.kind == RETIRE:
                retired.append(row)
                self._retire(each, row)
            else:
                definitions.append(self._definition(each, row))
                self._move(each, row._replace(version=row.version + 1))
        trigger_rows.write_definitions(tx, definitions, chunk.revision)
        trigger_rows.write_clocks(tx, self.clocks)
        trigger_rows.write_states(tx, self.states)
        insert_firings(tx, self.closings)
        waiting_rows.rewrite_next(tx, self.next_of, self.job_ids)
        set_next(tx, dict.fromkeys(self.skipped, self.now))
        if retired:
            self.written.cancelled += waiting_rows.cancel_waiting(
                tx, [row.id for row in retired], "the trigger was retired"
            )
        if retired and chunk.forget:
            trigger_rows.write_pauses(tx, [row.id for row in retired], None)
        fresh = [self._new(each) for each in chunk.triggers if each.before is None]
        trigger_rows.insert_triggers(tx, fresh, chunk.revision)

    def _checked(self, each: Prepared, rows: Mapping[int, TriggerRow]) -> TriggerRow:
        """The locked row, as it was when its change was compiled."""
        assert each.before is not None
        assert each.change.head is not None
        row = rows.get(each.before.id)
        if row is None or (row.digest, row.spec, row.state, row.namespace) != (
            *(each.change.head.digest, each.before.spec, each.change.head.state, each.change.head.namespace),
        ):
            raise Moved
        return row

    def _new(self, each: Prepared) -> NewTrigger:
        wanted, schedule = each.change.wanted, each.schedule
        assert wanted is not None
        assert schedule is not None
        trigger = wanted.definition
        slot = schedule.slot_after(self.now)
        if slot is None and trigger.after is None:
            self.written.warnings.append(
                f"trigger {trigger.key!r} has expired: it has no slot any more, and is done"
            )
        held = trigger.paused or trigger.group in self.paused_groups
        job = self.jobs[trigger.job]
        after_job_id, after_on = self._after(trigger)
        return NewTrigger(
            group=trigger.group,
            name=trigger.name,
            namespace=self.chunk.namespace,
            job_id=job.id,
            spec=wanted.spec,
            spec_version=SPEC_VERSION,
            digest=wanted.digest,
            schedule_digest=wanted.schedule_digest,
            state=DONE if slot is None else WAITING,
            paused_at=self.now if trigger.paused else None,
            paused_by=self.chunk.who if trigger.paused else None,
            after_job_id=after_job_id,
            after_on=after_on,
            precedence=precedence(trigger.priority),
            overlap=self._overlap(job),
            skip_after=skip_after(trigger),
            next_fire_at=slot,
            next_run_at=Stored(trigger, schedule).run_time(slot, held=held),
            watermark=self.now,
            limit_key=self._limit(job),
            jitter=trigger.jitter,
            delay=trigger.delay,
        )

    def _definition(self, each: Prepared, row: TriggerRow) -> DefinitionChange:
        wanted = each.change.wanted
        assert wanted is not None
        trigger = wanted.definition
        job = self.jobs[trigger.job]
        after_job_id, after_on = self._after(trigger)
        return DefinitionChange(
            id=row.id,
            version=row.version,
            group=trigger.group,
            name=trigger.name,
            namespace=self.chunk.namespace,
            job_id=job.id,
            spec=wanted.spec,
            spec_version=SPEC_VERSION,
            digest=wanted.digest,
            schedule_digest=wanted.schedule_digest,
            after_job_id=after_job_id,
            after_on=after_on,
            precedence=precedence(trigger.priority),
            overlap=self._overlap(job),
            skip_after=skip_after(trigger),
            limit_key=self._limit(job),
            jitter=trigger.jitter,
            delay=trigger.delay,
        )

    def _close(self, each: Prepared, row: TriggerRow) -> int | None:
        """Close what the old definition owes; answers the watermark that follows."""
        span = span_owed(row, each.stored, now=self.now)
        if span is None:
            return row.watermark
        self.closings.append(
            closing_row(row, span, now=self.now, reason=reason_for(row), cluster=self.tx.cluster)
        )
        self.written.closed += span.slots
        return span.last

    def _retire(self, each: Prepared, row: TriggerRow) -> None:
        watermark = self._close(each, row)
        self.clocks.append(ClockChange(row.id, row.version, None, None, watermark))
        self.states.append((row.id, RETIRED))

    def _move(self, each: Prepared, row: TriggerRow) -> None:
        """Where the trigger goes on under its new definition: where it was, unless what it names has changed."""
        change, wanted = each.change, each.change.wanted
        assert wanted is not None
        assert each.schedule is not None
        trigger = wanted.definition
        paused = self._paused_after(each, row)
        held = paused or trigger.group in self.paused_groups
        if not change.reschedules and held == row.held:
            return
        watermark = row.watermark if row.state == RETIRED else self._close(each, row)
        slot = next_slot(each.schedule, trigger.max_fires, row, after=max(self.now, watermark or 0))
        waits = waits_for_end(each.schedule, row)
        if slot is None and change.kind == REVIVE and trigger.after is None and not waits:
            self.written.warnings.append(f"trigger {change.key!r} has no slot any more, and is done")
        run_at = Stored(trigger, each.schedule).run_time(slot, held=held)
        self.clocks.append(ClockChange(row.id, row.version, slot, run_at, watermark))
        state = DONE if slot is None and not waits else WAITING
        if state != row.state:
            self.states.append((row.id, state))
        self.next_of[row.id] = slot
        self.job_ids.add(row.job_id)

    def _paused_after(self, each: Prepared, row: TriggerRow) -> bool:
        """Whether the trigger is paused from now on: the file has its say only where its `paused` key changed."""
        wanted, stored = each.change.wanted, each.stored.definition
        assert wanted is not None
        said = wanted.definition.paused
        if stored is None or stored.paused == said or (row.paused_at is not None) == said:
            return row.paused_at is not None
        if said:
            trigger_rows.write_pauses(self.tx, [row.id], (self.now, self.chunk.who, None, BY_FILE))
        else:
            trigger_rows.write_pauses(self.tx, [row.id], None)
            waiting_rows.skip_waiting(self.tx, [row.id], PAUSED)
            self.skipped.append(row.id)
        return said


def _head(change: JobChange) -> JobHead:
    assert change.head is not None
    return change.head
