"""Of a limited group no more run than its limit (I6); what a job keeps, and what follows it, is of ends that landed (I24 I25)."""

import json
from collections import Counter
from itertools import groupby
from typing import Any

from .evidence import Change, Evidence
from .runs import Take, outcome_of, takes_of
from .violation import Violation, slice_of
from .workload import COUNTED, FOLLOWERS, LIMITS

_RAN = ("succeeded", "failed", "lost")
_FOLLOWED = {"any": _RAN, "succeeded": ("succeeded",), "failed": ("failed", "lost")}


def check_limits(evidence: Evidence) -> list[Violation]:
    """I6 of groups, by the order of the database itself."""
    found = []
    for running in _running_of_groups(evidence):
        if len(running) > LIMITS["heavy"]:
            ids = [take.firing for take in running]
            text = f"firings {ids} of a group limited to {LIMITS['heavy']} run at once"
            found.append(Violation("I6", text, slice_of(evidence, firings=ids)))
    return found


def full_groups(evidence: Evidence) -> int:
    """How often a take left its group full."""
    return sum(len(running) == LIMITS["heavy"] for running in _running_of_groups(evidence))


def _running_of_groups(evidence: Evidence) -> list[list[Take]]:
    """What runs of the group behind each take of it."""
    takes = [take for take in takes_of(evidence) if take.row["limit_key"] is not None]
    found = []
    running: list[Take] = []
    for take in takes:
        running = [each for each in running if each.end is None or each.end.seq > take.begin.seq] + [take]
        found.append(running)
    return found


# -- what is kept ------------------------------------------------------------------------------------------------------


def kept(evidence: Evidence) -> list[Change]:
    """Each new text that the counting job keeps, in order."""
    versions = [
        change
        for change in evidence.of_table["jobs"]
        if change.row["name"] == COUNTED and change.row["saved_data"] is not None
    ]
    return [next(same) for _, same in groupby(versions, key=lambda change: change.row["saved_data"])]


def check_saved(evidence: Evidence) -> list[Violation]:
    """I24: one more each time, by a run whose end landed; and no end that landed is left out."""
    found = []
    landed = {
        take.key: take
        for take in takes_of(evidence)
        if take.job == COUNTED and outcome_of(evidence, take) in ("succeeded", "failed")
    }
    before = 0
    for change in kept(evidence):
        said = json.loads(change.row["saved_data"])
        by = (said["by"][0], said["by"][1])
        if said["runs"] != before + 1:
            found.append(_lost(evidence, f"{before} runs were counted, and then {said['runs']}", by[0]))
        if landed.pop(by, None) is None:
            found.append(
                _lost(evidence, f"it keeps what firing {by[0]}/{by[1]} left, whose end is none", by[0])
            )
        before = said["runs"]
    found += [_lost(evidence, f"the count of firing {key[0]}/{key[1]} is lost", key[0]) for key in landed]
    return found


def _lost(evidence: Evidence, text: str, firing: int) -> Violation:
    return Violation("I24", text, slice_of(evidence, firings=(firing,)))


# -- what follows ------------------------------------------------------------------------------------------------------


def check_followers(evidence: Evidence) -> list[Violation]:
    """I25: each end that a trigger waits for has one firing of it, and nothing else has."""
    declared = {each.key for each in evidence.load.triggers if each.after == COUNTED}
    rows: dict[int, dict[str, Any]] = {row["id"]: row for row in evidence.final["firings"]}
    made = Counter(
        (row["of_firing"], row["trigger_name"]) for row in rows.values() if row["trigger_name"] in declared
    )
    wanted = {
        (row["id"], key)
        for row in rows.values()
        for key in declared
        if row["job_name"] == COUNTED and row["fence"] and row["state"] in _FOLLOWED[FOLLOWERS[key]]
    }
    found = []
    for firing, key in sorted(wanted - made.keys()):
        found.append(
            _unlike(evidence, f"{key} does not follow firing {firing} ({rows[firing]['state']})", firing)
        )
    for (firing, key), times in made.items():
        # What was cancelled may have been so before its body began: then it need not be followed.
        cancelled = firing in rows and rows[firing]["state"] == "cancelled" and FOLLOWERS[key] == "any"
        if times > 1 or ((firing, key) not in wanted and not cancelled):
            found.append(_unlike(evidence, f"{key} follows firing {firing} {times} times", firing))
    return found


def _unlike(evidence: Evidence, text: str, firing: int) -> Violation:
    return Violation("I25", text, slice_of(evidence, firings=(firing,)))
