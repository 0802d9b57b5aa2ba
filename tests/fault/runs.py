"""What the changes of the firings' rows mean: each take of a firing, from running to its end, by the database's own order."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from .evidence import Change, Evidence

FINAL = frozenset({"succeeded", "failed", "lost", "cancelled", "skipped"})


@dataclass(frozen=True)
class Take:
    """A firing that ran under one fence."""

    firing: int
    fence: int
    incarnation: int
    begin: Change
    end: Change | None
    """What took it out of running; None where it still runs."""

    @property
    def row(self) -> dict[str, Any]:
        return self.begin.row

    @property
    def key(self) -> tuple[int, int]:
        return self.firing, self.fence

    @property
    def job(self) -> str:
        return str(self.row["job_name"])

    @property
    def trigger(self) -> str | None:
        name = self.row["trigger_name"]
        return None if name is None else str(name)


@dataclass(frozen=True)
class Verdict:
    """An incarnation that was declared dead."""

    incarnation: int
    change: Change

    @property
    def kind(self) -> str:
        return str(self.change.row["dead_verdict"])


def takes_of(evidence: Evidence) -> list[Take]:
    """Every take, in the order of their beginnings."""
    if "takes" not in evidence.derived:
        evidence.derived["takes"] = _takes(evidence)
    found: list[Take] = evidence.derived["takes"]
    return found


def _takes(evidence: Evidence) -> list[Take]:
    found = []
    for firing, versions in evidence.of_firing.items():
        open_at: Change | None = None
        for version in versions:
            running = version.row["state"] == "running"
            if open_at is not None and (not running or version.row["fence"] != open_at.row["fence"]):
                found.append(_take(firing, open_at, version))
                open_at = None
            if running and open_at is None:
                open_at = version
        if open_at is not None:
            found.append(_take(firing, open_at, None))
    return sorted(found, key=lambda take: take.begin.seq)


def verdicts_of(evidence: Evidence) -> dict[int, Verdict]:
    """{incarnation: its verdict}."""
    if "verdicts" not in evidence.derived:
        evidence.derived["verdicts"] = _verdicts(evidence)
    found: dict[int, Verdict] = evidence.derived["verdicts"]
    return found


def _verdicts(evidence: Evidence) -> dict[int, Verdict]:
    found = {}
    for incarnation, versions in evidence.of_node.items():
        dead = next((version for version in versions if version.row["state"] == "dead"), None)
        if dead is not None:
            found[incarnation] = Verdict(incarnation, dead)
    return found


def by_firing(takes: list[Take]) -> dict[int, list[Take]]:
    found: dict[int, list[Take]] = defaultdict(list)
    for take in takes:
        found[take.firing].append(take)
    return found


def outcome_of(evidence: Evidence, take: Take) -> str | None:
    """How a take ended: the outcome of its attempts row, else of the final row; `released` where no body had begun."""
    if take.end is None:
        return None
    ended = evidence.ended_attempts.get(take.key)
    if ended is not None:
        return str(ended["outcome"])
    if take.end.row["state"] in FINAL:
        return str(take.end.row["outcome"])
    return "released"


def _take(firing: int, begin: Change, end: Change | None) -> Take:
    return Take(firing, begin.row["fence"], begin.row["incarnation"], begin, end)
