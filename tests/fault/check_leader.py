"""Who decides where a leader does: nobody beside it, and two epochs never interleave (I19)."""

from dataclasses import dataclass, replace

from .check_fences import cut_off, node_of_backend
from .evidence import Change, Evidence
from .violation import Violation, slice_of

_MIXED = 3.0
"""Seconds in which every node has heard that a leader decides again; before that both ways are open, and safe."""


@dataclass(frozen=True)
class Reign:
    """A time in which the cluster's row did not change its mind about who decides."""

    epoch: int
    leader: int | None
    by_leader: bool
    seq: int
    began: float
    by_leader_since: float


def reigns(evidence: Evidence) -> list[Reign]:
    """All of them, in order."""
    found: list[Reign] = []
    for change in evidence.of_table["clusters"]:
        row = change.row
        by_leader = row["coordination"] == "leader" and row["fallen_back_at"] is None
        before = found[-1] if found else None
        now = Reign(row["epoch"], row["leader_incarnation"], by_leader, change.seq, change.mono, change.mono)
        if before is not None and before.by_leader and by_leader:
            now = replace(now, by_leader_since=before.by_leader_since)
        if before is None or (before.epoch, before.leader, before.by_leader) != (
            now.epoch,
            now.leader,
            by_leader,
        ):
            found.append(now)
    return found


def check_leader(evidence: Evidence) -> list[Violation]:
    """I19."""
    if evidence.settings.coordination != "leader":
        return []
    found: list[Violation] = []
    ordered, at = reigns(evidence), 0
    current: Reign | None = None
    for change in evidence.of_table["firings"]:
        while at < len(ordered) and ordered[at].seq < change.seq:
            current, at = ordered[at], at + 1
        if current is not None and current.by_leader and _decides(change):
            wrong = _by_a_stranger(evidence, current, change)
            if wrong is not None:
                text = f"firing {change.row['id']} was decided {wrong} in epoch {current.epoch} of {current.leader}"
                shown = slice_of(
                    evidence, firings=(change.row["id"],), around=(change.mono - 3, change.mono + 1)
                )
                found.append(Violation("I19", text, shown))
    return found


def _decides(change: Change) -> bool:
    row = change.row
    return (
        change.op == "INSERT" and row["trigger_id"] is not None and row["reason"] in ("schedule", "misfire")
    )


def _by_a_stranger(evidence: Evidence, reign: Reign, change: Change) -> str | None:
    """By whom, if not by the leader; None where it was, or where nobody can tell."""
    if change.backend is None or change.mono < reign.by_leader_since + _MIXED:
        return None
    writer = node_of_backend(evidence, change.backend, change.mono)
    leader = None if reign.leader is None else evidence.process_of(reign.leader)
    if writer is None or (leader is not None and writer == leader.node):
        return None
    home = next(
        (p for p in evidence.processes if p.node == writer and p.started <= change.mono <= p.ended), None
    )
    deaf = home is not None and cut_off(evidence, home, reign.by_leader_since, change.mono)
    if change.row["state"] != "due" and deaf:
        return None  # it has not heard yet that a leader decides again
    return f"by {writer}" + (" (which was cut off)" if deaf else "")
