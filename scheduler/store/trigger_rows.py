"""Trigger rows and their clocks as apply and the control verbs read, lock and write them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ...triggers.trigger import trigger_key
from ..errors import StoreError
from .tables import trigger_clocks, triggers
from .tx import Tx
from .waiting_retries import OF_ANOTHER_JOB

WAITING = "waiting"
DONE = "done"
ERROR = "error"
RETIRED = "retired"


class TriggerHead(NamedTuple):
    """What says whether a trigger changed; `broken_spec` is the stored definition of one that is in error."""

    id: int
    group: str
    name: str
    namespace: str
    state: str
    digest: str
    schedule_digest: str
    job_id: int
    job_name: str | None
    broken_spec: str | None

    @property
    def key(self) -> str:
        return trigger_key(self.group, self.name)


class TriggerRow(NamedTuple):
    """A trigger, its clock, and the name of its job; instants in µs, `spec` JSON text."""

    id: int
    group: str
    name: str
    namespace: str
    job_id: int
    spec: str
    digest: str
    schedule_digest: str
    state: str
    error: str | None
    paused_at: int | None
    paused_by: str | None
    paused_until: int | None
    paused_reason: str | None
    precedence: int
    overlap: str
    next_fire_at: int | None
    next_run_at: int | None
    watermark: int | None
    version: int
    fires: int
    job_name: str
    group_paused_at: int | None
    spec_version: int = 1
    limit_key: str | None = None
    awaits: bool = False
    """Of a trigger whose slots count from ends: a firing of it has not ended."""

    @property
    def key(self) -> str:
        return trigger_key(self.group, self.name)

    @property
    def held(self) -> bool:
        """Whether it, or its group, is paused."""
        return self.paused_at is not None or self.group_paused_at is not None


class NewTrigger(NamedTuple):
    """A trigger to insert with its clock."""

    group: str
    name: str
    namespace: str
    job_id: int
    spec: str
    spec_version: int
    digest: str
    schedule_digest: str
    state: str
    paused_at: int | None
    paused_by: str | None
    after_job_id: int | None
    after_on: str | None
    precedence: int
    overlap: str
    skip_after: int | None
    next_fire_at: int | None
    next_run_at: int | None
    watermark: int
    limit_key: str | None
    jitter: int | None
    delay: int | None


class ClockChange(NamedTuple):
    """New values of a locked clock; `version` is the one that was read."""

    id: int
    version: int
    next_fire_at: int | None
    next_run_at: int | None
    watermark: int | None


class DefinitionChange(NamedTuple):
    """A new definition for a locked trigger and its clock; `version` is the one that was read."""

    id: int
    version: int
    group: str
    name: str
    namespace: str
    job_id: int
    spec: str
    spec_version: int
    digest: str
    schedule_digest: str
    after_job_id: int | None
    after_on: str | None
    precedence: int
    overlap: str
    skip_after: int | None
    limit_key: str | None
    jitter: int | None
    delay: int | None


def definition_hash(digest: str) -> int:
    """The part of a definition's digest that fits into the hot row: who knows it need not read the definition."""
    return int(digest[:15], 16)


# Its newest firing is the only one that a trigger waits for: while that runs, none is decided behind it.
AWAITS_END = (
    "(c.delay IS NOT NULL AND EXISTS (SELECT 1 FROM qsched_firings w WHERE w.trigger_id = c.id"
    " AND w.scheduled_at >= COALESCE(c.last_fire_at, 0) AND w.state IN ('due', 'running')))"
)

_HEADS = (
    "SELECT t.id, t.group_name, t.name, t.namespace, t.state, t.definition_digest, t.schedule_digest, t.job_id, j.name,"
    " CASE WHEN t.state = 'error' THEN t.spec END"
    " FROM qsched_triggers t LEFT JOIN qsched_jobs j ON j.id = t.job_id WHERE t.cluster = ? AND "
)

_ROWS = (
    "SELECT t.id, t.group_name, t.name, t.namespace, t.job_id, t.spec, t.definition_digest, t.schedule_digest, t.state,"
    " t.error, t.paused_at, t.paused_by, t.paused_until, t.paused_reason, c.precedence, c.overlap, c.next_fire_at,"
    " c.next_run_at, c.watermark, c.version, c.fires, COALESCE(j.name, ''), g.paused_at, t.spec_version,"
    f" c.limit_key, CASE WHEN {AWAITS_END} THEN 1 ELSE 0 END"
    " FROM qsched_triggers t JOIN qsched_trigger_clocks c ON c.id = t.id LEFT JOIN qsched_jobs j ON j.id = t.job_id"
    " LEFT JOIN qsched_paused_groups g ON g.cluster = t.cluster AND g.group_name = t.group_name WHERE "
)


def trigger_heads(tx: Tx, namespace: str, keys: Collection[tuple[str, str]]) -> dict[str, TriggerHead]:
    """The triggers of `namespace`, and those of any namespace that have one of the (group, name) `keys`; retired too."""
    heads = [TriggerHead(*row) for row in tx.run(_HEADS + "t.namespace = ?", tx.cluster, namespace)]
    found = {head.key: head for head in heads}
    missing: dict[str, list[str]] = {}
    for group, name in keys:
        if trigger_key(group, name) not in found:
            missing.setdefault(group, []).append(name)
    for group, names in missing.items():
        for chunk in _chunks(sorted(set(names))):
            condition, values = tx.among("t.name", chunk)
            rows = tx.run(_HEADS + f"t.group_name = ? AND {condition}", tx.cluster, group, *values)
            found.update((head.key, head) for head in (TriggerHead(*row) for row in rows))
    return found


def trigger_ids(tx: Tx, pairs: Collection[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, str]]:
    """{(group, name): (id, state)} of those that there are."""
    names: dict[str, list[str]] = {}
    for group, name in pairs:
        names.setdefault(group, []).append(name)
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for group, wanted in names.items():
        for chunk in _chunks(sorted(wanted)):
            condition, values = tx.among("name", chunk)
            rows = tx.run(
                "SELECT name, id, state FROM qsched_triggers"
                f" WHERE cluster = ? AND group_name = ? AND {condition}",
                *(tx.cluster, group, *values),
            )
            found.update(((group, row[0]), (row[1], row[2])) for row in rows)
    return found


def read_triggers(tx: Tx, ids: Collection[int]) -> dict[int, TriggerRow]:
    """{id: row} of those that there are."""
    found: dict[int, TriggerRow] = {}
    for chunk in _chunks(sorted(ids)):
        condition, values = tx.among("t.id", chunk)
        found.update((row[0], TriggerRow(*row)) for row in tx.run(_ROWS + condition, *values))
    return found


def lock_triggers(tx: Tx, ids: Collection[int]) -> dict[int, TriggerRow]:
    """{id: row}, locked until commit by their clock rows, ids ascending: no node decides them meanwhile."""
    for chunk in _chunks(sorted(ids)):
        condition, values = tx.among("id", chunk)
        tx.run(
            f"SELECT id FROM qsched_trigger_clocks WHERE {condition} ORDER BY id{tx.dialect.for_update}",
            *values,
        ).all()
    return read_triggers(tx, ids)  # a statement of its own: it sees what the lock has waited for


def insert_triggers(tx: Tx, rows: Sequence[NewTrigger], revision: int | None) -> list[int]:
    """New triggers with their clocks; answers their ids in order. A key that is there already raises ConstraintHit."""
    now = tx.now()
    columns = (
        *(
            "cluster",
            "group_name",
            "name",
            "namespace",
            "job_id",
            "spec",
            "spec_version",
            "definition_digest",
        ),
        *("schedule_digest", "state", "paused_at", "paused_by", "after_job_id", "after_on"),
        *("revision", "created_at", "updated_at"),
    )
    ids = tx.insert_ids(
        triggers,
        columns,
        [(tx.cluster, *row[: NewTrigger._fields.index("precedence")], revision, now, now) for row in rows],
    )
    _insert_clocks(tx, dict(zip(ids, rows, strict=True)))
    return ids


def _insert_clocks(tx: Tx, triggers_of: Mapping[int, NewTrigger]) -> None:
    columns = (
        *("id", "cluster", "job_id", "precedence", "overlap", "definition_hash", "skip_after"),
        *("next_fire_at", "next_run_at", "watermark", "version", "fires", "misfires", "retrying"),
        *("limit_key", "jitter", "delay"),
    )
    clocks = [
        (
            *(trigger_id, tx.cluster, row.job_id, row.precedence, row.overlap),
            *(definition_hash(row.digest), row.skip_after),
            *(row.next_fire_at, row.next_run_at, row.watermark, 1, 0, 0, 0),
            *(row.limit_key, row.jitter, row.delay),
        )
        for trigger_id, row in triggers_of.items()
    ]
    tx.insert(trigger_clocks, columns, clocks)


def write_definitions(tx: Tx, rows: Sequence[DefinitionChange], revision: int | None) -> None:
    """New definitions for locked triggers; what they have done and when they are next is not touched here."""
    now = tx.now()
    _remember_other_jobs(tx, {row.id: row.job_id for row in rows})
    tx.update(
        triggers,
        ("id",),
        (
            *("group_name", "name", "namespace", "job_id", "spec", "spec_version", "definition_digest"),
            *("schedule_digest", "after_job_id", "after_on", "revision", "updated_at"),
        ),
        [(row.id, *row[2 : DefinitionChange._fields.index("precedence")], revision, now) for row in rows],
    )
    _update_clocks(
        tx,
        (
            *("version", "job_id", "precedence", "overlap", "definition_hash", "skip_after", "limit_key"),
            *("jitter", "delay"),
        ),
        [
            (
                *(row.id, row.version, row.version + 1, row.job_id, row.precedence, row.overlap),
                *(definition_hash(row.digest), row.skip_after, row.limit_key, row.jitter, row.delay),
            )
            for row in rows
        ],
    )


def _remember_other_jobs(tx: Tx, job_of: Mapping[int, int]) -> None:
    """What waits of the job that a trigger had before will not be found by the job that it has from now on."""
    if not job_of:
        return
    condition, values = tx.among("id", sorted(job_of))
    rows = tx.rows(f"SELECT id, job_id FROM qsched_trigger_clocks WHERE {condition}", *values)
    changed = [(row[0], OF_ANOTHER_JOB) for row in sorted(rows) if row[1] != job_of[row[0]]]
    tx.update(trigger_clocks, ("id",), ("retrying",), changed)


def write_clocks(tx: Tx, rows: Sequence[ClockChange]) -> None:
    """Move locked clocks."""
    _update_clocks(
        tx,
        ("version", "next_fire_at", "next_run_at", "watermark"),
        [(row.id, row.version, row.version + 1, *row[2:]) for row in rows],
    )


def _update_clocks(tx: Tx, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> None:
    """Update clocks of (id, version seen, values…); the version is compared although the rows are locked."""
    if tx.update(trigger_clocks, ("id", "version"), columns, rows) != len(rows):
        raise StoreError("a trigger's clock was moved by somebody who did not lock it", hint="try again")


def write_states(tx: Tx, rows: Sequence[tuple[int, str]]) -> None:
    """Give locked triggers a state; an error they had is over."""
    now = tx.now()
    tx.update(
        triggers,
        ("id",),
        ("state", "error_kind", "error", "error_at", "updated_at"),
        [(trigger_id, state, None, None, None, now) for trigger_id, state in rows],
    )


def write_pauses(
    tx: Tx, ids: Collection[int], pause: tuple[int, str | None, int | None, str | None] | None
) -> None:
    """Set (at, by, until, reason) of locked triggers, or clear it with None."""
    now = tx.now()
    values: tuple[Any, ...] = (None, None, None, None) if pause is None else pause
    tx.update(
        triggers,
        ("id",),
        ("paused_at", "paused_by", "paused_until", "paused_reason", "updated_at"),
        [(trigger_id, *values, now) for trigger_id in ids],
    )


def _chunks(values: Sequence[Any], size: int = 500) -> list[Sequence[Any]]:
    return [values[start : start + size] for start in range(0, len(values), size)]
