"""What only grows, never shrinks (I8); what is due comes at its time (I13), and soon where nothing hinders it (I20)."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .evidence import Change, Evidence
from .room import Room
from .runs import Take, takes_of
from .violation import Violation, slice_of

_ROUNDING = 2_000
"""µs between the two clocks that a body's beginning and a slot are read from."""
_POLL = 1.0
_TRANSACTION = 2.0
"""Seconds that a transaction may last."""
_GROWING = {
    "trigger_clocks": ("id", ("watermark", "version", "fires")),
    "firings": ("id", ("fence", "recoveries", "attempt")),
    "nodes": ("incarnation", ("renew_seq",)),
    "clusters": ("id", ("epoch",)),
}


def check_growth(evidence: Evidence) -> list[Violation]:
    """I8."""
    found: list[Violation] = []
    for table, (key, columns) in _GROWING.items():
        rows: dict[int, list[Change]] = defaultdict(list)
        for change in evidence.of_table[table]:
            rows[change.row[key]].append(change)
        for versions in rows.values():
            for before, after in pairwise(versions):
                found += _shrunk(table, columns, before, after)
    for change in evidence.of_table["trigger_clocks"]:
        row = change.row
        if None not in (row["next_fire_at"], row["watermark"]) and row["next_fire_at"] <= row["watermark"]:
            found.append(Violation("I8", f"#{change.seq}: the next slot lies before the watermark: {row}"))
    known = [change.row["incarnation"] for change in evidence.of_table["nodes"] if change.op == "INSERT"]
    if known != sorted(set(known)):
        found.append(Violation("I8", f"incarnations do not grow: {known}"))
    return found


def _shrunk(table: str, columns: tuple[str, ...], before: Change, after: Change) -> list[Violation]:
    return [
        Violation(
            "I8", f"#{after.seq}: {table}.{column} went back from {before.row[column]} to {after.row[column]}"
        )
        for column in columns
        if before.row[column] is not None and (after.row[column] or 0) < before.row[column]
    ]


def check_early(evidence: Evidence) -> list[Violation]:
    """I13: by the database's clock nothing is taken, and no body begins, before its slot, or before its retry's time."""
    found = []
    for take in takes_of(evidence):
        # A slot first runs at its own time; what is due again has a time of its own.
        due = take.row["scheduled_at"] if take.fence == 1 else take.row["run_at"]
        blur = _clock_blur(evidence)
        if evidence.hands.stepped(take.begin.mono - _TRANSACTION, take.begin.mono + _TRANSACTION):
            continue  # its clock was read before the step, and the audit's after it
        if due - take.begin.at > blur:
            found.append(
                _say(evidence, take, f"was taken {(due - take.begin.at) / 1e6:.6f} s before it was due")
            )
        for body in evidence.body_of.get(take.key, []):
            early = due - evidence.hands.database(body.began)
            if early > _ROUNDING + blur and not evidence.hands.stepped(take.begin.mono, body.began):
                found.append(_say(evidence, take, f"began {early / 1e6:.6f} s before it was due"))
    return found


def _clock_blur(evidence: Evidence) -> int:
    return 1_500 if evidence.settings.database == "sqlite" else 0  # its own clock counts milliseconds


def _say(evidence: Evidence, take: Take, text: str) -> Violation:
    shown = slice_of(evidence, firings=(take.firing,))
    return Violation("I13", f"firing {take.firing}/{take.fence} of {take.trigger} {text}", shown)


# -- promptness --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Late:
    """A first take that nothing hindered."""

    take: Take
    seconds: float


def unhindered(evidence: Evidence) -> list[Late]:
    """First takes of slots in calm times: no fault of any kind since a while before the slot, until the take."""
    hindered = _hindrances(evidence)
    found = []
    for take in takes_of(evidence):
        row = take.row
        job = evidence.jobs.get(take.job)
        if take.fence != 1 or row["reason"] != "schedule" or job is None or job.overlap != "allow":
            continue
        if row["limit_key"] is not None:
            continue  # its group may be full
        due = evidence.hands.mono(row["run_at"], near=take.begin.mono)
        if not hindered(due, take.begin.mono):
            found.append(Late(take, take.begin.mono - due))
    return found


def check_prompt(evidence: Evidence) -> list[Violation]:
    """I20: what is due and may run does not wait while a healthy node has room (two polls, and the slack)."""
    most = 2 * _POLL + evidence.settings.slack
    late = [each for each in unhindered(evidence) if each.seconds > most]
    if not late:
        return []
    room = Room(evidence)
    return [
        Violation(
            "I20",
            f"firing {each.take.firing} of {each.take.trigger} waited {each.seconds:.2f} s in a calm time",
            slice_of(evidence, firings=(each.take.firing,)),
        )
        for each in late
        if room.longest(each.take.begin.mono - each.seconds, each.take.begin.mono) > most
    ]


def _hindrances(evidence: Evidence) -> Callable[[float, float], bool]:
    """Whether a time touches a fault, or the settling after one."""
    settling = min(2 * evidence.settings.lease, 4.0) + 3
    # A node's wrong clock must not hinder anything.
    spans = [(spell.began, spell.ended + settling) for spell in evidence.spells if spell.kind != "clock"]
    for process in evidence.processes:
        spans.append((process.started - 1, evidence.working_from(process) + settling))
        spans.append((process.ended, process.ended + settling))
    spans += _stalls(evidence)
    spans.sort()

    def touches(first: float, last: float) -> bool:
        return any(began <= last and ended >= first for began, ended in spans)

    return touches


def _stalls(evidence: Evidence) -> list[tuple[float, float]]:
    """Times in which even the harness did not run: the machine had other work."""
    ticks: list[dict[str, Any]] = evidence.said("tick")
    return [
        (before["mono"], after["mono"] + 1)
        for before, after in pairwise(ticks)
        if after["mono"] - before["mono"] > 1.5
    ]
