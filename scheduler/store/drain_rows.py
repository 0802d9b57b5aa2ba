"""A drain as a node's row tells it: who asked for it, how far it is, what it broke off."""

from typing import NamedTuple

from .tx import Tx


class DrainRow(NamedTuple):
    """What the row of one incarnation says; instants in µs."""

    incarnation: int
    name: str
    state: str
    running: int
    lease_until: int
    requested_at: int | None
    requested_by: str | None
    handed_over: int | None
    """Of a stopped node: how many bodies its drain broke off."""


_COLUMNS = (
    "incarnation, name, state, running, lease_until, drain_requested_at, drain_requested_by, handed_over"
)


def drain_row(tx: Tx, incarnation: int) -> DrainRow | None:
    """The row of this incarnation, if there is one."""
    row = tx.run(f"SELECT {_COLUMNS} FROM qsched_nodes WHERE incarnation = ?", incarnation).first()
    return None if row is None else DrainRow(*row)


def node_named(tx: Tx, name: str) -> DrainRow | None:
    """The live node of this name, else the newest that bore it. A node that registers takes no live one's name."""
    row = tx.run(
        f"SELECT {_COLUMNS} FROM qsched_nodes WHERE cluster = ? AND name = ? ORDER BY"
        " CASE WHEN state IN ('up', 'draining') AND lease_until > ? THEN 0 ELSE 1 END, incarnation DESC LIMIT 1",
        tx.cluster,
        name,
        tx.now(),
    ).first()
    return None if row is None else DrainRow(*row)


def ask_to_drain(tx: Tx, incarnation: int, who: str | None) -> bool:
    """Write the request; who asked first stays. False: the node has ended, or was asked before."""
    asked = tx.run(
        "UPDATE qsched_nodes SET drain_requested_at = ?, drain_requested_by = ?"
        " WHERE incarnation = ? AND state IN ('up', 'draining') AND drain_requested_at IS NULL",
        tx.now(),
        who,
        incarnation,
    )
    return asked.rowcount == 1
