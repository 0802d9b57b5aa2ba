"""What a leader must know of the other nodes: the places that are free on each, and the firings that wait for one."""

from collections.abc import Collection
from typing import NamedTuple

from .take_rows import FULL_GROUP, LOOK_LIMIT, MAY_START
from .tx import Tx


class LiveNode(NamedTuple):
    """A node that takes work now; `tags` and `unloadable` are JSON texts or None."""

    incarnation: int
    capacity: int
    running: int
    tags: str | None
    unloadable: str | None


class Waiting(NamedTuple):
    """A due firing that may start now, as far as the rows tell; `id` and `definition_hash` are its trigger's, if it has one."""

    id: int | None
    definition_hash: int | None
    job_id: int
    permit_key: str | None


class WaitingOfGroup(NamedTuple):
    """Due firings of one job that may start now, but for a permit of their limited group; those that need one permit of
    their job's are one."""

    limit_key: str
    permit_key: str | None
    job_id: int
    number: int


def live_nodes_places(tx: Tx) -> list[LiveNode]:
    """The nodes that take work, with what runs there by the ledger: their own count may be a check-in old."""
    rows = tx.rows(
        "SELECT n.incarnation, n.capacity, (SELECT COUNT(*) FROM qsched_firings f"
        " WHERE f.incarnation = n.incarnation AND f.state = 'running'), n.tags, n.unloadable FROM qsched_nodes n"
        " WHERE n.cluster = ? AND n.state = 'up' AND n.drain_requested_at IS NULL AND n.lease_until > ?"
        " ORDER BY n.incarnation",
        tx.cluster,
        tx.now(),
    )
    return list(map(LiveNode._make, rows))


def waiting_firings(tx: Tx, most: int, since: int = 0) -> list[Waiting]:
    """Due firings that could start now and became due after `since`, oldest first, among the first thousand of them.

    What waits for its permit is left out.
    """
    rows = tx.rows(
        "SELECT f.any_trigger, c.definition_hash, f.job_id, f.permit_key FROM"
        " (SELECT id, cluster, job_id, trigger_id, attempt, run_at, precedence, permit_key, limit_key,"
        " requested_trigger_id, reason,"
        " COALESCE(trigger_id, requested_trigger_id) AS any_trigger FROM qsched_firings"
        " WHERE cluster = ? AND state = 'due' AND run_at > ? AND run_at <= ?"
        f" ORDER BY run_at, precedence, id LIMIT {LOOK_LIMIT}) f"
        " LEFT JOIN qsched_trigger_clocks c ON c.id = f.any_trigger"
        " WHERE (f.permit_key IS NULL OR NOT EXISTS (SELECT 1 FROM qsched_permits p"
        " WHERE p.cluster = f.cluster AND p.permit_key = f.permit_key AND p.firing_id IS NOT NULL))"
        f" AND NOT {FULL_GROUP.format('f')} AND {MAY_START} ORDER BY f.run_at, f.precedence, f.id LIMIT ?",
        tx.cluster,
        since,
        tx.now(),
        tx.now(),
        most,
    )
    return list(map(Waiting._make, rows))


def waiting_of_groups(tx: Tx, keys: Collection[str]) -> list[WaitingOfGroup]:
    """The due firings that want a permit of these groups, and could start with one.

    What waits for another permit is left out, and a retry that its trigger's next slot will end: it would wait for that slot,
    and the slot for the permit that it does not take.
    """
    condition, values = tx.among("f.limit_key", sorted(keys))
    rows = tx.rows(
        "SELECT f.limit_key, f.permit_key, f.job_id, COUNT(*) FROM qsched_firings f"
        f" WHERE f.cluster = ? AND f.state = 'due' AND f.run_at <= ? AND {condition}"
        " AND (f.permit_key IS NULL OR NOT EXISTS (SELECT 1 FROM qsched_permits p"
        " WHERE p.cluster = f.cluster AND p.permit_key = f.permit_key AND p.firing_id IS NOT NULL))"
        f" AND {MAY_START} GROUP BY f.limit_key, f.permit_key, f.job_id",
        *(tx.cluster, tx.now(), *values, tx.now()),
    )
    return [WaitingOfGroup(row[0], row[1], row[2], 1 if row[1] is not None else row[3]) for row in rows]
