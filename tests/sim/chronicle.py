"""What happened, in order: every commit with the rows it changed, every body, every fault; recorded beside the product."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .rows import RECORDED
from .timeline import START

Change = tuple[str, str, tuple[Any, ...]]
"""(table, INSERT | UPDATE | DELETE, the row's new values; of a deleted one its last)."""


class Commit(NamedTuple):
    """A transaction that changed something, in the order of commits."""

    number: int
    at: int
    """True time (µs)."""
    now: int
    """The database's clock."""
    actor: str
    """The process that did it: `one#2`, or an operator."""
    incarnation: int
    name: str
    changes: tuple[Change, ...]
    told: bool
    """False: the answer was lost."""


class Told(NamedTuple):
    """A fault or a turn in somebody's life, for whoever reads the story."""

    at: int
    who: str
    what: str


@dataclass(slots=True)
class Body:
    """One run of a job's body in a process."""

    firing: int
    fence: int
    incarnation: int
    process: str
    job: str
    began: int
    began_now: int
    """The database's clock then."""
    ended: int | None = None
    outcome: str | None = None
    told: tuple[int, str] | None = None
    """When and why it was told to stop."""
    retry_now: bool = False
    permanent: bool = False
    found: str | None = None
    """What its job had kept, as it found it; None where its job keeps nothing."""
    saved: str | None = None
    """What it left to its job's next run."""


@dataclass(slots=True)
class History:
    """One run's."""

    commits: list[Commit] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    """How often each class of fault really struck."""
    seen: Counter[str] = field(default_factory=Counter)
    """How often what must sometimes happen did."""
    transactions: Counter[str] = field(default_factory=Counter)

    def tell(self, at: int, who: str, what: str) -> None:
        self.told.append(Told(at, who, what))

    def digest(self) -> str:
        """One fingerprint of all that happened."""
        hashed = hashlib.sha256()
        for part in (self.commits, self.bodies, self.told, sorted(self.faults.items())):
            for each in part:
                hashed.update(repr(each).encode())
        return hashed.hexdigest()[:16]

    def story(self, first: int, last: int, *, firing: int | None = None) -> list[str]:
        """What happened from true time `first` to `last` (µs), in lines; all of it, or what touches one firing."""
        lines = [(each.at, 0, f"{each.who}: {each.what}") for each in self.told]
        lines += [line for commit in self.commits for line in _commit_lines(commit, firing)]
        for body in self.bodies:
            if firing not in (None, body.firing):
                continue
            name = f"{body.process}: body of firing {body.firing} fence {body.fence} ({body.job})"
            lines.append((body.began, 2, f"{name} begins"))
            if body.ended is not None:
                lines.append((body.ended, 2, f"{name} ends {body.outcome}"))
        return [f"{clock(at)} {text}" for at, _, text in sorted(lines) if first <= at <= last]


def clock(at: int) -> str:
    """An instant as seconds since the run's begin."""
    return f"{(at - START) / 1_000_000:10.4f}"


def _commit_lines(commit: Commit, firing: int | None) -> list[tuple[int, int, str]]:
    parts = []
    for table, verb, row in commit.changes:
        if firing is not None and not (table in ("firings", "attempts") and row[0] == firing):
            continue
        if table == "nodes" and verb == "UPDATE" and commit.name == "check-in":
            parts.append(f"nodes {row[0]} renewed until {clock(row[5])}")
            continue
        parts.append(f"{verb.lower()} {table} {_shown(table, row)}")
    if not parts:
        return []
    lost = "" if commit.told else " (answer lost)"
    jump = "" if commit.now == commit.at else f" db={clock(commit.now)}"
    head = f"{commit.actor}/{commit.incarnation} {commit.name!r}{lost}{jump}"
    return [(commit.at, 1, f"{head}: {part}") for part in parts]


def _shown(table: str, row: tuple[Any, ...]) -> str:
    names = RECORDED[table]._fields
    shown = []
    for name, value in zip(names, row, strict=True):
        if value is None or value == 0 or name == "spec":
            continue
        at = name.endswith(("_at", "_until")) or name == "watermark"
        shown.append(f"{name}={clock(value).strip() if at and isinstance(value, int) else value}")
    return " ".join(shown)
