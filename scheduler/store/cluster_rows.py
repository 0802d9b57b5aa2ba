"""The row of a cluster: its name, its uuid, how its nodes agree on who decides, and who leads under which epoch.

Whoever changes the leader locks the row FOR UPDATE and looks again; a planning transaction holds it with a key-share lock
until its commit. So a plan of an old epoch is refused, or through before the new one begins.
"""

import uuid
from typing import Any, Final, NamedTuple

from ..errors import Conflict, StoreError
from .tx import Tx

ROW_LOCKS: Final = "row_locks"
LEADER: Final = "leader"
SQL: Final = "sql"
REDIS: Final = "redis"


class Coordination(NamedTuple):
    """How the nodes agree on who decides; instants in µs."""

    mode: str | None
    """row_locks | leader; None before the first node has started."""
    elector: str | None
    """Of leader mode: sql | redis."""
    epoch: int
    leader: int | None
    leader_until: int | None
    fallen_back_at: int | None

    @property
    def by_leader(self) -> bool:
        """Whether only a leader decides now."""
        return self.mode == LEADER and self.fallen_back_at is None


class LeaderSeen(NamedTuple):
    """What one look finds of the leader."""

    row: Coordination
    now: int
    lives: bool
    """Whether there is one whose node row is alive; its lease is another question."""
    undecidable: str | None
    unloadable: str | None
    """What its node row says it cannot do."""


_COLUMNS = "coordination, elector, epoch, leader_incarnation, leader_until, fallen_back_at"


def find_cluster(tx: Tx, name: str) -> int | None:
    """The id of the cluster called `name`, if there is one."""
    found = tx.run("SELECT id FROM qsched_clusters WHERE name = ?", name).scalar()
    return None if found is None else int(found)


def make_cluster(tx: Tx, name: str) -> int:
    """The id of the cluster called `name`, made now if there is none; whoever else makes it gets the same."""
    if not 1 <= len(name) <= 200 or not name.isprintable() or name != name.strip():
        raise StoreError(
            f"{name!r} cannot name a cluster", hint="use 1 to 200 printable characters, no blank at the ends"
        )
    from .tables import clusters  # imported late: readers need no tables

    # A random uuid: ids begin at 1 in every database, and two that share a mail provider must not share keys.
    row = (name, str(uuid.uuid4()), tx.now())
    tx.insert_missing(clusters, ("name", "uuid", "created_at"), [row])
    return int(tx.run("SELECT id FROM qsched_clusters WHERE name = ?", name).scalar_one())


def cluster_names(tx: Tx) -> list[str]:
    """The clusters of this database."""
    return sorted(row[0] for row in tx.run("SELECT name FROM qsched_clusters"))


# -- how the nodes agree ---------------------------------------------------------------------------------------------------


def coordination(tx: Tx) -> Coordination:
    """How the nodes agree now; locks nothing."""
    return _read(tx, "")


def look_at_leader(tx: Tx) -> LeaderSeen:
    """How the nodes agree now, and what the leader says of itself; one statement, locks nothing."""
    columns = ", ".join(f"c.{name}" for name in _COLUMNS.split(", "))
    row: Any = tx.run(
        f"SELECT {columns}, n.state, n.lease_until, n.undecidable, n.unloadable, {tx.now_column}"
        " FROM qsched_clusters c LEFT JOIN qsched_nodes n ON n.incarnation = c.leader_incarnation WHERE c.id = ?",
        tx.cluster,
    ).one()
    now = tx.saw_now(row[10])
    lives = row[6] == "up" and row[7] > now
    return LeaderSeen(Coordination(*row[:6]), now, lives, row[8], row[9])


def choose_coordination(tx: Tx, mode: str | None, elector: str | None) -> Coordination:
    """The cluster's coordination, for a node that asks for this one (None: for none) as it registers; locks the row.

    The mode is the cluster's: unset until its first node starts, and changed only while no node of it lives. Raises
    Conflict for a node that asks for another one.
    """
    seen = _read(tx, tx.dialect.for_update)
    if mode is None and seen.mode is not None:
        return seen
    wanted = (mode or ROW_LOCKS, elector if mode == LEADER else None)
    if (seen.mode, seen.elector) == wanted:
        return seen
    if seen.mode is not None and _anybody_lives(tx):
        raise Conflict(
            f"the nodes of this cluster work with {in_words(seen.mode, seen.elector)}, and this one asks for"
            f" {in_words(*wanted)}",
            hint="leave --coordination and --redis out, or stop the other nodes first",
        )
    tx.run(
        "UPDATE qsched_clusters SET coordination = ?, elector = ?, epoch = epoch + 1, leader_incarnation = NULL,"
        " leader_until = NULL, fallen_back_at = NULL WHERE id = ?",
        *wanted,
        tx.cluster,
    )
    return Coordination(*wanted, seen.epoch + 1, None, None, None)


def in_words(mode: str | None, elector: str | None) -> str:
    """A coordination for people: what it is, and how it is asked for."""
    if mode != LEADER:
        return "row locks (--coordination row_locks)"
    if elector == REDIS:
        return "a leader elected by Redis (--redis)"
    return "a leader elected by the database (--coordination leader without --redis)"


# -- who leads -------------------------------------------------------------------------------------------------------------


def share_epoch(tx: Tx, incarnation: int, epoch: int) -> bool:
    """Whether this incarnation still leads under this epoch; nobody takes over or falls back before the commit."""
    seen = _read(tx, tx.dialect.share_alive)
    return seen.by_leader and (seen.leader, seen.epoch) == (incarnation, epoch)


def take_over(tx: Tx, incarnation: int, ttl: int, *, by: str) -> int | None:
    """Lead from now on for `ttl` µs: the new epoch. None when the cluster is not led by this elector, or not by us.

    Redis has said already who leads, and the last one it said wins. For the SQL lease this row is the lease: it is free
    when its time has passed, or its holder was declared dead.
    """
    # node → cluster, as everywhere: a node that was declared dead must not lead.
    if not _may_lead(tx, incarnation, tx.dialect.share_alive):
        return None
    seen = _read(tx, tx.dialect.for_update)
    if (seen.mode, seen.elector) != (LEADER, by) or (by == SQL and _is_held(tx, seen, incarnation)):
        return None
    tx.run(
        "UPDATE qsched_clusters SET epoch = ?, leader_incarnation = ?, leader_until = ?, fallen_back_at = NULL"
        " WHERE id = ?",
        *(seen.epoch + 1, incarnation, tx.now() + ttl, tx.cluster),
    )
    return seen.epoch + 1


def renew_leadership(tx: Tx, incarnation: int, epoch: int, ttl: int) -> bool:
    """Lead for `ttl` µs more, if this epoch is still the current one and ours."""
    # No key column is touched, so that on PostgreSQL it does not wait for the leader's own plans (amendment 6).
    renewed = tx.run(
        f"UPDATE qsched_clusters SET leader_until = ? WHERE {_OURS}",
        *(tx.now() + ttl, tx.cluster, epoch, incarnation),
    )
    return renewed.rowcount == 1


def resign(tx: Tx, incarnation: int, epoch: int) -> bool:
    """Lead no more, if this epoch is still ours: the lease is free now."""
    resigned = tx.run(
        f"UPDATE qsched_clusters SET leader_incarnation = NULL, leader_until = ? WHERE {_OURS}",
        *(tx.now(), tx.cluster, epoch, incarnation),
    )
    return resigned.rowcount == 1


def fall_back(tx: Tx, epoch_seen: int) -> bool:
    """Row locks for the time being, if since this epoch nobody has led; a leader that comes back takes over again."""
    seen = _read(tx, tx.dialect.for_update)
    if not seen.by_leader or seen.epoch != epoch_seen or (seen.leader_until or 0) > tx.now():
        return False
    # A new epoch: what a leader that does not know of it still plans is refused.
    tx.run(
        "UPDATE qsched_clusters SET fallen_back_at = ?, epoch = epoch + 1, leader_incarnation = NULL WHERE id = ?",
        *(tx.now(), tx.cluster),
    )
    return True


_OURS = (
    "id = ? AND epoch = ? AND leader_incarnation = ? AND coordination = 'leader' AND fallen_back_at IS NULL"
)


def _read(tx: Tx, lock: str) -> Coordination:
    row: Any = tx.run(f"SELECT {_COLUMNS} FROM qsched_clusters WHERE id = ?{lock}", tx.cluster).one()
    return Coordination(*row)


def _is_held(tx: Tx, seen: Coordination, incarnation: int) -> bool:
    """Whether another node holds the SQL lease."""
    if seen.leader is None or seen.leader == incarnation or (seen.leader_until or 0) <= tx.now():
        return False
    return _may_lead(tx, seen.leader, "")


def _may_lead(tx: Tx, incarnation: int, lock: str) -> bool:
    row = tx.run(
        f"SELECT state, lease_until FROM qsched_nodes WHERE incarnation = ?{lock}", incarnation
    ).first()
    return row is not None and row[0] == "up" and row[1] > tx.now()


def _anybody_lives(tx: Tx) -> bool:
    row = tx.run(
        "SELECT 1 FROM qsched_nodes WHERE cluster = ? AND state IN ('up', 'draining') AND lease_until > ? LIMIT 1",
        *(tx.cluster, tx.now()),
    ).first()
    return row is not None
