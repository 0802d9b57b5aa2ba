"""Reading the ledger that jobs keep outside of qsched's tables (support/ledger_jobs.py writes it)."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Ledger:
    """The lines of one ledger file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, what: str | None = None) -> list[dict[str, Any]]:
        """What jobs wrote, in order; a torn line is an error. `what` is `ran`, `began` or `ended`."""
        if not self.path.exists():
            return []
        found = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [line for line in found if what in (None, line["what"])]


@dataclass(frozen=True)
class Judgement:
    """Runs compared with an independent list of slots; lateness in seconds."""

    firings: int
    missing: set[tuple[str, int]]
    double: set[tuple[str, int]]
    strange: set[tuple[str, int]]
    """Runs of what is no slot."""
    early: int
    late: list[float]
    share: dict[str, float]

    def late_at(self, quantile: float) -> float:
        """The lateness that this part of the runs does not exceed."""
        return self.late[min(len(self.late) - 1, int(quantile * len(self.late)))] if self.late else 0.0


def judge_runs(runs: list[dict[str, Any]], expected: set[tuple[str, int]], gap: int) -> Judgement:
    """Compare `ran` lines with the slots that were to run. Runs outside the list's time are looked at for doubles only."""
    first, last = min(slot for _, slot in expected), max(slot for _, slot in expected)
    counted = Counter((run["trigger"], run["slot"]) for run in runs)
    within = [run for run in runs if first <= run["slot"] <= last]
    nodes = Counter(run["node"] for run in within)
    return Judgement(
        firings=len(within),
        missing=expected - counted.keys(),
        double={key for key, times in counted.items() if times > 1},
        strange={key for key in counted if key[1] % gap != 0}
        | {(run["trigger"], run["slot"]) for run in within} - expected,
        early=sum(run["began"] < run["slot"] for run in runs),
        late=sorted((run["began"] - run["slot"]) / 1_000_000 for run in within),
        share={node: count / len(within) for node, count in sorted(nodes.items())},
    )
