"""What was lost comes back where it was asked for, in time, and nowhere else; and in the end nothing is stuck."""

from dataclasses import dataclass

from .check_fences import cut_off, last_heard
from .evidence import FOREVER, Evidence, Process
from .room import Room
from .runs import Take, Verdict, by_firing, outcome_of, takes_of, verdicts_of
from .violation import Violation, slice_of

_EDGE = 0.3
_MAX_RECOVERIES = 3
"""The default, which no job of the load changes."""


@dataclass(frozen=True)
class Takeover:
    """One firing that came back: how long after its node was gone, or heard last, it was due again, and ran."""

    take: Take
    kind: str
    """gone or silent."""
    seconds: float
    """Until it was due again."""
    waited: float
    """From then until it ran: it stands in line like everybody."""
    bound: float
    clean: bool
    """Whether nothing else was disturbed all the time: only then the formula says something."""
    disturbed: float = 0.0
    """Seconds of other faults meanwhile, each counted in full."""


def check_recovery(evidence: Evidence) -> list[Violation]:
    """I5: at most as often as asked, at least as often as asked."""
    takes, found = takes_of(evidence), []
    again = by_firing(takes)
    for take in takes:
        outcome = outcome_of(evidence, take)
        if outcome != "lost" or take.end is None:
            continue
        asked = bool(take.row["request_recovery"])
        if take.end.row["state"] == "due" and not asked:
            found.append(_say(evidence, take, "was lost and is due again, which nobody asked for"))
        if take.end.row["state"] == "lost" and asked and take.end.row["recoveries"] < _MAX_RECOVERIES:
            found.append(_say(evidence, take, f"is lost after {take.end.row['recoveries']} recoveries"))
    for firing, all_takes in again.items():
        found += _once(evidence, firing, all_takes)
    return found + _keys(evidence)


def _once(evidence: Evidence, firing: int, takes: list[Take]) -> list[Violation]:
    """At most once: without request_recovery no attempt has two bodies."""
    if takes[0].row["request_recovery"]:
        return []
    begun: dict[int, int] = {}
    for take in takes:
        for body in evidence.body_of.get(take.key, []):
            if body.attempt in begun:
                text = f"attempt {body.attempt} ran under fences {begun[body.attempt]} and {take.fence}"
                shown = slice_of(evidence, firings=(firing,))
                return [Violation("I5", f"firing {firing} asks for no recovery, and {text}", shown)]
            begun[body.attempt] = take.fence
    return []


def _keys(evidence: Evidence) -> list[Violation]:
    """Every run of a firing has the same idempotency key and slot; no two firings share a key."""
    keys: dict[int, tuple[str, int]] = {}
    owners: dict[str, int] = {}
    found = []
    for body in evidence.bodies:
        if keys.setdefault(body.firing, (body.key, body.slot)) != (body.key, body.slot):
            found.append(
                Violation("I5", f"firing {body.firing} changed its key or slot: {body.key}, {body.slot}")
            )
        if owners.setdefault(body.key, body.firing) != body.firing:
            found.append(
                Violation("I5", f"firings {owners[body.key]} and {body.firing} share the key {body.key}")
            )
    return found


# -- how long it took --------------------------------------------------------------------------------------------------


def takeovers(evidence: Evidence) -> list[Takeover]:
    """Every recovery, with the formula it stands under."""
    settings = evidence.settings
    takes, verdicts = takes_of(evidence), verdicts_of(evidence)
    again = by_firing(takes)
    found = []
    for take in takes:
        verdict = verdicts.get(take.incarnation)
        later = [other for other in again[take.firing] if other.fence > take.fence]
        if verdict is None or take.end is None or not later or outcome_of(evidence, take) != "lost":
            continue
        waits = take.row["permit_key"] is not None or take.row["limit_key"] is not None
        if waits or take.end.seq < verdict.change.seq:
            continue  # its job may be busy, its group full, or it was lost otherwise
        process = evidence.process_of(take.incarnation)
        gone = process is not None and process.ended < verdict.change.mono
        since = process.ended if gone and process is not None else last_heard(evidence, verdict)
        silent = settings.lease + 2 * settings.check_in + settings.poll
        bound = min(silent, 4 * settings.check_in + settings.poll) if gone else silent
        ready, kind = take.end.mono, "gone" if gone else "silent"
        clean = _calm(evidence, verdict, since, ready)
        began = later[0].begin.mono
        found.append(
            Takeover(
                take, kind, ready - since, began - ready, bound, clean, _disturbed(evidence, since, ready)
            )
        )
    return found


def check_takeovers(evidence: Evidence) -> list[Violation]:
    """I5 and I11: no clean takeover takes longer than its formula (and the slack of a loaded machine).

    Another may take longer by as long as the other faults lasted, and by what a rescuer that fell to one of them holds.
    """
    found = []
    slack = evidence.settings.slack
    room = Room(evidence)
    for each in takeovers(evidence):
        most = each.bound + slack
        if not each.clean:
            most += each.disturbed + 2 * evidence.settings.lease
        if each.seconds > most:
            text = f"was due again {each.seconds:.2f} s after its node was {each.kind}, and {each.bound:.2f} s are promised"
            found.append(_say(evidence, each.take, text))
        due = each.take.end.mono if each.take.end is not None else 0.0
        if each.clean and each.waited > 2.0 + slack and room.longest(due, due + each.waited) > 2.0 + slack:
            found.append(
                _say(
                    evidence, each.take, f"was due again, and waited {each.waited:.2f} s for a node with room"
                )
            )
    return found


def _disturbed(evidence: Evidence, since: float, until: float) -> float:
    """How long other faults, and starts of processes, lasted in this time, in all."""
    spans = [(spell.began, spell.ended) for spell in evidence.spells]
    spans += [(process.started, evidence.working_from(process)) for process in evidence.processes]
    return sum(max(0.0, min(ended, until) - max(began, since)) for began, ended in spans)


def _calm(evidence: Evidence, verdict: Verdict, since: float, until: float) -> bool:
    """Whether nothing but the death itself disturbed that time, and a healthy node worked through it."""
    dead = evidence.process_of(verdict.incarnation)
    for spell in evidence.spells:
        itself = spell.kind == "clock" or (dead is not None and spell.target == dead.node)
        if not itself and spell.began - _EDGE <= until and spell.ended + evidence.settings.lease >= since:
            return False
    return any(_healthy(evidence, process, since, until) for process in evidence.processes)


def _healthy(evidence: Evidence, process: Process, since: float, until: float) -> bool:
    """Whether this process worked through all that time."""
    if evidence.working_from(process) > since or process.ended < until or (process.told or FOREVER) < until:
        return False
    return not cut_off(evidence, process, since - _EDGE, until)


# -- the end -----------------------------------------------------------------------------------------------------------


def check_end(evidence: Evidence) -> list[Violation]:
    """I10: at rest nothing old is open, no permit is held, no node stands that is not there."""
    found: list[Violation] = []
    healed = evidence.moment("all_healed")
    if evidence.moment("no_rest") is not None:
        found.append(Violation("I10", "things did not come to rest after the last fault"))
    for row in evidence.final["firings"]:
        old = healed is not None and row["scheduled_at"] < healed["wall"]
        if row["state"] == "running" or (row["state"] == "due" and old):
            text = f"firing {row['id']} of {row['trigger_name']} is still {row['state']} at the end"
            found.append(Violation("I10", text, slice_of(evidence, firings=(row["id"],))))
    for row in evidence.final["permits"]:
        if row["firing_id"] is not None:
            found.append(
                Violation(
                    "I10", f"permit {row['permit_key']} is held by firing {row['firing_id']} at the end"
                )
            )
    return found + _exits(evidence)


def _exits(evidence: Evidence) -> list[Violation]:
    """No node leaves by itself, and who is told to leave does so with 0 or 8."""
    found = []
    for process in evidence.processes:
        if process.killed is not None or process.code is None or _may_leave(evidence, process):
            continue
        why = "was told to stop" if process.told is not None else "ended by itself"
        log = evidence.logs.get(process.log, "")
        found.append(
            Violation("I10", f"{process.log} {why} and left with {process.code}", log.splitlines()[-12:])
        )
    return found


def _may_leave(evidence: Evidence, process: Process) -> bool:
    if process.told is not None and process.code in (0, 8):
        return True
    if "node.ready" in evidence.logs.get(process.log, ""):
        return False
    if process.code == -15:
        return process.told is not None  # told before it could listen
    # A file that it may not write to is a person's to mend: it says so and leaves, with "store unreachable".
    denied = evidence.of_kinds("read_only")
    return process.code == 5 and any(each.began <= process.ended <= each.ended + 3 for each in denied)


def _say(evidence: Evidence, take: Take, text: str) -> Violation:
    shown = slice_of(evidence, firings=(take.firing,), incarnations=(take.incarnation,))
    return Violation("I5", f"firing {take.firing}/{take.fence} of {take.trigger} {text}", shown)
