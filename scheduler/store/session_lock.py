"""A node's session lock: held by its check-in's connection, so that the database knows at once when the process is gone.

PostgreSQL's advisory lock, MariaDB's GET_LOCK; on SQLite the process's mark in the node's row takes its place. It only
hastens a dead verdict and never grants anything: where it cannot be relied on it is off, and the lease decides.
"""

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..identity import Identity
from .dialects import MARIADB, POSTGRESQL, SQLITE, Dialect
from .tx import Tx

_ASK_AGAIN = 30
"""Check-ins between two questions whether the connection still has it: nobody but a pooler takes it away."""


def backend_sql(dialect: Dialect) -> str:
    """An expression that tells which of the server's sessions runs the statement."""
    return {POSTGRESQL: "pg_backend_pid()", MARIADB: "CONNECTION_ID()"}.get(dialect, "0")


@dataclass(slots=True)
class _Hold:
    """What a connection remembers of the lock that was taken on it."""

    backend: int
    asked: int = -1
    """Check-ins since the server was asked whether it has it; -1: not yet."""


class SessionLock:
    """One node's. `held` says in each check-in whether its connection has the lock; `hold` takes it, in a transaction
    of its own, when `wanted` says so: at first, and again whenever the connection is a new one. `mark` is the process's, where
    this host tells it."""

    def __init__(self, who: Identity, mark: int | None) -> None:
        self._who = who
        self._mark = mark
        self._left: set[tuple[int, int]] = set()
        self.wanted = False
        self.off = False
        """The server hands us another session after each transaction: a pooler is between."""

    def held(self, tx: Tx, incarnation: int, backend: int) -> bool:
        """Whether the lock is surely this connection's own, from an earlier transaction on."""
        if tx.dialect is SQLITE:
            return self._mark is not None
        self._give_back(tx, backend)
        if self.off:
            return False
        hold = _holds(tx).get(incarnation)
        self.wanted = hold is None
        if hold is None:
            return False
        if hold.backend != backend or not self._still(tx, incarnation, hold):
            self._switch_off(tx, incarnation, hold)
            return False
        return True

    def _still(self, tx: Tx, incarnation: int, hold: _Hold) -> bool:
        hold.asked += 1
        if hold.asked % _ASK_AGAIN:
            return True
        return _is_ours(tx, self._who.cluster_uuid, incarnation)

    def _switch_off(self, tx: Tx, incarnation: int, hold: _Hold) -> None:
        self.off, self.wanted = True, False
        _holds(tx).pop(incarnation, None)
        self._left.add((hold.backend, incarnation))

    def _give_back(self, tx: Tx, backend: int) -> None:
        """What was left on a session of the pooler's is given back when we meet that one again."""
        for left in [each for each in self._left if each[0] == backend]:
            release(tx, self._who.cluster_uuid, left[1])
            self._left.discard(left)

    def hold(self, tx: Tx, incarnation: int) -> bool:
        """Try to take it for this incarnation, and let go what an earlier incarnation of this node held here."""
        self.wanted = False
        holds = _holds(tx)
        taken, backend = _take(tx, self._who.cluster_uuid, incarnation)
        if taken:
            holds[incarnation] = _Hold(backend)
        return taken

    def let_go(self, tx: Tx, incarnation: int) -> None:
        """This incarnation is over; its connection stays."""
        if _holds(tx).pop(incarnation, None) is not None:
            release(tx, self._who.cluster_uuid, incarnation)


def freed(tx: Tx, cluster_uuid: str, incarnations: Sequence[int]) -> set[int]:
    """Of these incarnations those whose lock no session holds now; asking takes no lock."""
    if tx.dialect is POSTGRESQL:
        held = {(row[0] << 32) + row[1] for row in tx.rows(_ALL_HELD)}
        return {each for each in incarnations if _key(cluster_uuid, each) % (1 << 64) not in held}
    if tx.dialect is MARIADB:
        found: set[int] = set()
        for start in range(0, len(incarnations), 100):
            chunk = incarnations[start : start + 100]
            columns = ",".join(["IS_FREE_LOCK(?)"] * len(chunk))
            row = tx.run(f"SELECT {columns}", *(_name(cluster_uuid, each) for each in chunk)).one()
            found |= {each for each, free in zip(chunk, row, strict=True) if free == 1}
        return found
    return set()


def release(tx: Tx, cluster_uuid: str, incarnation: int) -> None:
    """Let go of a lock that this session holds."""
    if tx.dialect is POSTGRESQL:
        tx.run("SELECT pg_advisory_unlock(?)", _key(cluster_uuid, incarnation)).all()
    elif tx.dialect is MARIADB:
        tx.run("SELECT RELEASE_LOCK(?)", _name(cluster_uuid, incarnation)).all()


_ALL_HELD = (
    "SELECT classid::bigint, objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def _take(tx: Tx, cluster_uuid: str, incarnation: int) -> tuple[bool, int]:
    """(whether it is ours now, the session)."""
    if tx.dialect is POSTGRESQL:
        statement, key = "SELECT pg_try_advisory_lock(?)", _key(cluster_uuid, incarnation)
        row = tx.run(f"{statement}, {backend_sql(tx.dialect)}", key).one()
    elif tx.dialect is MARIADB:
        name = _name(cluster_uuid, incarnation)
        row = tx.run(f"SELECT GET_LOCK(?, 0), {backend_sql(tx.dialect)}", name).one()
    else:
        return False, 0
    return bool(row[0]), int(row[1])


def _is_ours(tx: Tx, cluster_uuid: str, incarnation: int) -> bool:
    if tx.dialect is POSTGRESQL:
        key = _key(cluster_uuid, incarnation) % (1 << 64)
        row = tx.run(
            _ALL_HELD + " AND pid = pg_backend_pid() AND classid = CAST(? AS oid) AND objid = CAST(? AS oid)",
            key >> 32,
            key & 0xFFFFFFFF,
        ).first()
        return row is not None
    row = tx.run("SELECT IS_USED_LOCK(?) = CONNECTION_ID()", _name(cluster_uuid, incarnation)).one()
    return bool(row[0])


def _holds(tx: Tx) -> dict[int, _Hold]:
    """What is remembered of this driver connection; forgotten with it."""
    info: dict[Any, Any] = tx.conn.info
    found: dict[int, _Hold] = info.setdefault("qsched_session_locks", {})
    return found


def _key(cluster_uuid: str, incarnation: int) -> int:
    """A signed 64-bit number; two that collide cost a hastened verdict, no more."""
    digest = hashlib.sha256(f"qsched/{cluster_uuid}/{incarnation}".encode()).digest()
    return int.from_bytes(digest[:8], signed=True)


def _name(cluster_uuid: str, incarnation: int) -> str:
    """MariaDB's names are the whole server's and have 64 characters at most."""
    return f"qsched:{uuid.UUID(cluster_uuid).hex}:{incarnation}"
