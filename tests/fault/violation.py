"""A broken promise: which rule, what is wrong, and the slice of the history that shows it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .evidence import Evidence

_MOST = 60


@dataclass(frozen=True)
class Violation:
    """One breach of one rule."""

    rule: str
    text: str
    slice: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n    ".join([f"{self.rule}: {self.text}", *self.slice])


def slice_of(
    evidence: Evidence,
    *,
    firings: Iterable[int] = (),
    incarnations: Iterable[int] = (),
    around: tuple[float, float] | None = None,
) -> list[str]:
    """All that is known of some firings, incarnations and a span of time, in one order."""
    wanted, nodes = set(firings), set(incarnations)
    found: list[tuple[float, str]] = []
    for firing in wanted:
        for change in evidence.of_firing.get(firing, []):
            found.append((change.mono, f"#{change.seq} {change.op} firing {_short(change.row)}"))
        for body in evidence.bodies:
            if body.firing == firing:
                found.append(
                    (body.began, f"body of {firing}/{body.fence} begins on {body.node} pid {body.pid}")
                )
                if body.ended is not None:
                    found.append(
                        (body.ended, f"body of {firing}/{body.fence} ends: {body.how}, told {body.told}")
                    )
    for incarnation in nodes:
        versions = evidence.of_node.get(incarnation, [])
        for n, change in enumerate(versions):
            if n == 0 or n >= len(versions) - 3 or change.row["state"] != versions[n - 1].row["state"]:
                found.append((change.mono, f"#{change.seq} {change.op} node {_short(change.row)}"))
    found += _around(evidence, found, around)
    return [f"{mono:10.3f} {text}" for mono, text in sorted(found)][:_MOST]


def _around(
    evidence: Evidence, found: list[tuple[float, str]], around: tuple[float, float] | None
) -> list[tuple[float, str]]:
    """The faults and ends of processes of the same time."""
    if around is None:
        if not found:
            return []
        moments = [mono for mono, _ in found]
        around = (min(moments) - 2, min(max(moments), min(moments) + 60) + 1)
    first, last = around
    told = []
    for spell in evidence.spells:
        if spell.began <= last and spell.ended >= first:
            text = (
                f"fault {spell.n} {spell.kind} {spell.target} until {spell.ended:.3f} {spell.options or ''}"
            )
            told.append((spell.began, text.rstrip()))
    for process in evidence.processes:
        if first <= process.ended <= last:
            told.append((process.ended, f"process {process.node} pid {process.pid} ends: {process.code}"))
        if first <= process.started <= last:
            told.append((process.started, f"process {process.node} pid {process.pid} starts"))
    return told


def _short(row: dict[str, Any]) -> str:
    left_out = {
        "spec",
        "job_id",
        "misfire_decision",
        "request_recovery",
        "trigger_id",
        "requested_trigger_id",
    }
    return " ".join(
        f"{name}={value}" for name, value in row.items() if value is not None and name not in left_out
    )
