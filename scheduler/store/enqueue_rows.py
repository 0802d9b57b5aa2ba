"""The keys that an enqueued firing is found again by: its request key for good, its unique key while it is held.

A unique key is given up when somebody else wants it and its time has come, so that no way of ending has to know of it.
"""

from typing import NamedTuple

from ..firing import DUE, RUNNING, NewFiring
from .ledger_tables import firings
from .tx import Tx

_KEYS = ("unique_key", "unique_until", "idempotency_key")


class Known(NamedTuple):
    """The firing that has a request key."""

    id: int
    job_id: int
    job_name: str
    reason: str


class Holder(NamedTuple):
    """The firing that has a unique key."""

    id: int
    state: str
    unique_until: int | None

    def holds(self, now: int) -> bool:
        """Whether nobody else may have the key yet."""
        if self.unique_until is not None:
            return self.unique_until > now
        return self.state in (DUE, RUNNING)


def find_request(tx: Tx, request_key: str) -> Known | None:
    """The firing of that request."""
    row = tx.run(
        "SELECT id, job_id, job_name, reason FROM qsched_firings WHERE cluster = ? AND request_key = ?",
        *(tx.cluster, request_key),
    ).one_or_none()
    return None if row is None else Known(*row)


def find_holder(tx: Tx, unique_key: str) -> Holder | None:
    """The firing that has that unique key."""
    row = tx.run(
        "SELECT id, state, unique_until FROM qsched_firings WHERE cluster = ? AND unique_key = ?",
        *(tx.cluster, unique_key),
    ).one_or_none()
    return None if row is None else Holder(*row)


def give_up(tx: Tx, holder: Holder, unique_key: str) -> None:
    """Take the key from a firing that does not hold it any more; looked at once more under its lock."""
    tx.run(
        "UPDATE qsched_firings SET unique_key = NULL WHERE id = ? AND unique_key = ?"
        " AND CASE WHEN unique_until IS NULL THEN state NOT IN ('due', 'running') ELSE unique_until <= ? END",
        *(holder.id, unique_key, tx.now()),
    )


def insert_enqueued(
    tx: Tx, firing: NewFiring, unique_key: str | None, unique_until: int | None
) -> int | None:
    """Write the firing; None where its request key or its unique key has one."""
    row = (*firing, unique_key, unique_until, unique_key)
    return tx.insert_if_free(firings, (*NewFiring._fields, *_KEYS), row)
