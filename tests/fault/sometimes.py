"""What a run must have exercised: a run in which nothing was fenced, recovered or in doubt proves nothing and is void."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from .check_jobs import full_groups, kept
from .check_order import unhindered
from .check_recovery import takeovers
from .evidence import Evidence
from .runs import FINAL, outcome_of, takes_of, verdicts_of

FULL_FAULTS = 60
"""A run with fewer faults is a short one, of which less is asked."""

BARS: Mapping[str, int] = {
    "verdicts": 10,
    "verdicts: silent": 2,
    "verdicts: gone": 2,
    "fenced completions": 5,
    "told lease_lost": 3,
    "recoveries": 10,
    "lost for good": 3,
    "retries exhausted": 3,
    "retries that succeeded": 3,
    "misfires: fire_once": 3,
    "misfires: fire_all": 3,
    "misfires: skip": 3,
    "overlaps skipped": 3,
    "waited for a permit": 10,
    "drains": 3,
    "pauses": 5,
    "edits": 3,
    "groups full": 10,
    "counts kept": 10,
    "continuations": 10,
    "fires": 5,
}
_WITH_PROXY: Mapping[str, int] = {
    "cuts: before": 2,
    "cuts: after": 2,
    "cuts: late": 2,
    "takes in doubt": 1,
}
_LEADING: Mapping[str, int] = {
    "terms": 5,
    "stale plans refused": 3,
    "fallbacks": 1,
    "returns from fallback": 1,
}


@dataclass(frozen=True)
class Exercised:
    """What happened in a run, by name, and which of the bars it misses."""

    counts: Mapping[str, int]
    missed: Mapping[str, int]

    @property
    def void(self) -> bool:
        return bool(self.missed)


def exercised(evidence: Evidence, faults: int) -> Exercised:
    """Count, and compare with the bars of a run with so many planned faults."""
    counts = _counts(evidence)
    bars = dict(BARS)
    if evidence.settings.database != "sqlite":
        bars |= _WITH_PROXY
    if evidence.settings.coordination == "leader":
        bars |= _LEADING
    if faults < FULL_FAULTS:
        bars = dict.fromkeys(("verdicts", "fenced completions", "recoveries"), 1)
    missed = {name: bar for name, bar in bars.items() if counts[name] < bar}
    return Exercised(counts, missed)


def _counts(evidence: Evidence) -> "Counter[str]":
    counts: Counter[str] = Counter()
    logs = "\n".join(evidence.logs.values())
    counts["firings"] = len(evidence.final["firings"])
    counts["bodies"] = len(evidence.bodies)
    counts["faults"] = len(evidence.spells)
    counts["deaths of processes"] = sum(process.killed is not None for process in evidence.processes)
    for verdict in verdicts_of(evidence).values():
        counts["verdicts"] += 1
        counts[f"verdicts: {verdict.kind}"] += 1
    counts["gone while cut off"] = _gone_while_cut_off(evidence)
    counts["stopped with the write lock"] = len(evidence.said("stopped_holding"))
    counts["fenced completions"] = fenced(evidence)
    counts["told lease_lost"] = sum(body.told == "lease_lost" for body in evidence.bodies)
    counts["takes in doubt"] = logs.count("take.in_doubt")
    counts["reconciled"] = sum(map(int, re.findall(r"reconcile\.released firings=(\d+)", logs)))
    counts["rejoined"] = logs.count("node.rejoined")
    counts["drains"] = sum(process.code in (0, 8) for process in evidence.processes)
    counts["handed over"] = sum(process.code == 8 for process in evidence.processes)
    _of_firings(evidence, counts)
    for line in evidence.lines:
        if line["what"] == "cut":
            counts[f"cuts: {line['how']}"] += 1
            counts[f"cuts in {line['of']}"] += 1
        elif line["what"] == "answered":
            counts[f"{line['verb']}s".replace("fireds", "fires")] += 1
    _of_leading(evidence, counts)
    return counts


def _gone_while_cut_off(evidence: Evidence) -> int:
    """Verdicts of a freed session lock on a process that lived: it was stopped or cut off, and silent all the same."""
    found = 0
    for incarnation, verdict in verdicts_of(evidence).items():
        process = evidence.process_of(incarnation)
        found += verdict.kind == "gone" and process is not None and process.ended > verdict.change.mono
    return found


def fenced(evidence: Evidence) -> int:
    """Bodies that ended by themselves after their firing had been taken from them: what they said was refused."""
    found = 0
    for take in takes_of(evidence):
        if take.end is None or outcome_of(evidence, take) != "lost":
            continue
        found += sum(
            body.ended is not None and body.ended > take.end.mono
            for body in evidence.body_of.get(take.key, [])
        )
    return found


def _of_firings(evidence: Evidence, counts: "Counter[str]") -> None:
    for row in evidence.final["firings"]:
        if row["reason"] == "misfire" and row["misfire_policy"] in ("fire_once", "fire_all", "skip"):
            counts[f"misfires: {row['misfire_policy']}"] += 1
        counts["lost for good"] += row["state"] == "lost"
        counts["retries exhausted"] += row["state"] == "failed" and row["attempt"] >= 2
        counts["retries that succeeded"] += row["state"] == "succeeded" and row["attempt"] > 0
        counts["retries superseded"] += row["retry_dropped"] == "superseded"
        if row["misfire_cause"] == "overlap":
            counts["overlaps skipped"] += row["state"] == "skipped" and row["misfire_policy"] == "skip"
            counts["waited for a permit"] += row["misfire_policy"] in ("queue", "cancel")
    for take in takes_of(evidence):
        counts["recoveries"] += take.row["recoveries"] > 0 and outcome_of(evidence, take) in FINAL
        counts["releases"] += outcome_of(evidence, take) == "released"
    _of_jobs(evidence, counts)


def _of_jobs(evidence: Evidence, counts: "Counter[str]") -> None:
    counts["groups full"] = full_groups(evidence)
    counts["counts kept"] = len(kept(evidence))
    states = {row["id"]: row["state"] for row in evidence.final["firings"]}
    for row in evidence.final["firings"]:
        if row["of_firing"] is not None and row["reason"] == "after":
            counts["continuations"] += 1
            counts["continuations of lost firings"] += states.get(row["of_firing"]) == "lost"


def _of_leading(evidence: Evidence, counts: "Counter[str]") -> None:
    logs = "\n".join(evidence.logs.values())
    counts["stale plans refused"] = logs.count("leader.stale_plan_refused")
    before = None
    for change in evidence.of_table["clusters"]:
        row = change.row
        if before is not None:
            counts["terms"] += row["epoch"] != before["epoch"] and row["leader_incarnation"] is not None
            counts["fallbacks"] += row["fallen_back_at"] is not None and before["fallen_back_at"] is None
            counts["returns from fallback"] += (
                row["fallen_back_at"] is None and before["fallen_back_at"] is not None
            )
        before = row


def times(evidence: Evidence) -> dict[str, float]:
    """The worst of what has a formula: seconds, and how many were measured."""
    found: dict[str, float] = {}
    for kind in ("gone", "silent"):
        clean = [each for each in takeovers(evidence) if each.kind == kind and each.clean]
        if clean:
            found[f"takeovers {kind}"] = len(clean)
            found[f"takeover {kind}, worst"] = round(max(each.seconds + each.waited for each in clean), 3)
            found[f"takeover {kind}, promised"] = max(each.bound for each in clean)
    late = unhindered(evidence)
    found["slack"] = evidence.settings.slack
    found["calm firings"] = len(late)
    found["calm lateness, worst"] = round(max((each.seconds for each in late), default=0.0), 3)
    return found
