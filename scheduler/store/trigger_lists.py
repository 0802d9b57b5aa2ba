"""Which triggers there are that somebody must see to: of a group, paused too long, waiting, in trouble; read only."""

from ...triggers.trigger import trigger_key
from .trigger_rows import ERROR, RETIRED, WAITING
from .tx import Tx


def trigger_keys(tx: Tx) -> list[str]:
    """Every key there is, for "did you mean"."""
    rows = tx.run(
        "SELECT group_name, name FROM qsched_triggers WHERE cluster = ? AND state <> ?", tx.cluster, RETIRED
    )
    return sorted(trigger_key(*row) for row in rows)


def group_trigger_ids(tx: Tx, group: str) -> list[int]:
    """The ids of a group's triggers that are not retired, ascending."""
    rows = tx.run(
        "SELECT id FROM qsched_triggers WHERE cluster = ? AND group_name = ? AND state <> ? ORDER BY id",
        *(tx.cluster, group, RETIRED),
    )
    return [row[0] for row in rows]


def stopped_in_group(tx: Tx, group: str, limit: int) -> list[int]:
    """The ids of a group's triggers that wait and may not start, though they are not paused themselves."""
    rows = tx.run(
        "SELECT t.id FROM qsched_triggers t JOIN qsched_trigger_clocks c ON c.id = t.id"
        " WHERE t.cluster = ? AND t.group_name = ? AND t.state = ? AND t.paused_at IS NULL"
        " AND c.next_run_at IS NULL ORDER BY t.id LIMIT ?",
        *(tx.cluster, group, WAITING, limit),
    )
    return [row[0] for row in rows]


def ended_pauses(tx: Tx, limit: int) -> list[str]:
    """Keys of triggers whose pause has come to its end (`paused_until`), the earliest first."""
    rows = tx.run(
        "SELECT group_name, name FROM qsched_triggers WHERE cluster = ? AND paused_until <= ? AND state <> 'retired'"
        " ORDER BY paused_until, id LIMIT ?",
        *(tx.cluster, tx.now(), limit),
    )
    return [trigger_key(*row) for row in rows]


def ended_group_pauses(tx: Tx) -> list[str]:
    """Groups whose pause has come to its end."""
    rows = tx.run(
        "SELECT group_name FROM qsched_paused_groups WHERE cluster = ? AND paused_until <= ? ORDER BY group_name",
        *(tx.cluster, tx.now()),
    )
    return [row[0] for row in rows]


def troubled_ids(tx: Tx, namespace: str) -> list[int]:
    """The ids of a namespace's triggers that are paused or in error."""
    rows = tx.run(
        "SELECT id FROM qsched_triggers WHERE cluster = ? AND namespace = ?"
        " AND (paused_at IS NOT NULL OR state = ?)",
        *(tx.cluster, namespace, ERROR),
    )
    return [row[0] for row in rows]


def waiting_ids(tx: Tx, after: int, limit: int) -> list[int]:
    """The ids of waiting triggers above `after`, ascending."""
    rows = tx.run(
        "SELECT id FROM qsched_triggers WHERE cluster = ? AND id > ? AND state = ? ORDER BY id LIMIT ?",
        *(tx.cluster, after, WAITING, limit),
    )
    return [row[0] for row in rows]
