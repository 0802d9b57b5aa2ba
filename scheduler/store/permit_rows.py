"""Permits: the right to run one firing of a no-overlap job, of a serial backlog, or of a limited group, as rows to lock.

A no-overlap job and a serial backlog have one row (n = 0), a limited group as many as its limit. Rows with n < 0 are what
a lowered limit left in somebody's hands: given back they are nobody's any more.
"""

from collections.abc import Collection, Mapping, Sequence

from ..errors import SchedulerError
from .dialects import POSTGRESQL
from .ledger_tables import permits
from .tx import Tx


def lock_permits(tx: Tx, keys: Collection[str]) -> dict[str, int | None]:
    """{key: the firing that holds it, or None} of those permits that nobody is changing now; locked until commit.

    A job that allowed overlap until a moment ago may run several: then any of them counts as the holder.
    """
    condition, values = tx.among("p.permit_key", sorted(keys))
    running = (
        "(SELECT MIN(f.id) FROM qsched_firings f WHERE f.job_id = p.job_id"
        " AND f.state IN ('due', 'running') AND f.state = 'running')"
    )
    locking = tx.dialect.skip_locked.replace("UPDATE", "UPDATE OF p") if tx.dialect is POSTGRESQL else ""
    rows = tx.run(
        f"SELECT p.permit_key, COALESCE(p.firing_id, {running}) FROM qsched_permits p"
        f" WHERE p.cluster = ? AND {condition} AND p.n = 0 ORDER BY p.permit_key{locking or tx.dialect.skip_locked}",
        tx.cluster,
        *values,
    )
    return {row[0]: row[1] for row in rows}


def lock_limits(tx: Tx, wanted: Mapping[str, int]) -> dict[str, list[int]]:
    """{key of a limited group: its permits (n) that are free and locked by this from now on}, at most as many as wanted.

    What others are taking right now is passed by: it is theirs, or free again at the next look.
    """
    return {
        key: [
            row[0]
            for row in tx.rows(
                "SELECT n FROM qsched_permits WHERE cluster = ? AND permit_key = ? AND n >= 0 AND firing_id IS NULL"
                f" ORDER BY n LIMIT ?{tx.dialect.skip_locked}",
                *(tx.cluster, key, most),
            )
        ]
        for key, most in sorted(wanted.items())
    }


def make_permits(tx: Tx, keys: Collection[str]) -> None:
    """Permits that are made when they are first needed (a trigger's serial backlog)."""
    tx.insert_missing(permits, ("cluster", "permit_key", "n"), [(tx.cluster, key, 0) for key in sorted(keys)])


def hold_permits(tx: Tx, rows: Sequence[tuple[str, int, int, int]]) -> None:
    """Give locked, free permits to firings: rows of (key, n, firing id, fence)."""
    for key, n, firing_id, fence in rows:
        held = tx.run(
            "UPDATE qsched_permits SET firing_id = ?, fence = ?"
            " WHERE cluster = ? AND permit_key = ? AND n = ? AND firing_id IS NULL",
            firing_id,
            fence,
            tx.cluster,
            key,
            n,
        )
        if held.rowcount != 1:
            raise SchedulerError(f"permit {key} is held by somebody else: the take is undone")


def free_permits(tx: Tx, held: Sequence[tuple[str, int, int]]) -> None:
    """Give back permits: rows of (key, firing id, fence); one that another firing holds by now stays.

    A statement that waited for a permit whose number a new limit was changing may have passed it by: the next one finds it.
    """
    rows = [(tx.cluster, key, firing_id, fence, None, None) for key, firing_id, fence in sorted(held)]
    who, none = ("cluster", "permit_key", "firing_id", "fence"), ("firing_id", "fence")
    if rows and tx.update(permits, who, none, rows) < len(rows):
        tx.update(permits, who, none, rows)
