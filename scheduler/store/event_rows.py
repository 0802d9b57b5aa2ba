"""What changed in the store since one looked: firings that came or moved, nodes, audited acts, triggers in error, the leader."""

from collections.abc import Collection
from typing import Any, NamedTuple

from ...triggers.trigger import trigger_key
from .tx import Tx

CHUNK = 2000
"""Ids that are asked for at once."""


class Of(NamedTuple):
    """Of which trigger: a condition on firings (f) and its values; all by default."""

    where: str = "1 = 1"
    values: tuple[Any, ...] = ()

    @classmethod
    def trigger(cls, trigger_id: int) -> "Of":
        return cls("(f.trigger_id = ? OR f.requested_trigger_id = ?)", (trigger_id, trigger_id))


class Moved(NamedTuple):
    """What tells that something became of a firing since it was read: each take and each end changes it."""

    id: int
    state: str
    fence: int
    policy: str | None
    cancel_requested_at: int | None


class NodeLife(NamedTuple):
    """A node's beginning and end; `by` is the name of who declared it dead."""

    incarnation: int
    name: str
    state: str
    started_at: int
    ended_at: int | None
    verdict: str | None
    by: str | None


class Audited(NamedTuple):
    """One row of the audit."""

    id: int
    at: int
    who: str | None
    verb: str
    object: str
    detail: str | None


class InError(NamedTuple):
    """A trigger that is in error now."""

    id: int
    key: str
    at: int | None
    reason: str | None


_MOVED = "SELECT f.id, f.state, f.fence, f.misfire_policy, f.cancel_requested_at FROM qsched_firings f WHERE f.cluster = ?"


def last_firing(tx: Tx) -> int:
    return int(tx.run("SELECT MAX(id) FROM qsched_firings").scalar() or 0)


def last_audited(tx: Tx) -> int:
    return int(tx.run("SELECT MAX(id) FROM qsched_audit").scalar() or 0)


def ids_after(tx: Tx, after: int, of: Of) -> list[int]:
    """The cluster's firings beyond an id."""
    rows = tx.rows(
        f"SELECT f.id FROM qsched_firings f WHERE f.cluster = ? AND f.id > ? AND {of.where} ORDER BY f.id",
        *(tx.cluster, after, *of.values),
    )
    return [row[0] for row in rows]


def open_now(tx: Tx, of: Of) -> list[int]:
    """The firings that are due or running."""
    ids: list[int] = []
    for state in ("due", "running"):
        statement = (
            f"SELECT f.id FROM qsched_firings f WHERE f.cluster = ? AND f.state = '{state}' AND {of.where}"
        )
        ids += [row[0] for row in tx.rows(statement, tx.cluster, *of.values)]
    return sorted(set(ids))


def moved(tx: Tx, ids: Collection[int]) -> list[Moved]:
    """How these firings are now, those that are still there."""
    found: list[Moved] = []
    wanted = sorted(ids)
    for start in range(0, len(wanted), CHUNK):
        condition, values = tx.among("f.id", wanted[start : start + CHUNK])
        found += map(Moved._make, tx.rows(f"{_MOVED} AND {condition}", tx.cluster, *values))
    return found


def nodes_after(tx: Tx, after: int, known: Collection[int]) -> list[NodeLife]:
    """The nodes beyond an incarnation, and these."""
    some, values = tx.among("n.incarnation", sorted(known)) if known else ("1 = 0", ())
    rows = tx.rows(
        "SELECT n.incarnation, n.name, n.state, n.started_at, n.ended_at, n.dead_verdict, m.name FROM qsched_nodes n"
        " LEFT JOIN qsched_nodes m ON m.incarnation = n.marked_by"
        f" WHERE n.cluster = ? AND (n.incarnation > ? OR {some}) ORDER BY n.incarnation",
        *(tx.cluster, after, *values),
    )
    return list(map(NodeLife._make, rows))


def audited_after(tx: Tx, after: int) -> list[Audited]:
    """The acts beyond an id."""
    rows = tx.rows(
        "SELECT id, at, who, verb, object, detail FROM qsched_audit WHERE cluster = ? AND id > ? ORDER BY id",
        *(tx.cluster, after),
    )
    return list(map(Audited._make, rows))


def audited_since(tx: Tx, since: int) -> list[Audited]:
    """The acts since an instant."""
    rows = tx.rows(
        "SELECT id, at, who, verb, object, detail FROM qsched_audit WHERE cluster = ? AND at >= ? ORDER BY id",
        *(tx.cluster, since),
    )
    return list(map(Audited._make, rows))


def in_error(tx: Tx) -> list[InError]:
    rows = tx.rows(
        "SELECT id, group_name, name, error_at, error FROM qsched_triggers WHERE cluster = ? AND error_kind IS NOT NULL",
        tx.cluster,
    )
    return [InError(row[0], trigger_key(row[1], row[2]), row[3], row[4]) for row in rows]


def leader(tx: Tx) -> tuple[int, int | None, str | None]:
    """(epoch, the leader's incarnation, its name) as the cluster's row has them."""
    row = tx.run(
        "SELECT c.epoch, c.leader_incarnation, n.name FROM qsched_clusters c"
        " LEFT JOIN qsched_nodes n ON n.incarnation = c.leader_incarnation WHERE c.id = ?",
        tx.cluster,
    ).one()
    return row[0], row[1], row[2]
