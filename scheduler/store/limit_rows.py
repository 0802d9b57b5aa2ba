"""Limited groups: how many firings of a group's jobs run at once, kept as so many permits, and told to clocks and firings."""

from collections.abc import Collection, Mapping
from itertools import count
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


def write_limits(tx: Tx, namespace: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """Make the limits of a namespace what it wants; the caller holds the cluster's lock, and later calls `number_permits`
    with the answer: permits are locked last, behind jobs, clocks and firings."""
    known = {name: limit for name, limit in read_limits(tx).items() if limit.namespace == namespace}
    numbers: dict[str, int] = {}
    for name, limit in sorted(known.items()):
        if name not in wanted:
            tx.run("DELETE FROM qsched_group_limits WHERE id = ?", limit.id)
            numbers[limit_key(limit.id)] = 0
        elif wanted[name] != limit.most:
            tx.run(
                "UPDATE qsched_group_limits SET most = ?, updated_at = ? WHERE id = ?",
                *(wanted[name], tx.now(), limit.id),
            )
            numbers[limit_key(limit.id)] = wanted[name]
    fresh = sorted(wanted.keys() - known.keys())
    columns = ("cluster", "name", "namespace", "most", "updated_at")
    rows = [(tx.cluster, name, namespace, wanted[name], tx.now()) for name in fresh]
    for name, group_id in zip(fresh, tx.insert_ids(group_limits, columns, rows), strict=True):
        numbers[limit_key(group_id)] = wanted[name]
    return numbers


def number_permits(tx: Tx, numbers: Mapping[str, int]) -> None:
    """Make the permits of each {group's key} so many."""
    for key, most in sorted(numbers.items()):
        _number(tx, key, most)


def _number(tx: Tx, key: str, most: int) -> None:
    """Make a group's permits 0 to `most` − 1: those that are held keep their holders, what is too many is below zero.

    A held row stays the row it is: an end that waits for its lock must find it again, and would not find another in its place.
    """
    rows = tx.rows(
        "SELECT n, firing_id FROM qsched_permits WHERE cluster = ? AND permit_key = ?"
        f" ORDER BY n{tx.dialect.for_update}",
        *(tx.cluster, key),
    )
    held = {n for n, firing_id in rows if firing_id is not None}
    free = [n for n in range(most) if n not in held]
    moves: dict[int, int] = {}
    for n in sorted(held - set(range(most))):
        if free:
            moves[n] = free.pop(0)
        elif n >= 0:
            moves[n] = next(each for each in count(-1 - n, -1) if each not in held | set(moves.values()))
    for n, firing_id in rows:
        if firing_id is None and n not in free:
            tx.run(f"DELETE FROM qsched_permits WHERE {_ONE}", tx.cluster, key, n)
    for n, number in sorted(moves.items()):
        tx.run(f"UPDATE qsched_permits SET n = ? WHERE {_ONE}", number, tx.cluster, key, n)
    known = {n for n, _ in rows}
    fresh = [(tx.cluster, key, n) for n in free if n not in known]
    tx.insert(permits, ("cluster", "permit_key", "n"), fresh)


_ONE = "cluster = ? AND permit_key = ? AND n = ?"


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
