"""What a node may take: due trigger clocks and due firings, locked in index order so that nodes pass each other by.

Locked directly, `ORDER BY` exactly the index, LIMIT n, SKIP LOCKED (amendments 20, 21): candidates that all nodes
choose first and lock afterwards send every loser home empty.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..firing import stops_with
from .ledger_tables import firings
from .tables import trigger_clocks
from .tx import Tx

LOOK_LIMIT = 1000
"""A look examines at most this many due rows of a kind."""


class Look(NamedTuple):
    """What one cheap look finds: counts of due rows (up to LOOK_LIMIT) and when the next comes; instants in µs."""

    now: int
    triggers_due: int
    firings_due: int
    next_at: int | None


class DueClock(NamedTuple):
    """A locked trigger clock."""

    id: int
    job_id: int
    precedence: int
    overlap: str
    definition_hash: int | None
    next_fire_at: int | None
    next_run_at: int
    version: int
    fires: int
    misfires: int
    last_fire_at: int | None
    last_misfire_at: int | None
    retrying: int
    limit_key: str | None


class DueFiring(NamedTuple):
    """A locked due firing (a retry, a request, a backlog's slot, or one that was handed on)."""

    id: int
    trigger_id: int | None
    requested_trigger_id: int | None
    job_id: int
    trigger_name: str | None
    job_name: str
    scheduled_at: int
    reason: str
    run_at: int
    precedence: int
    fence: int
    attempt: int
    refires: int
    recoveries: int
    permit_key: str | None
    timeout: int | None
    next_at: int | None
    retry_until: int | None
    first_started_at: int | None
    data: str | None
    request_key: str | None
    limit_key: str | None
    of_firing: int | None
    idempotency_key: str | None

    @property
    def stops_with(self) -> int | None:
        return stops_with(self.reason, self.trigger_id, self.requested_trigger_id)


class Wanted(NamedTuple):
    """Which rows to lock: at most `limit`, none of those this node left to others; `only` names single rows."""

    limit: int
    parked: Collection[int] = ()
    unloadable: Collection[int] = ()
    only: Collection[int] | None = None
    since: int | None = None
    """Only what became due after this instant: the part of the capacity that serves what is on time."""
    after: tuple[int, int, int] | None = None
    """Go on behind this place in the order of what is due (run at, precedence, id)."""
    parked_firings: Collection[int] = ()
    no_backfills: bool = False


_HELD = (
    "EXISTS (SELECT 1 FROM qsched_triggers t LEFT JOIN qsched_paused_groups g"
    " ON g.cluster = t.cluster AND g.group_name = t.group_name"
    " WHERE t.id = CASE WHEN f.reason = 'after' THEN f.requested_trigger_id ELSE f.trigger_id END"
    " AND (t.paused_at IS NOT NULL OR g.paused_at IS NOT NULL OR t.state = 'retired'))"
)
_OVERTAKEN = "f.attempt > 0 AND EXISTS (SELECT 1 FROM qsched_trigger_clocks o WHERE o.id = f.trigger_id AND o.next_run_at <= ?)"
# Not those of a paused or retired trigger, continuations too (manual ones run all the same), and no retry whose next slot has
# come: that slot's decision will end it, and started now it would run beside it. One value: the instant.
MAY_START = f"((f.trigger_id IS NULL AND f.reason <> 'after') OR NOT ({_HELD} OR {_OVERTAKEN}))"

# Of a job that is to be cancelled for its next slot: something runs that nobody has asked to stop yet.
_UNASKED = (
    "(c.overlap = 'cancel' AND EXISTS (SELECT 1 FROM qsched_firings r"
    " WHERE r.job_id = c.job_id AND r.state = 'running' AND r.cancel_requested_at IS NULL))"
)


# Of a limited group: none of its permits is free. What is decided without one (slots that are only skipped) is not held up.
FULL_GROUP = (
    "({0}.limit_key IS NOT NULL AND NOT EXISTS (SELECT 1 FROM qsched_permits l WHERE l.cluster = {0}.cluster"
    " AND l.permit_key = {0}.limit_key AND l.n >= 0 AND l.firing_id IS NULL))"
)


def look(tx: Tx, guess: int, most: int = LOOK_LIMIT) -> Look:
    """How much is due, counted up to `most`, and when more will be; `guess` estimates the database's time (µs)."""
    most = min(most, LOOK_LIMIT)
    row = tx.run(
        f"SELECT {tx.now_column},"
        " (SELECT COUNT(*) FROM (SELECT 1 FROM qsched_trigger_clocks WHERE cluster = ? AND next_run_at <= ?"
        f" LIMIT {most}) a),"
        " (SELECT COUNT(*) FROM (SELECT 1 FROM qsched_firings WHERE cluster = ? AND state = 'due' AND run_at <= ?"
        f" LIMIT {most}) b),"
        " (SELECT MIN(next_run_at) FROM qsched_trigger_clocks WHERE cluster = ? AND next_run_at > ?),"
        " (SELECT MIN(run_at) FROM qsched_firings WHERE cluster = ? AND state = 'due' AND run_at > ?)",
        *(value for _ in range(4) for value in (tx.cluster, guess)),
    ).one()
    ahead = [instant for instant in row[3:5] if instant is not None]
    return Look(tx.saw_now(row[0]), row[1], row[2], min(ahead) if ahead else None)


def lock_due_clocks(tx: Tx, now: int, wanted: Wanted) -> list[DueClock]:
    """Lock due triggers, oldest first; those another node holds are passed by. Triggers of a busy job are not due."""
    if wanted.limit < 1:
        return []
    clauses, values = _excluding(tx, "c", wanted)
    busy = (
        "EXISTS (SELECT 1 FROM qsched_permits p"
        " WHERE p.job_id = c.job_id AND p.cluster = c.cluster AND p.firing_id IS NOT NULL)"
    )
    rows = tx.rows(
        f"SELECT {','.join('c.' + name for name in DueClock._fields)} FROM qsched_trigger_clocks c"
        f" WHERE c.cluster = ? AND c.next_run_at <= ?{clauses}"
        f" AND (c.overlap IN ('allow', 'skip') OR NOT {busy} OR {_UNASKED})"
        f" AND NOT ({FULL_GROUP.format('c')} AND (c.skip_after IS NULL OR c.skip_after >= ? - c.next_run_at)"
        f" AND NOT (c.overlap = 'skip' AND {busy}))"
        f" ORDER BY c.next_run_at, c.precedence, c.id LIMIT ?{tx.dialect.skip_locked}",
        tx.cluster,
        now,
        *values,
        now,
        wanted.limit,
    )
    return list(map(DueClock._make, rows))


def lock_startless_clocks(tx: Tx, now: int, wanted: Wanted) -> list[DueClock]:
    """Lock due triggers whose decision may start nothing (misfire skip, overlap skip and cancel): for a full node too."""
    clauses, values = _excluding(tx, "c", wanted)
    rows = tx.rows(
        f"SELECT {','.join('c.' + name for name in DueClock._fields)} FROM qsched_trigger_clocks c"
        f" WHERE c.cluster = ? AND c.next_run_at <= ?{clauses}"
        f" AND (c.overlap = 'skip' OR c.skip_after < ? - c.next_run_at OR {_UNASKED})"
        f" ORDER BY c.next_run_at, c.precedence, c.id LIMIT ?{tx.dialect.skip_locked}",
        tx.cluster,
        now,
        *values,
        now,
        wanted.limit,
    )
    return list(map(DueClock._make, rows))


def lock_due_firings(tx: Tx, now: int, wanted: Wanted) -> list[DueFiring]:
    """Lock due firings that may start, oldest first; those another node holds are passed by."""
    if wanted.limit < 1:
        return []
    clauses, values = _excluding(tx, "f", wanted)
    rows = tx.rows(
        f"SELECT {','.join('f.' + name for name in DueFiring._fields)} FROM qsched_firings f"
        f" WHERE f.cluster = ? AND f.state = 'due' AND f.run_at <= ?{clauses}"
        " AND (f.permit_key IS NULL OR NOT EXISTS (SELECT 1 FROM qsched_permits p"
        " WHERE p.cluster = f.cluster AND p.permit_key = f.permit_key AND p.firing_id IS NOT NULL))"
        f" AND NOT {FULL_GROUP.format('f')} AND {MAY_START}"
        f" ORDER BY f.run_at, f.precedence, f.id LIMIT ?{tx.dialect.skip_locked}",
        tx.cluster,
        now,
        *values,
        now,
        wanted.limit,
    )
    firings = list(map(DueFiring._make, rows))
    # The lock was given after the statement's snapshot was taken: a pause that returned in between is seen only now. (A
    # pause that returns later has waited for the locks of these rows.)
    stopped = stopped_triggers(tx, {each for firing in firings if (each := firing.stops_with) is not None})
    return [firing for firing in firings if firing.stops_with not in stopped] if stopped else firings


def stopped_triggers(tx: Tx, ids: Collection[int]) -> set[int]:
    """Of these triggers, those that are paused (by themselves or with their group) or retired."""
    if not ids:
        return set()
    condition, values = tx.among("t.id", sorted(ids))
    rows = tx.rows(
        "SELECT t.id FROM qsched_triggers t LEFT JOIN qsched_paused_groups g"
        f" ON g.cluster = t.cluster AND g.group_name = t.group_name WHERE {condition}"
        " AND (t.paused_at IS NOT NULL OR g.paused_at IS NOT NULL OR t.state = 'retired')",
        *values,
    )
    return {row[0] for row in rows}


def _excluding(tx: Tx, alias: str, wanted: Wanted) -> tuple[str, list[object]]:
    text, values = "", list[object]()
    since = "next_run_at" if alias == "c" else "run_at"
    if wanted.after is not None:
        text += f" AND ({alias}.{since}, {alias}.precedence, {alias}.id) > (?, ?, ?)"
        values.extend(wanted.after)
    if wanted.since is not None:
        text += f" AND {alias}.{since} > ?"
        values.append(wanted.since)
        if alias == "f":
            text += " AND f.permit_key IS NULL"  # what waits its turn is no newcomer: a serial backlog keeps its order
    if wanted.no_backfills and alias == "f":
        text += " AND f.reason <> 'backfill'"
    trigger = f"{alias}.id" if alias == "c" else f"COALESCE({alias}.trigger_id, 0)"
    left = [(trigger, wanted.parked), (f"{alias}.job_id", wanted.unloadable)]
    if alias == "f":
        left.append(("f.id", wanted.parked_firings))
    for column, left_out in left:
        if left_out:
            condition, more = tx.among(column, sorted(left_out))
            text += f" AND NOT ({condition})"
            values.extend(more)
    if wanted.only is not None:
        condition, more = tx.among(f"{alias}.id", sorted(wanted.only))
        text += f" AND {condition}"
        values.extend(more)
    return text, values


def advance_clocks(tx: Tx, rows: Sequence[tuple[int | None, ...]]) -> int:
    """Compare-and-set clocks forward: rows of (id, version seen, next_run_at seen, new values as below); how many moved."""
    return tx.update(
        trigger_clocks,
        ("id", "version", "next_run_at"),
        (
            "version",
            "next_fire_at",
            "next_run_at",
            "watermark",
            "fires",
            "misfires",
            "last_fire_at",
            "last_misfire_at",
            "retrying",
        ),
        rows,
    )


def start_due(tx: Tx, rows: Sequence[tuple[int | None, ...]]) -> int:
    """Compare-and-set due firings to running: rows of (id, fence seen, 'due', new values as below)."""
    return tx.update(
        firings,
        ("id", "fence", "state"),
        (
            *(
                "state",
                "fence",
                "take_no",
                "incarnation",
                "started_at",
                "first_started_at",
                "outcome",
                "note",
            ),
            *("cancel_requested_at", "cancel_requested_by"),  # a cancel was meant for the attempt before
        ),
        rows,
    )


def fail_due(tx: Tx, firing_id: int, note: str) -> None:
    """End a due firing that can never run; the caller holds it."""
    tx.run(
        "UPDATE qsched_firings SET state = 'failed', outcome = 'failed', finished_at = ?, note = ?"
        " WHERE id = ? AND state = 'due'",
        tx.now(),
        note[:2000],
        firing_id,
    )


def jobs_with_due_firings(tx: Tx, job_ids: Collection[int], now: int) -> set[int]:
    """Of `job_ids`, those that have a firing which may start now and so goes first (a job is busy with it).

    A backfill goes behind: a long one must not hold up the slots that come meanwhile.
    """
    condition, values = tx.among("f.job_id", sorted(job_ids))
    rows = tx.rows(
        f"SELECT DISTINCT f.job_id FROM qsched_firings f WHERE {condition} AND f.state IN ('due', 'running')"
        f" AND f.state = 'due' AND f.reason <> 'backfill' AND f.run_at <= ? AND {MAY_START}",
        *values,
        now,
        now,
    )
    return {row[0] for row in rows}


def taken_rows(tx: Tx, incarnation: int, take_no: int) -> set[int]:
    """The firings that one take really took; read after locking what it would have changed."""
    rows = tx.run(
        "SELECT id FROM qsched_firings WHERE incarnation = ? AND take_no = ? AND state = 'running'",
        incarnation,
        take_no,
    )
    return {row[0] for row in rows}


def lock_clocks(tx: Tx, ids: Collection[int]) -> None:
    """Lock these trigger clocks, waiting for whoever holds them; ascending, as everywhere."""
    if ids:
        condition, values = tx.among("id", sorted(ids))
        tx.run(
            f"SELECT id FROM qsched_trigger_clocks WHERE {condition} ORDER BY id{tx.dialect.for_update}",
            *values,
        ).all()


def lock_firings(tx: Tx, ids: Collection[int]) -> None:
    """Lock these firings, waiting for whoever holds them; ascending."""
    if ids:
        condition, values = tx.among("id", sorted(ids))
        tx.run(
            f"SELECT id FROM qsched_firings WHERE {condition} ORDER BY id{tx.dialect.for_update}", *values
        ).all()


def finish_triggers(tx: Tx, ids: Collection[int]) -> None:
    """These triggers have no slot any more; the caller holds their clocks."""
    condition, values = tx.among("id", sorted(ids))
    tx.run(f"UPDATE qsched_triggers SET state = 'done' WHERE state = 'waiting' AND {condition}", *values)


def was_running(tx: Tx, trigger_id: int, slot: int) -> bool:
    """Whether the firing before `slot` was still running at it: then the slot was late because of overlap."""
    row = tx.run(
        "SELECT started_at, finished_at FROM qsched_firings WHERE trigger_id = ? AND scheduled_at < ?"
        " ORDER BY scheduled_at DESC LIMIT 1",
        trigger_id,
        slot,
    ).first()
    return row is not None and row[0] is not None and row[0] <= slot and (row[1] is None or row[1] >= slot)


def request_cancel(tx: Tx, job_ids: Collection[int], who: str) -> None:
    """Ask what runs of these jobs to stop; their nodes see it at the next check-in."""
    condition, values = tx.among("job_id", sorted(job_ids))
    # What somebody has locked is ending: waiting for it would deadlock with its settle, which wants the job's permit.
    running = tx.rows(
        f"SELECT id FROM qsched_firings WHERE {condition} AND state IN ('due', 'running') AND state = 'running'"
        f" AND cancel_requested_at IS NULL ORDER BY id{tx.dialect.skip_locked}",
        *values,
    )
    if not running:
        return
    condition, values = tx.among("id", [row[0] for row in running])
    tx.run(
        f"UPDATE qsched_firings SET cancel_requested_at = ?, cancel_requested_by = ? WHERE {condition}",
        tx.now(),
        who,
        *values,
    )
