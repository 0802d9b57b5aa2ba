"""Limited groups: how many firings of a group's jobs run at once, kept as so many permits, and told to clocks and firings."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ..firing import limit_key
from .ledger_tables import permits
from .tables import group_limits, trigger_clocks
from .tx import Tx


class Limit(NamedTuple):
    """A limited group; permits are named by its id."""

    id: int
    name: str
    namespace: str
    most: int


def read_limits(tx: Tx) -> dict[str, Limit]:
    """{group: its limit} of the cluster."""
    rows = tx.rows("SELECT id, name, namespace, most FROM qsched_group_limits WHERE cluster = ?", tx.cluster)
    return {row[1]: Limit._make(row) for row in rows}


def write_limits(tx: Tx, namespace: str, wanted: Mapping[str, int]) -> None:
    """Make the limits of a namespace what it wants; the caller holds the cluster's lock."""
    known = {name: limit for name, limit in read_limits(tx).items() if limit.namespace == namespace}
    for name, limit in sorted(known.items()):
        if name not in wanted:
            tx.run("DELETE FROM qsched_group_limits WHERE id = ?", limit.id)
            _number(tx, limit_key(limit.id), 0)
        elif wanted[name] != limit.most:
            tx.run(
                "UPDATE qsched_group_limits SET most = ?, updated_at = ? WHERE id = ?",
                *(wanted[name], tx.now(), limit.id),
            )
            _number(tx, limit_key(limit.id), wanted[name])
    fresh = sorted(wanted.keys() - known.keys())
    columns = ("cluster", "name", "namespace", "most", "updated_at")
    rows = [(tx.cluster, name, namespace, wanted[name], tx.now()) for name in fresh]
    for name, group_id in zip(fresh, tx.insert_ids(group_limits, columns, rows), strict=True):
        _number(tx, limit_key(group_id), wanted[name])


def _number(tx: Tx, key: str, most: int) -> None:
    """Make a group's permits 0 to `most` − 1: those that are held keep their holders, what is too many is below zero."""
    held = tx.rows(
        "SELECT n, firing_id, fence FROM qsched_permits WHERE cluster = ? AND permit_key = ?"
        f" ORDER BY n{tx.dialect.for_update}",
        *(tx.cluster, key),
    )
    kept = [(row[1], row[2]) for row in held if row[1] is not None]
    tx.run("DELETE FROM qsched_permits WHERE cluster = ? AND permit_key = ?", tx.cluster, key)
    numbered = [
        (tx.cluster, key, place if place < most else -1 - place, *holder) for place, holder in enumerate(kept)
    ]
    numbered += [(tx.cluster, key, place, None, None) for place in range(len(kept), most)]
    tx.insert(permits, ("cluster", "permit_key", "n", "firing_id", "fence"), numbered)


def set_limit_keys(tx: Tx, keys: Mapping[int, str | None]) -> None:
    """Give {(locked) job id: its group's permits, or None} to the clocks of its triggers and to what waits, where it differs.

    Locks the clocks it changes, ids ascending. What runs already has no permit to give back, or has one that it gives back.
    """
    stale: dict[int, str | None] = {}
    for job_ids in _chunks(sorted(keys)):
        condition, values = tx.among("job_id", job_ids)
        rows = tx.rows(
            f"SELECT id, job_id, limit_key FROM qsched_trigger_clocks WHERE cluster = ? AND {condition}",
            *(tx.cluster, *values),
        )
        stale |= {row[0]: keys[row[1]] for row in rows if row[2] != keys[row[1]]}
    for ids in _chunks(sorted(stale)):
        condition, values = tx.among("id", ids)
        locked = tx.rows(
            f"SELECT id, version FROM qsched_trigger_clocks WHERE {condition} ORDER BY id{tx.dialect.for_update}",
            *values,
        )
        changed = [(row[0], row[1], row[1] + 1, stale[row[0]]) for row in locked]
        tx.update(trigger_clocks, ("id", "version"), ("version", "limit_key"), changed)
    for job_id, key in sorted(keys.items()):
        tx.run(
            "UPDATE qsched_firings SET limit_key = ? WHERE job_id = ? AND state IN ('due', 'running') AND state = 'due'",
            *(key, job_id),
        )


def _chunks(values: list[int], size: int = 500) -> list[Collection[int]]:
    return [values[start : start + size] for start in range(0, len(values), size)]
