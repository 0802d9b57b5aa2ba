"""What must have happened somewhere in a batch: a batch that never did it has proved nothing of it, and is void."""

from collections import Counter
from dataclasses import dataclass, field

from .result import Result

EVERYWHERE: dict[str, int] = {
    "fenced completion": 5,
    "bodies beside a fenced one": 3,
    "decided misfire fire_once": 3,
    "decided misfire skip": 3,
    "decided misfire fire_all": 3,
    "decided on time, coalesced": 10,
    "decided on time, skip while busy": 10,
    "judged again": 1,
    "retry": 10,
    "retry exhausted": 3,
    "recovery": 10,
    "dead silent": 10,
    "dead gone": 3,
    "drained": 3,
    "abandoned": 1,
    "given back by reconcile": 1,
    "given back by release": 3,
    "take refused: Fenced": 3,
    "told that its lease was lost": 1,
    "mark dead in doubt, landed": 1,
    "rescue in doubt, landed": 1,
    "take in doubt, landed": 3,
    "take in doubt, undone": 3,
    "settle in doubt, landed": 3,
    "settle in doubt, undone": 3,
    "a group was full": 10,
    "a limit was lowered below what ran": 1,
    "kept data changed hands between nodes": 10,
    "kept data of a fenced body was refused": 1,
    "a continuation": 10,
    "a continuation of a lost firing": 3,
    "a continuation was skipped": 3,
}
"""{what: how often at least}, in whatever mode."""

LED: dict[str, int] = {
    "epochs": 10,
    "plan refused: StaleTerm": 3,
    "plan in doubt, landed": 1,
    "fell back": 1,
    "came back": 1,
}
"""Likewise, in leader mode."""


@dataclass(slots=True)
class Tally:
    """The sums of many runs."""

    runs: int = 0
    firings: int = 0
    bodies: int = 0
    transactions: int = 0
    minutes: float = 0
    seconds: float = 0
    few_nodes: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    failed: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        self.runs += 1
        self.firings += result.firings
        self.bodies += result.bodies
        self.transactions += result.transactions
        self.minutes += result.minutes
        self.seconds += result.seconds
        self.few_nodes += result.nodes < 3
        self.faults += result.faults
        self.seen += result.seen
        if result.complaints:
            self.failed.append(result)

    def missing(self) -> dict[str, tuple[int, int]]:
        """{what: (seen, wanted)} of what happened too seldom."""
        wanted = EVERYWHERE | LED
        return {what: (self.seen[what], most) for what, most in wanted.items() if self.seen[what] < most}

    def lines(self) -> list[str]:
        """What is printed at the end."""
        runs = max(self.runs, 1)
        faults = sum(self.faults.values())
        told = [
            f"seeds {self.runs}  virtual minutes {self.minutes:.0f}  firings {self.firings} ({self.firings / runs:.0f} a seed)"
            f"  bodies {self.bodies}  transactions {self.transactions}",
            f"faults {faults} ({faults / runs:.1f} a seed): "
            + ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items())),
            "seen: " + ", ".join(f"{what} {count}" for what, count in sorted(self.seen.items())),
        ]
        told += [
            f"VOID: {what} happened {seen} times, at least {most} wanted"
            for what, (seen, most) in self.missing().items()
        ]
        return told
