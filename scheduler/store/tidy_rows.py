"""What grows beside the ledger: nodes that ended long ago, the audit, permits of triggers that are retired."""

from ..firing import serial_key
from .tx import Tx

_MOST = 500
_SPAN = 2000


def delete_nodes(tx: Tx, ended_before: int) -> int:
    """Delete rows of nodes that ended before an instant: one chunk; answers how many went.

    A firing that is kept longer than its node then names none: its history is its own, the node's name is not part of it.
    What still runs under an incarnation keeps its row, for the rescuer judges by it.
    """
    gone = "state IN ('stopped', 'dead') AND ended_at < ?"
    ids = [
        row[0]
        for row in tx.rows(
            f"SELECT n.incarnation FROM qsched_nodes n WHERE n.cluster = ? AND n.{gone}"
            " AND NOT EXISTS (SELECT 1 FROM qsched_firings f WHERE f.incarnation = n.incarnation AND f.state = 'running')"
            " AND NOT EXISTS (SELECT 1 FROM qsched_clusters c WHERE c.leader_incarnation = n.incarnation)"
            f" ORDER BY n.incarnation LIMIT {_MOST}",
            *(tx.cluster, ended_before),
        )
    ]
    if not ids:
        return 0
    condition, values = tx.among("incarnation", ids)
    return tx.run(f"DELETE FROM qsched_nodes WHERE {condition} AND {gone}", *values, ended_before).rowcount


def delete_audit(tx: Tx, before: int) -> int:
    """Delete what the audit says of the time before an instant: one chunk; answers how many rows went."""
    text = f"SELECT id FROM qsched_audit WHERE cluster = ? AND at < ? ORDER BY at LIMIT {_MOST}"
    ids = [row[0] for row in tx.rows(text, tx.cluster, before)]
    if not ids:
        return 0
    condition, values = tx.among("id", sorted(ids))
    return tx.run(f"DELETE FROM qsched_audit WHERE {condition}", *values).rowcount


def delete_permits(tx: Tx, after: int) -> tuple[int, int | None]:
    """Delete the free serial permits of retired triggers in a span of ids; (how many went, where to go on).

    A trigger that is revived makes its permit again when it first needs it.
    """
    last = tx.run("SELECT MAX(id) FROM qsched_triggers").scalar() or 0
    ids = tx.rows(
        "SELECT id FROM qsched_triggers WHERE cluster = ? AND id > ? AND id <= ? AND state = 'retired'",
        *(tx.cluster, after, after + _SPAN),
    )
    following = after + _SPAN if after + _SPAN < last else None
    if not ids:
        return 0, following
    condition, values = tx.among("permit_key", sorted(serial_key(row[0]) for row in ids))
    text = f"DELETE FROM qsched_permits WHERE cluster = ? AND {condition} AND firing_id IS NULL"
    return tx.run(text, tx.cluster, *values).rowcount, following
