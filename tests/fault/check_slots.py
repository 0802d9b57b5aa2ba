"""One decision per slot: every slot of the oracle lies in exactly one row, and each decision is what its policy says."""

from collections import defaultdict
from typing import Any

from .evidence import Change, Evidence
from .slot_oracle import SECOND, Slots
from .violation import Violation, slice_of
from .workload import POISONED

SLACK = 5 * SECOND
"""µs before the end of a run in which a slot may still be undecided."""
_ASK_FOR = ("schedule", "misfire", "paused", "edited", "error")


def check_slots(evidence: Evidence) -> list[Violation]:
    """I1 and I2: each slot covered once; no row for what is no slot; no two rows for one."""
    ending = evidence.moment("ending")
    assert ending is not None, "the run has no end"
    slots = Slots(evidence, ending["wall"] - SLACK)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in evidence.final["firings"]:
        if row["trigger_id"] is not None:
            rows[row["trigger_name"]].append(row)
    found: list[Violation] = []
    for key in slots:
        if key == POISONED:
            rows.pop(key, None)
            continue  # which slots a definition has that cannot be read, nobody knows
        found += _covered(
            evidence, slots, key, sorted(rows.pop(key, []), key=lambda row: row["scheduled_at"])
        )
    found += [Violation("I1", f"rows of a trigger that nobody declared: {key}") for key in rows]
    return found + _requests(evidence)


def _covered(evidence: Evidence, slots: Slots, key: str, rows: list[dict[str, Any]]) -> list[Violation]:
    found: list[Violation] = []
    decided: dict[int, int] = {}
    for row in rows:
        first, last = row["first_scheduled_at"], row["scheduled_at"]
        within = slots.within(key, first, last)
        if last > slots.last:
            pass  # it reaches beyond the end that is looked at
        elif not within or within[0] != first or within[-1] != last:
            found.append(
                _wrong(evidence, "I1", f"{key}: a row from {first} to {last}, which are no slots", row)
            )
        elif row["covers"] != len(within):
            text = f"{key}: a row says that it covers {row['covers']} slots, and there are {len(within)}"
            found.append(_wrong(evidence, "I1", text, row))
        for slot in within:
            if slot in decided:
                text = f"{key}: slot {slot} is decided twice, in firings {decided[slot]} and {row['id']}"
                found.append(Violation("I2", text, slice_of(evidence, firings=(decided[slot], row["id"]))))
            decided[slot] = row["id"]
        if row["reason"] not in _ASK_FOR:
            found.append(_wrong(evidence, "I1", f"{key}: a slot's row with reason {row['reason']}", row))
    for slot in slots.of(key):
        if slot not in decided:
            near = [row["id"] for row in rows if abs(row["scheduled_at"] - slot) <= 3 * SECOND]
            mono = evidence.hands.mono(slot)
            around = slice_of(evidence, firings=near, around=(mono - 3, mono + 5))
            found.append(Violation("I1", f"{key}: slot {slot} was never decided", around))
    return found


def _wrong(evidence: Evidence, rule: str, text: str, row: dict[str, Any]) -> Violation:
    return Violation(rule, f"{text} (firing {row['id']})", slice_of(evidence, firings=(row["id"],)))


def _requests(evidence: Evidence) -> list[Violation]:
    """I2 for what was asked by hand: one firing a request, and the one that was answered."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row in evidence.final["firings"]:
        if row["request_key"] is not None:
            rows[row["request_key"]].append(row["id"])
    found = []
    for line in evidence.said("answered"):
        request = line.get("request")
        if request is not None and rows.get(request, []) != [line["firing"]]:
            text = (
                f"{request} was answered with firing {line['firing']}, and there are {rows.get(request, [])}"
            )
            found.append(Violation("I2", text))
    return found


# -- the misfire's choice ----------------------------------------------------------------------------------------------


def check_misfires(evidence: Evidence) -> list[Violation]:
    """I15: what was decided of a trigger's undecided slots is what its policy says of that lateness."""
    decisions: dict[tuple[str, int], list[Change]] = defaultdict(list)
    for change in evidence.of_table["firings"]:
        if change.op == "INSERT" and change.row["trigger_id"] is not None:
            decisions[change.row["trigger_name"], change.row["noticed_at"]].append(change)
    found: list[Violation] = []
    for (key, noticed), rows in decisions.items():
        facts = evidence.triggers.get(key)
        if facts is None or evidence.jobs[facts.job].overlap != "allow":
            continue
        rows = [row for row in rows if row.row["reason"] in ("schedule", "misfire")]
        if rows:
            late = noticed - min(row.row["first_scheduled_at"] for row in rows)
            wrong = _misjudged(facts.policy, late > facts.threshold * SECOND, rows)
            if wrong is not None:
                ids = [row.row["id"] for row in rows]
                text = f"{key}: {late / SECOND:.3f} s late under {facts.policy}, and {wrong}"
                found.append(Violation("I15", text, slice_of(evidence, firings=ids)))
    return found


def _misjudged(policy: str, misfired: bool, rows: list[Change]) -> str | None:
    """What is wrong with the rows of one decision; None where nothing is."""
    runs = [row for row in rows if row.row["state"] != "skipped"]
    alone = all(row.row["covers"] == 1 for row in rows)
    reasons = {row.row["reason"] for row in rows}
    if not misfired:
        return None if alone and len(runs) == len(rows) and reasons == {"schedule"} else "it was no misfire"
    if reasons != {"misfire"}:
        return "it is no misfire in the ledger"
    if policy == "fire_once":
        return None if len(rows) == len(runs) == 1 else "it is not one firing for all"
    if policy == "skip":
        return None if len(rows) == 1 and not runs else "it is not one skipped row"
    return None if alone and len(runs) == len(rows) else "not each of them runs"
