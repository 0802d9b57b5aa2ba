"""Node rows: who lives, under which incarnation, until when; every protocol write stands on `share_alive`."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..running.process_mark import is_gone
from .cluster_rows import Coordination, choose_coordination
from .session_lock import backend_sql
from .tables import nodes
from .tx import Tx

UP = "up"
DRAINING = "draining"
STOPPED = "stopped"
DEAD = "dead"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node says of itself when it registers; `lease` in µs."""

    name: str
    host: str
    pid: int
    pid_started_at: int | None
    capacity: int
    version: str
    tzdata: str | None
    tags: str | None
    lease: int
    revision: int | None = None
    coordination: str | None = None
    """The mode it asks for; None: the cluster's."""
    elector: str | None = None
    check_in: int | None = None
    """µs between its check-ins; `pid_started_at` is its process's mark (scheduler/running/process_mark.py)."""


class CheckIn(NamedTuple):
    """What a node says at each check-in; `undecidable`, `unloadable` and `health` are JSON texts or None."""

    incarnation: int
    lease: int
    running: int
    clock_offset: int
    revision: int | None
    undecidable: str | None
    unloadable: str | None
    session_lock: bool = False
    health: str | None = None


class Heard(NamedTuple):
    """What a node's check-in hears before it speaks."""

    live: int
    """Nodes whose lease has not passed, itself among them."""
    drain_requested_at: int | None
    drain_requested_by: str | None
    backend: int
    """The server's session that this connection has now."""
    coordination: Coordination


class Peer(NamedTuple):
    """A live node as others see it."""

    incarnation: int
    name: str
    undecidable: str | None
    unloadable: str | None


def register(tx: Tx, facts: NodeFacts, state: str = UP) -> tuple[int, str]:
    """Enter a new incarnation; answers (incarnation, name). A name that a live node bears gets a suffix (`-2`); one whose
    process is seen to be gone bears none any more, so that whoever is started in its place is called the same.

    Raises Conflict where live nodes work in another mode than the one it asks for.
    """
    now = tx.now()
    # This locks the cluster row, which serialises registrations: two nodes that start at once must not both find the name
    # free, nor each set a mode of its own.
    choose_coordination(tx, facts.coordination, facts.elector)
    taken = _names_taken(tx, facts.host)
    name, number = facts.name, 1
    while name in taken:
        number += 1
        name = f"{facts.name}-{number}"
    values: dict[str, Any] = {
        "cluster": tx.cluster,
        "name": name,
        "host": facts.host,
        "pid": facts.pid,
        "pid_started_at": facts.pid_started_at,
        "state": state,
        "started_at": now,
        "checked_in_at": now,
        "lease_until": now + facts.lease,
        "renew_seq": 1,
        "capacity": facts.capacity,
        "running": 0,
        "clock_offset": 0,
        "version": facts.version,
        "tzdata": facts.tzdata,
        "tags": facts.tags,
        "revision": facts.revision,
        "check_in": facts.check_in,
    }
    result = tx.conn.execute(nodes.insert().values(**values))
    return int(result.inserted_primary_key[0]), name  # type: ignore[index]


def _names_taken(tx: Tx, host: str) -> set[str]:
    rows = tx.rows(
        "SELECT name, host, pid, pid_started_at FROM qsched_nodes"
        " WHERE cluster = ? AND state IN ('up', 'draining') AND lease_until > ?",
        *(tx.cluster, tx.now()),
    )
    return {row[0] for row in rows if row[1] != host or row[3] is None or not is_gone(row[2], row[3])}


def share_alive(tx: Tx, incarnation: int) -> bool:
    """Whether this incarnation may still write, by the database's clock; holds off its being marked dead until commit.

    Also reads the clock, in the same round trip.
    """
    row = tx.run(
        f"SELECT state, lease_until, {tx.now_column} FROM qsched_nodes WHERE incarnation = ?"
        + tx.dialect.share_alive,
        incarnation,
    ).first()
    if row is None:
        return False
    return row[0] in (UP, DRAINING) and row[1] > tx.saw_now(row[2])


def lock_own(tx: Tx, incarnation: int) -> bool:
    """Lock the own row for writing, which waits for a take in flight; whether this incarnation was not declared dead."""
    row = tx.run(
        "SELECT state FROM qsched_nodes WHERE incarnation = ?" + tx.dialect.for_update, incarnation
    ).first()
    return row is not None and row[0] in (UP, DRAINING)


def check_in(tx: Tx, said: CheckIn) -> bool:
    """Renew the lease; False when this incarnation was declared dead. Touches no key column (amendment 6)."""
    now = tx.now()
    renewed = tx.run(
        "UPDATE qsched_nodes SET checked_in_at = ?, lease_until = ?, renew_seq = renew_seq + 1, running = ?,"
        " clock_offset = ?, revision = ?, undecidable = ?, unloadable = ?, session_lock = ?, health = ?"
        " WHERE incarnation = ? AND state IN ('up', 'draining')",
        now,
        now + said.lease,
        said.running,
        said.clock_offset,
        said.revision,
        said.undecidable,
        said.unloadable,
        int(said.session_lock),
        said.health,
        said.incarnation,
    )
    return renewed.rowcount == 1


def hear(tx: Tx, incarnation: int) -> Heard | None:
    """What there is to hear for a check-in, and the clock, in one round trip; None when the node has no row any more."""
    clock = tx.now_column
    # The clock of this statement, unless the test has one: then the instant is given.
    now = "?" if clock == "0" else clock
    row: Any = tx.run(
        "SELECT (SELECT COUNT(*) FROM qsched_nodes p WHERE p.cluster = n.cluster AND p.state IN ('up', 'draining')"
        f" AND (p.lease_until > {now} OR p.incarnation = n.incarnation)), n.drain_requested_at, n.drain_requested_by,"
        f" {backend_sql(tx.dialect)}, {clock}, c.coordination, c.elector, c.epoch, c.leader_incarnation, c.leader_until,"
        " c.fallen_back_at FROM qsched_nodes n JOIN qsched_clusters c ON c.id = n.cluster WHERE n.incarnation = ?",
        *([tx.now()] if clock == "0" else []),
        incarnation,
    ).first()
    if row is None:
        return None
    tx.saw_now(row[4])
    return Heard(row[0], row[1], row[2], row[3], Coordination(*row[5:]))


def live_nodes(tx: Tx) -> list[Peer]:
    """The nodes whose lease has not passed."""
    rows = tx.run(
        "SELECT incarnation, name, undecidable, unloadable FROM qsched_nodes"
        " WHERE cluster = ? AND state IN ('up', 'draining') AND lease_until > ?",
        tx.cluster,
        tx.now(),
    )
    return sorted(Peer(*row) for row in rows)


def set_state(tx: Tx, incarnation: int, state: str, *, handed_over: int | None = None) -> bool:
    """Draining or stopped, by the node itself; False when it was declared dead before."""
    now = tx.now()
    ended = now if state == STOPPED else None
    return (
        tx.run(
            "UPDATE qsched_nodes SET state = ?, ended_at = ?, running = CASE WHEN ? = 'stopped' THEN 0 ELSE running END,"
            " handed_over = ? WHERE incarnation = ? AND state IN ('up', 'draining')",
            state,
            ended,
            state,
            handed_over,
            incarnation,
        ).rowcount
        == 1
    )


def covered(tx: Tx, instant: int) -> bool:
    """Whether some incarnation of the cluster lived at `instant` (cause no_capacity rather than node_down)."""
    row = tx.run(
        "SELECT 1 FROM qsched_nodes WHERE cluster = ? AND started_at <= ?"
        " AND CASE WHEN state = 'dead' THEN checked_in_at WHEN ended_at IS NOT NULL THEN ended_at"
        " WHEN state IN ('up', 'draining') AND lease_until > ? THEN ? ELSE lease_until END >= ? LIMIT 1",
        tx.cluster,
        instant,
        tx.now(),
        tx.now(),
        instant,
    ).first()
    return row is not None


def lived(tx: Tx, instant: int) -> bool | None:
    """Whether some incarnation lived at `instant`; None where the rows know of none that had begun by then."""
    if covered(tx, instant):
        return True
    row = tx.run(
        "SELECT 1 FROM qsched_nodes WHERE cluster = ? AND started_at <= ? LIMIT 1", tx.cluster, instant
    ).first()
    return None if row is None else False
