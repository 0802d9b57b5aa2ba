"""What is so of triggers just now: what runs, what was skipped for it, which jobs no node can load; and their dropped retries."""

from typing import Any

from .database import Store
from .report_items import Item, instant, readable
from .tx import Tx

# From the nodes' rows to what they run: that many rows at most as the cluster has capacity.
_RUNNING = """
SELECT COALESCE(f.trigger_id, f.requested_trigger_id), f.id, f.first_started_at, f.attempt, n.name,
       (SELECT SUM(s.covers) FROM qsched_firings s WHERE s.trigger_id = COALESCE(f.trigger_id, f.requested_trigger_id)
           AND s.scheduled_at > f.scheduled_at AND s.state = 'skipped' AND s.misfire_cause = 'overlap')
  FROM qsched_nodes n JOIN qsched_firings f ON f.incarnation = n.incarnation AND f.state = 'running'
 WHERE n.cluster = ? AND COALESCE(f.trigger_id, f.requested_trigger_id) IS NOT NULL{where}
 ORDER BY f.id DESC"""


def running(store: Store, trigger_id: int | None = None) -> dict[int, Item]:
    """{trigger id: its oldest running firing, and how many slots were skipped meanwhile}; of one trigger, or of all."""
    values: tuple[Any, ...] = ()
    where = ""
    if trigger_id is not None:
        where, values = " AND (f.trigger_id = ? OR f.requested_trigger_id = ?)", (trigger_id, trigger_id)
    statement = _RUNNING.format(where=where)

    def work(tx: Tx) -> list[Any]:
        return list(tx.run(statement, tx.cluster, *values))

    return {row[0]: _item(row) for row in store.read("what runs", work)}  # the oldest comes last, and stays


def _item(row: Any) -> Item:
    return {
        "firing": row[1],
        "since": instant(row[2]),
        "attempt": row[3],
        "node": row[4],
        "skipped": int(row[5] or 0),
    }


def unloadable(store: Store) -> dict[int, str]:
    """{job id: why} of the jobs that every live node says it cannot load; nothing where no node lives."""

    def work(tx: Tx) -> list[Any]:
        statement = (
            "SELECT unloadable FROM qsched_nodes WHERE cluster = ? AND state = 'up' AND lease_until > ?"
        )
        return list(tx.run(statement, tx.cluster, tx.now()))

    said = [readable(row[0]) or {} for row in store.read("what cannot be loaded", work)]
    if not said:
        return {}
    everywhere = set(said[0]).intersection(*said[1:])
    return {
        int(job): str(said[0][job][-1])
        for job in everywhere
        if job.isdigit() and isinstance(said[0][job], list)
    }


def retries_dropped(store: Store, trigger_id: int) -> dict[str, int]:
    """{why: how many} retries that were left and not made, of the trigger's firings that the ledger still holds."""
    statement = (
        "SELECT retry_dropped, count(*) FROM qsched_firings WHERE trigger_id = ? AND retry_dropped IS NOT NULL"
        " GROUP BY retry_dropped ORDER BY retry_dropped"
    )
    return {
        row[0]: int(row[1]) for row in store.read("dropped", lambda tx: list(tx.run(statement, trigger_id)))
    }
