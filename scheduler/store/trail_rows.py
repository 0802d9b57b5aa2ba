"""What the ledger keeps of firings' lives, read for their trails."""

from collections.abc import Collection, Sequence
from typing import Any

from ..events import Event
from ..trail import AttemptRow, FiringRow, trail
from .tx import Tx

_FIRING = (
    "f.id, f.trigger_name, f.job_name, f.scheduled_at, f.covers, f.noticed_at, f.reason, f.state, f.outcome, f.attempt,"
    " f.fence, f.started_at, f.finished_at, f.error, f.note, f.retry_dropped, f.misfire_cause, f.misfire_policy,"
    " f.misfire_decision, f.cancel_requested_at, f.cancel_requested_by, f.of_firing, n.name"
    " FROM qsched_firings f LEFT JOIN qsched_nodes n ON n.incarnation = f.incarnation"
)
_ATTEMPT = (
    "SELECT a.firing_id, a.fence, a.attempt, a.started_at, a.finished_at, a.outcome, a.error, a.note, a.next_run_at,"
    " n.name FROM qsched_attempts a LEFT JOIN qsched_nodes n ON n.incarnation = a.incarnation"
)


def ledger_rows(tx: Tx, where: str, *values: Any) -> list[FiringRow]:
    """The firings (f) of the cluster that `where` names, in order of id."""
    rows = tx.rows(f"SELECT {_FIRING} WHERE f.cluster = ? AND {where} ORDER BY f.id", tx.cluster, *values)
    return list(map(FiringRow._make, rows))


def attempt_rows(tx: Tx, firing_ids: Collection[int]) -> dict[int, list[AttemptRow]]:
    """{firing: its ended attempts that were followed by others, by fence}, of those that have any."""
    found: dict[int, list[AttemptRow]] = {}
    if not firing_ids:
        return found
    condition, values = tx.among("a.firing_id", sorted(firing_ids))
    for row in tx.rows(f"{_ATTEMPT} WHERE {condition} ORDER BY a.firing_id, a.fence", *values):
        found.setdefault(row[0], []).append(AttemptRow._make(row))
    return found


def trails(tx: Tx, rows: Sequence[FiringRow]) -> dict[int, list[Event]]:
    """{firing: its trail}. Of `rows` that were read before: no attempt that they speak of is missing then."""
    # A fence is given with each take: one that was taken once at most has no ended attempt.
    attempts = attempt_rows(tx, [row.id for row in rows if row.attempt or row.fence])
    return {row.id: trail(row, attempts.get(row.id, ())) for row in rows}
