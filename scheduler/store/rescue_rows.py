"""Dead nodes and what they leave behind: observed, declared dead by compare-and-set, and their running firings found."""

from collections.abc import Collection
from typing import NamedTuple

from .firing_rows import OpenFiring
from .node_rows import DEAD, DRAINING, UP
from .tx import Tx

SILENT = "silent"
GONE = "gone"
NOBODY = 0
"""An incarnation that no node has."""


class Observed(NamedTuple):
    """A node that is up or draining, as others judge it; instants and durations in µs."""

    incarnation: int
    name: str
    state: str
    host: str
    pid: int
    pid_started_at: int | None
    checked_in_at: int
    lease_until: int
    renew_seq: int
    check_in: int | None
    session_lock: int
    suspected_seq: int | None
    suspected_at: int | None


class Owner(NamedTuple):
    """The node of an orphan: its name and the verdict on it, where its row is still there."""

    name: str
    state: str
    verdict: str | None
    marked_by: int | None


def observed(tx: Tx) -> list[Observed]:
    """Every node of the cluster that has not ended; also reads the clock, in the same round trip."""
    rows = tx.rows(
        f"SELECT {','.join(Observed._fields)}, {tx.now_column} FROM qsched_nodes"
        " WHERE cluster = ? AND state IN ('up', 'draining')",
        tx.cluster,
    )
    if rows:
        tx.saw_now(rows[0][-1])
    return sorted(
        Observed._make(row[:-1]) for row in rows
    )  # here: sorted there, all that ever were would be read


def _locked(tx: Tx, seen: Observed) -> bool:
    """Lock a node's row and look again; False when somebody holds it, or it is not what was seen.

    SKIP LOCKED and not NOWAIT, to the same end: a row that is held is left for the next look, without an error that
    would have to be told from others. On PostgreSQL only FOR UPDATE waits for who shares the row (amendment 6).
    """
    row = tx.run(
        "SELECT state, renew_seq FROM qsched_nodes WHERE incarnation = ?" + tx.dialect.skip_locked,
        seen.incarnation,
    ).first()
    return row is not None and row[0] in (UP, DRAINING) and row[1] == seen.renew_seq


def mark_dead(tx: Tx, seen: Observed, *, verdict: str, by: int, certain: bool = False) -> bool:
    """Declare a node dead that has not checked in since it was `seen`; False when it has, or others were faster.

    `certain`: its process was seen to be gone, so that nothing of it can run on; then its lease ends too.
    """
    if not _locked(tx, seen):
        return False
    now = tx.now()
    # A check-in that lies ahead was written before the clock was set back: then the lease says nothing.
    if verdict == SILENT and seen.lease_until > now and seen.checked_in_at <= now:
        return False
    tx.run(
        "UPDATE qsched_nodes SET state = ?, ended_at = ?, dead_verdict = ?, marked_by = ?, running = 0, lease_until = ?"
        " WHERE incarnation = ? AND renew_seq = ?",
        DEAD,
        now,
        verdict,
        by,
        min(now, seen.lease_until) if certain else seen.lease_until,
        seen.incarnation,
        seen.renew_seq,
    )
    return True


def suspect(tx: Tx, seen: Observed) -> bool:
    """Note that a node's lease has passed, for rescuers that do not live long enough to see it silent for a lease."""
    if not _locked(tx, seen):
        return False
    tx.run(
        "UPDATE qsched_nodes SET suspected_seq = ?, suspected_at = ? WHERE incarnation = ?",
        seen.renew_seq,
        tx.now(),
        seen.incarnation,
    )
    return True


# No ORDER BY: PostgreSQL, which is told here to avoid sorts, would read the whole ledger in the order of its key. What runs
# is found through the index that each database has for it (MariaDB's index of due rows holds all states).
_ORPHANS = (
    f"SELECT {','.join('f.' + name for name in OpenFiring._fields)} FROM qsched_firings f"
    " LEFT JOIN qsched_nodes n ON n.incarnation = f.incarnation AND n.cluster = f.cluster"
    " WHERE f.cluster = ? AND f.state = 'running' AND (n.state IS NULL OR n.state NOT IN ('up', 'draining'))"
    # A node that only its freed lock calls gone may run on, cut off, until its lease ends: no second body before that.
    " AND ((f.permit_key IS NULL AND f.limit_key IS NULL) OR n.state IS NULL OR n.state <> 'dead'"
    " OR n.lease_until <= ? OR n.checked_in_at > ?)"
    " LIMIT ?"
)


def orphans(tx: Tx, limit: int, now: int | None = None) -> list[OpenFiring]:
    """What runs under an incarnation that is not up or draining, or has no row; at most `limit` of them, in order of id.

    `now` may be an instant that was read a moment ago, to save asking for it.
    """
    now = tx.now() if now is None else now
    return sorted(OpenFiring._make(row) for row in tx.rows(_ORPHANS, tx.cluster, now, now, limit))


def owners(tx: Tx, incarnations: Collection[int]) -> dict[int, Owner]:
    """The nodes of orphans, where they have a row."""
    if not incarnations:
        return {}
    condition, values = tx.among("incarnation", sorted(incarnations))
    rows = tx.rows(
        f"SELECT incarnation, name, state, dead_verdict, marked_by FROM qsched_nodes WHERE {condition}",
        *values,
    )
    return {row[0]: Owner(*row[1:]) for row in rows}


def adopt(tx: Tx, firing_id: int, fence: int) -> bool:
    """Put what runs without an incarnation under nobody's."""
    adopted = tx.run(
        "UPDATE qsched_firings SET incarnation = ? WHERE id = ? AND fence = ? AND state = 'running'"
        " AND incarnation IS NULL",
        *(NOBODY, firing_id, fence),
    )
    return adopted.rowcount == 1
