"""What a run or a batch showed, as text for people and JSON for machines."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .check import check
from .evidence import Evidence, read
from .schedule import Fault, overlapping
from .schedule import read as read_schedule
from .sometimes import Exercised, exercised, times
from .violation import Violation

FAULTS = {"postgresql": 200, "postgresql+redis": 150, "mariadb": 150, "sqlite": 100}
"""The bars of the whole batch, per profile."""
_EACH_CLASS = 10
_SHARE_OVERLAPPING = 0.2
_SUMS = {"deaths": 150, "fenced completions": 30, "firings": 20_000}
_SHOWN = 12


@dataclass(frozen=True)
class RunReport:
    """One run, judged."""

    profile: str
    seed: int
    folder: Path
    violations: list[Violation]
    exercised: Exercised
    kinds: "Counter[str]"
    overlapping: int
    times: dict[str, float]

    @property
    def verdict(self) -> str:
        return "RED" if self.violations else "VOID" if self.exercised.void else "green"

    def as_json(self) -> dict[str, Any]:
        return {
            "profile": self.profile,
            "seed": self.seed,
            "verdict": self.verdict,
            "violations": [
                {"rule": each.rule, "text": each.text, "slice": each.slice} for each in self.violations
            ],
            "counts": dict(self.exercised.counts),
            "missed": dict(self.exercised.missed),
            "faults": dict(self.kinds),
            "overlapping": self.overlapping,
            "times": self.times,
        }

    def __str__(self) -> str:
        lines = [f"{self.profile} seed {self.seed}: {self.verdict}   ({self.folder})"]
        lines.append(
            f"  faults {sum(self.kinds.values())}, {self.overlapping} of them beside others: {_row(self.kinds)}"
        )
        lines.append(f"  seen: {_row(self.exercised.counts)}")
        lines.append(f"  times: {', '.join(f'{name} {value:g}' for name, value in self.times.items())}")
        if self.exercised.missed:
            lines.append(f"  VOID, too few: {_row(self.exercised.missed)} wanted")
        for rule, count in Counter(each.rule for each in self.violations).items():
            lines.append(f"  {rule}: {count} violations")
        lines += [f"  {each}" for each in self.violations[:_SHOWN]]
        return "\n".join(lines)


def judged(folder: Path) -> RunReport:
    """Read a run's folder, check it, and keep the report there."""
    profile, seed, _, planned = read_schedule(folder / "schedule.json")
    evidence = read(folder)
    report = RunReport(
        profile=profile,
        seed=seed,
        folder=folder,
        violations=check(evidence),
        exercised=exercised(evidence, len(planned)),
        kinds=Counter(spell.kind for spell in evidence.spells),
        overlapping=_overlapping(evidence),
        times=times(evidence),
    )
    (folder / "report.json").write_text(json.dumps(report.as_json(), indent=1))
    (folder / "report.txt").write_text(f"{report}\n")
    return report


def _overlapping(evidence: Evidence) -> int:
    """Faults that really had another beside them."""
    done = [
        Fault(spell.began, spell.kind, spell.target, spell.ended - spell.began) for spell in evidence.spells
    ]
    return overlapping(done)


def batch_misses(reports: Sequence[RunReport]) -> list[str]:
    """Which bars of the whole batch are missed, in words."""
    missed = []
    kinds: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for report in reports:
        kinds.update(report.kinds)
        counts = report.exercised.counts
        sums["overlapping"] += report.overlapping
        sums["deaths"] += counts["verdicts"]
        sums["fenced completions"] += counts["fenced completions"]
        sums["firings"] += counts["firings"]
    for profile, bar in FAULTS.items():
        done = sum(sum(report.kinds.values()) for report in reports if report.profile == profile)
        if done < bar:
            missed.append(f"{profile}: {done} faults, {bar} wanted")
    missed += [
        f"{kind}: {count} times, {_EACH_CLASS} wanted" for kind, count in kinds.items() if count < _EACH_CLASS
    ]
    missed += [f"{name}: {sums[name]}, {bar} wanted" for name, bar in _SUMS.items() if sums[name] < bar]
    if sums["overlapping"] < _SHARE_OVERLAPPING * kinds.total():
        missed.append(f"overlapping: {sums['overlapping']} of {kinds.total()}")
    return missed


def batch_text(reports: Sequence[RunReport]) -> str:
    """The whole batch in a few lines."""
    kinds: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for report in reports:
        kinds.update(report.kinds)
        counts.update(report.exercised.counts)
    lines = [f"{report.profile} seed {report.seed}: {report.verdict}" for report in reports]
    lines.append(
        f"faults {kinds.total()}, {sum(report.overlapping for report in reports)} beside others: {_row(kinds)}"
    )
    lines.append(f"seen: {_row(counts)}")
    lines += [f"MISSED {miss}" for miss in batch_misses(reports)]
    return "\n".join(lines)


def _row(counts: Any) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if count)
