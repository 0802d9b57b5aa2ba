"""What an apply would do, field by field, and what would fire because of it; reads only, and works without a store."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..triggers.decide import counted
from ..triggers.instant import rfc3339
from .apply import is_older, look
from .changes import (
    ADD,
    RETIRE,
    REVIVE,
    Changes,
    JobChange,
    Seen,
    TriggerChange,
    compare,
    mass_prune,
)
from .clock import SystemClock
from .desired import Declared, Wanted, wanted_of
from .spec_words import Difference, differences
from .store import definition_rows, job_rows, trigger_lists, trigger_rows, waiting_rows
from .store.database import Store
from .store.trigger_rows import ERROR, TriggerRow
from .store.tx import Tx
from .stored import Stored, next_slot, span_owed

NOTHING_FIRES = "nothing fires as a result"


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One thing that would change. `next_before` and `next_after` are instants (µs) of a trigger's next slot."""

    action: str
    """add, change, rename, revive or retire."""
    what: str
    """trigger, job, calendar or cluster."""
    key: str
    differences: tuple[Difference, ...] = ()
    next_before: int | None = None
    next_after: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What an apply of these declarations would do now."""

    namespace: str
    revision: int
    """The namespace's revision now; 0 before the first apply."""
    items: tuple[PlanItem, ...]
    unchanged: int
    kept: tuple[str, ...] = ()
    drift: tuple[tuple[str, str], ...] = ()
    """(key, how it differs from its file) of triggers that apply leaves as people made them."""
    refusal: str | None = None
    """Why apply would refuse it without a flag."""
    older: bool = False
    """Whether a node that starts would leave it: live nodes carry a newer revision."""
    warnings: tuple[str, ...] = ()
    consequence: str = NOTHING_FIRES

    @property
    def has_changes(self) -> bool:
        return bool(self.items)


def plan(store: Store | None, declared: Declared, *, prune: str = "retire") -> Plan:
    """What `apply` would do; without a store (None) everything is new. Raises Conflict as apply does."""
    wanted = wanted_of(declared)
    if store is None:
        return _Planning(wanted, Seen(), SystemClock().wall(), prune).plan()
    return store.read("plan", lambda tx: _planning(tx, wanted, prune).plan())


def _planning(tx: Tx, wanted: Wanted, prune: str) -> "_Planning":
    seen = look(tx, wanted)
    planning = _Planning(wanted, seen, tx.now(), prune)
    ids = [change.head.id for change in planning.changes.triggers if change.head is not None]
    planning.rows = trigger_rows.read_triggers(tx, {*ids, *trigger_lists.troubled_ids(tx, wanted.namespace)})
    planning.waiting = waiting_rows.waiting_slots(tx, ids)
    planning.paused_groups = definition_rows.read_paused_groups(tx)
    names = [change.name for change in planning.changes.jobs]
    planning.jobs = {name: row.spec for name, row in job_rows.read_jobs(tx, names).items()}
    return planning


class _Planning:
    """The making of one plan, from what was read."""

    def __init__(self, wanted: Wanted, seen: Seen, now: int, prune: str) -> None:
        self.wanted, self.seen, self.now, self.prune = wanted, seen, now, prune
        self.changes: Changes = compare(wanted, seen, prune=prune)
        self.rows: Mapping[int, TriggerRow] = {}
        self.waiting: Mapping[int, int] = {}
        self.jobs: Mapping[str, str] = {}
        self.paused_groups: set[str] = set()

    def plan(self) -> Plan:
        changes = self.changes
        items = [self._defaults()] if changes.new_defaults else []
        items += [PlanItem(action, "calendar", name) for action, name in changes.calendars]
        items += [self._job(change) for change in (*changes.jobs, *changes.retired_jobs)]
        items += [self._trigger(change) for change in changes.triggers]
        return Plan(
            namespace=self.wanted.namespace,
            revision=0 if self.seen.namespace is None else self.seen.namespace.revision,
            items=tuple(items),
            unchanged=len(changes.unchanged),
            kept=changes.kept,
            drift=tuple(self._drift()),
            refusal=None if self.prune == "keep" else mass_prune(self.wanted, self.seen, changes),
            older=is_older(self.seen),
            warnings=changes.warnings,
        )

    def _defaults(self) -> PlanItem:
        found = differences(self.seen.defaults, self.wanted.defaults)
        return PlanItem(ADD if not self.seen.defaults else "change", "cluster", "defaults", found)

    def _job(self, change: JobChange) -> PlanItem:
        before = _mapping(self.jobs.get(change.name))
        after = {} if change.wanted is None else _mapping(change.wanted.spec)
        found = () if change.wanted is None else differences(before, after)
        notes: list[str] = []
        if change.kind == ADD and change.wanted is not None and change.wanted.shared:
            notes.append("declared in code: a node must load it with --app")
        return PlanItem(change.kind, "job", change.name, found, notes=tuple(notes))

    def _trigger(self, change: TriggerChange) -> PlanItem:
        row = None if change.head is None else self.rows.get(change.head.id)
        stored = Stored() if row is None else Stored.of(row)
        before = {} if row is None else _mapping(row.spec)
        after = {} if change.wanted is None else _mapping(change.wanted.spec)
        return PlanItem(
            change.kind,
            "trigger",
            change.key,
            () if change.kind == RETIRE else differences(before, after),
            None if row is None else row.next_fire_at,
            self._next(change, row),
            tuple(self._notes(change, row, stored)),
        )

    def _next(self, change: TriggerChange, row: TriggerRow | None) -> int | None:
        if change.wanted is None:
            return None
        trigger = change.wanted.definition
        if row is None:
            return trigger.compile().slot_after(self.now)
        if not change.reschedules:
            return row.next_fire_at
        return next_slot(
            trigger.compile(), trigger.max_fires, row, after=max(self.now, row.watermark or self.now)
        )

    def _notes(self, change: TriggerChange, row: TriggerRow | None, stored: Stored) -> list[str]:
        notes: list[str] = []
        if change.kind == "rename" and change.head is not None:
            notes.append(f"was {change.head.key}: keeps its history")
        if change.kind == REVIVE:
            notes.append("was retired: goes on with its history")
        slots = change.wanted is not None and change.wanted.definition.after is None
        if slots and self._next(change, row) is None:
            notes.append("has no slot any more: stored as done")
        if row is not None:
            span = span_owed(row, stored, now=self.now)
            if span is not None and (change.kind == RETIRE or change.reschedules):
                notes.append(f"{_counted(span.slots, 'due slot')} would be recorded as skipped")
            elif span is not None:
                notes.append(f"{_counted(span.slots, 'due slot')} left to its misfire policy")
            if change.kind == RETIRE and (count := self.waiting.get(row.id)):
                notes.append(f"{_counted(count, 'waiting firing')} would be cancelled")
        return [*notes, *self._pauses(change, row, stored)]

    def _pauses(self, change: TriggerChange, row: TriggerRow | None, stored: Stored) -> list[str]:
        if change.wanted is None:
            return []
        trigger = change.wanted.definition
        notes: list[str] = []
        if row is None or (stored.definition is not None and stored.definition.paused != trigger.paused):
            if trigger.paused:
                notes.append("paused by its file")
            elif row is not None and row.paused_at is not None:
                notes.append("its pause ends; what passed is recorded as skipped")
        elif row.paused_at is not None:
            notes.append(_paused(row))
        if trigger.group in self.paused_groups:
            notes.append(f"group {trigger.group} is paused")
        return notes

    def _drift(self) -> list[tuple[str, str]]:
        unchanged = set(self.changes.unchanged)
        found: list[tuple[str, str]] = []
        for row in sorted(self.rows.values(), key=lambda row: row.key):
            if row.key not in unchanged:
                continue
            if row.paused_at is not None and not self.wanted.triggers[row.key].definition.paused:
                found.append((row.key, _paused(row)))
            if row.state == ERROR:
                found.append((row.key, f"in error: {row.error}"))
        return found


def _paused(row: TriggerRow) -> str:
    assert row.paused_at is not None
    by = f" by {row.paused_by}" if row.paused_by else ""
    reason = f" ({row.paused_reason})" if row.paused_reason else ""
    return f"paused{by} since {rfc3339(row.paused_at)}{reason}, and stays so"


def _counted(number: int, what: str) -> str:
    return f"{counted(number)} {what}{'' if number == 1 else 's'}"


def _mapping(text: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
