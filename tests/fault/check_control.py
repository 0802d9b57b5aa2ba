"""What people asked holds (I21), what they must not see is nowhere (I22), and no part of the house broke (I12)."""

import re

from .evidence import Evidence
from .fault_elsewhere import WITHOUT
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


def check_poison(evidence: Evidence) -> list[Violation]:
    """I18: what cannot be read is in error until it is applied anew; who cannot import a job leaves it to others."""
    found = _poison(evidence)
    for take in takes_of(evidence):
        job = evidence.jobs.get(take.job)
        home = evidence.process_of(take.incarnation)
        if job is not None and job.function == "work_elsewhere" and home is not None and home.node == WITHOUT:
            text = f"firing {take.firing}/{take.fence} was taken by {WITHOUT}, which cannot import its job"
            found.append(Violation("I18", text, slice_of(evidence, firings=(take.firing,))))
    return found


def _poison(evidence: Evidence) -> list[Violation]:
    """Only the spoilt trigger is ever in error, and it is: nothing of it is taken while it is."""
    spoilt = evidence.moment("poisoned")
    key = None if spoilt is None else spoilt["key"]
    found = []
    since: dict[str, float] = {}
    for change in evidence.of_table["triggers"]:
        name = change.row["name"]
        if change.row["state"] != "error":
            found += _taken_between(evidence, name, since.pop(name, None), change.mono)
        elif name not in since:
            since[name] = change.mono
            if name != key:
                found.append(Violation("I18", f"trigger {name} is in error: {change.row['error']}"))
    for name, began in since.items():
        found += _taken_between(evidence, name, began, float("inf"))
    if key is not None and not any(
        change.row["state"] == "error" and change.row["name"] == key
        for change in evidence.of_table["triggers"]
    ):
        found.append(Violation("I18", f"trigger {key} was spoilt, and nobody noticed"))
    return found


def _taken_between(evidence: Evidence, name: str, since: float | None, until: float) -> list[Violation]:
    if since is None:
        return []
    return [
        Violation("I18", f"firing {take.firing} of {name} was decided while it was in error")
        for take in takes_of(evidence)
        if take.trigger == name
        and take.fence == 1
        and since + _COMMITTED < take.begin.mono < until
        and take.row["reason"] != "manual"
    ]


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
