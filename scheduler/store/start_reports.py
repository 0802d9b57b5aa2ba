"""What a manual start of a trigger would meet now: only reads."""

from ...triggers.trigger_text import split_key
from .database import Store
from .node_rows import UP
from .report_items import Item, instant
from .trigger_rows import ERROR, RETIRED
from .tx import Tx

_TRIGGER = (
    "SELECT t.job_id, c.overlap, c.limit_key, c.next_fire_at, t.state, t.paused_at, g.paused_at FROM qsched_triggers t"
    " JOIN qsched_trigger_clocks c ON c.id = t.id"
    " LEFT JOIN qsched_paused_groups g ON g.cluster = t.cluster AND g.group_name = t.group_name"
    " WHERE t.cluster = ? AND t.group_name = ? AND t.name = ? AND t.state <> ?"
)
_RUNNING = (
    "SELECT f.id, f.started_at, n.name FROM qsched_firings f LEFT JOIN qsched_nodes n ON n.incarnation = f.incarnation"
    " WHERE f.job_id = ? AND f.state IN ('due', 'running') AND f.state = 'running' ORDER BY f.id LIMIT 1"
)


def start_facts(store: Store, key: str) -> Item | None:
    """The trigger's `next_fire_at`, and what a start of it would wait for; None for one that is not there.

    `stopped`: it is paused or in error, and refused without force; `running` {firing, since, node}: its job allows no overlap
    and runs; `full`: its group's limit is reached; `nodes`: so many live.
    """
    return store.read("start", lambda tx: _facts(tx, key))


def _facts(tx: Tx, key: str) -> Item | None:
    row = tx.run(_TRIGGER, tx.cluster, *split_key(key), RETIRED).first()
    if row is None:
        return None
    job_id, overlap, limit_key, next_fire_at, state, *pauses = row
    running = None if overlap == "allow" else tx.run(_RUNNING, job_id).first()
    nodes = tx.run(
        "SELECT COUNT(*) FROM qsched_nodes WHERE cluster = ? AND state = ? AND lease_until > ?",
        *(tx.cluster, UP, tx.now()),
    ).scalar_one()
    return {
        "stopped": state == ERROR or any(at is not None for at in pauses),
        "next_fire_at": instant(next_fire_at),
        "running": None
        if running is None
        else {"firing": running[0], "since": instant(running[1]), "node": running[2]},
        "full": limit_key is not None and _full(tx, limit_key),
        "nodes": int(nodes),
    }


def _full(tx: Tx, limit_key: str) -> bool:
    free = tx.run(
        "SELECT COUNT(*) FROM qsched_permits WHERE cluster = ? AND permit_key = ? AND n >= 0 AND firing_id IS NULL",
        *(tx.cluster, limit_key),
    ).scalar_one()
    return not free
