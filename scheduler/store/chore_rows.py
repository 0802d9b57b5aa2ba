"""Chores: what one node of a cluster does for all, from time to time. Whoever moves `due_at` on does it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...triggers.job import canonical
from .report_items import readable
from .tables import chores
from .tx import Tx

_SELECT = "SELECT due_at, said FROM qsched_chores WHERE cluster = ? AND name = ?"


class Claim(NamedTuple):
    """A chore that is this node's until `due_at`: then it is anybody's again."""

    name: str
    due_at: int
    said: dict[str, Any]
    """What was said when it was last done."""


def due_in(tx: Tx, name: str, every: int) -> int:
    """µs until the chore is due; 0 where it is now, or was never done."""
    row = tx.run(_SELECT, tx.cluster, name).first()
    # One that lies further ahead than a claim sets it was set by a clock that has been set back since.
    return 0 if row is None or row[0] - tx.now() > every else max(0, int(row[0]) - tx.now())


def claim_chore(tx: Tx, name: str, incarnation: int, every: int) -> Claim | None:
    """Claim a chore that is due, for the next `every` µs; None where it is not, or another node was faster.

    No lease and no fence: a claimant that dies is replaced when the time is over, and one that was only slow, or was
    declared dead meanwhile, must do no harm.
    """
    tx.insert_missing(chores, ("cluster", "name", "due_at"), [(tx.cluster, name, 0)])
    seen, said = tx.run(_SELECT, tx.cluster, name).one()
    if due_in(tx, name, every):
        return None
    due_at = tx.now() + every
    claimed = tx.run(
        "UPDATE qsched_chores SET due_at = ?, incarnation = ? WHERE cluster = ? AND name = ? AND due_at = ?",
        *(due_at, incarnation, tx.cluster, name, seen),
    )
    return Claim(name, due_at, readable(said) or {}) if claimed.rowcount == 1 else None


def chore_done(tx: Tx, claim: Claim, due_at: int, said: Mapping[str, Any]) -> bool:
    """Say what was done and when it is due again; False where the claim was over, and another node's word stands."""
    return (
        tx.run(
            "UPDATE qsched_chores SET due_at = ?, done_at = ?, said = ? WHERE cluster = ? AND name = ? AND due_at = ?",
            *(due_at, tx.now(), canonical(dict(said)), tx.cluster, claim.name, claim.due_at),
        ).rowcount
        == 1
    )
