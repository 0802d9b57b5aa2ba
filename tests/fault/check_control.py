"""What people asked holds (I21), what they must not see is nowhere (I22), and no part of the house broke (I12)."""

import re
from typing import Any

from .evidence import Evidence
from .runs import takes_of
from .violation import Violation, slice_of

_COMMITTED = 0.02
_BROKEN = (
    (re.compile(r"^Traceback|^\w*Error: |.* CRITICAL "), "a node's log shows what nobody expected"),
    (re.compile(r".*(take\.failed|slots_were_decided|settle\.refused|unstorable)"), "a write was refused"),
)


def check_pauses(evidence: Evidence) -> list[Violation]:
    """I21: between the answer to a pause and the next request to resume no slot of the trigger is taken."""
    found = []
    takes = [take for take in takes_of(evidence) if take.row["reason"] in ("schedule", "misfire")]
    for key, first, last in _pauses(evidence):
        for take in takes:
            if take.trigger == key and first + _COMMITTED < take.begin.mono < last:
                text = f"{key} was paused at {first:.3f}, and firing {take.firing} was taken at {take.begin.mono:.3f}"
                found.append(Violation("I21", text, slice_of(evidence, firings=(take.firing,))))
    return found


def _pauses(evidence: Evidence) -> list[tuple[str, float, float]]:
    """(trigger, since, until) of each pause that was confirmed."""
    found = []
    since: dict[str, float] = {}
    for line in evidence.lines:
        key: str = line.get("key", "")
        if line["what"] == "answered" and line["verb"] == "pause":
            since.setdefault(key, line["mono"])
        elif line["what"] == "asked" and line["verb"] == "resume" and key in since:
            found.append((key, since.pop(key), line["mono"]))
    return found + [(key, began, float("inf")) for key, began in since.items()]


def check_secrets(evidence: Evidence) -> list[Violation]:
    """I22."""
    return [Violation("I22", f"the secret stands in {name}") for name in evidence.leaks]


def check_logs(evidence: Evidence) -> list[Violation]:
    """I12: no key was ever violated, and no node said that something broke."""
    found = []
    for name, text in evidence.logs.items():
        lines = text.splitlines()
        for number, line in enumerate(lines):
            for pattern, meaning in _BROKEN:
                if pattern.match(line):
                    found.append(
                        Violation("I12", f"{meaning}: {name}: {line[:300]}", lines[number - 2 : number + 12])
                    )
                    break
    hits = [line for line in evidence.server_log.splitlines() if "violates unique constraint" in line]
    found += [Violation("I12", f"the database refused a row: {line[:300]}") for line in hits]
    return found


def check_answers(evidence: Evidence) -> list[Violation]:
    """The customer was answered in the end."""
    return [
        Violation("I20", f"the request to {line['verb']} {line['key']} was never answered")
        for line in evidence.said("given_up")
    ]


def refusals(evidence: Evidence) -> list[dict[str, Any]]:
    """What the customer was refused."""
    return evidence.said("refused")
