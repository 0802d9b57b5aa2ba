"""Who may write: nobody after its verdict, each end by the one who ran it, and no verdict on a healthy node."""

from itertools import pairwise

from .evidence import Evidence, Process
from .runs import FINAL, Take, Verdict, outcome_of, takes_of, verdicts_of
from .violation import Violation, slice_of

_SAME = 0.05
"""Seconds that two clocks' readings of one moment may differ."""
_BY_ITSELF = frozenset({"succeeded", "failed", "timed_out", "cancelled", "interrupted"})


def check_fences(evidence: Evidence) -> list[Violation]:
    """I3, I4, I14 and I17."""
    takes, verdicts = takes_of(evidence), verdicts_of(evidence)
    found = _after_death(evidence, takes, verdicts)
    found += _final_states(evidence)
    found += _verdicts(evidence, verdicts)
    for take in takes:
        found += _ends(evidence, take, verdicts)
    return found


def _after_death(evidence: Evidence, takes: list[Take], verdicts: dict[int, Verdict]) -> list[Violation]:
    """I3: what was declared dead takes nothing, and does not check in, any more."""
    found = []
    for take in takes:
        verdict = verdicts.get(take.incarnation)
        if verdict is not None and take.begin.seq > verdict.change.seq:
            text = f"incarnation {take.incarnation} took firing {take.firing}/{take.fence} after its verdict"
            shown = slice_of(evidence, firings=(take.firing,), incarnations=(take.incarnation,))
            found.append(Violation("I3", text, shown))
    for incarnation, verdict in verdicts.items():
        for version in evidence.of_node[incarnation]:
            if version.seq > verdict.change.seq and version.row["state"] != "dead":
                text = f"incarnation {incarnation} came back from the dead as {version.row['state']}"
                found.append(Violation("I3", text, slice_of(evidence, incarnations=(incarnation,))))
    return found


def _final_states(evidence: Evidence) -> list[Violation]:
    """I4: a final state is final."""
    found = []
    for firing, versions in evidence.of_firing.items():
        for before, after in pairwise(versions):
            if before.row["state"] in FINAL and after.row["state"] != before.row["state"]:
                text = f"firing {firing} was {before.row['state']} and became {after.row['state']}"
                found.append(Violation("I4", text, slice_of(evidence, firings=(firing,))))
    return found


def _ends(evidence: Evidence, take: Take, verdicts: dict[int, Verdict]) -> list[Violation]:
    """I4 and I17 for one take: its body and its row tell the same story."""
    bodies = evidence.body_of.get(take.key, [])
    outcome = outcome_of(evidence, take)
    if len(bodies) > 1:
        return [_say(evidence, "I2", take, f"has {len(bodies)} bodies")]
    how = bodies[0].how if bodies else None
    if outcome == "succeeded" and how != "ok":
        return [_say(evidence, "I4", take, f"is succeeded, and its body ended {how or 'never'}")]
    if outcome == "failed" and how not in ("raised", "exit"):
        return [_say(evidence, "I4", take, f"is failed, and its body ended {how or 'never'}")]
    if outcome == "released" and bodies:
        return [_say(evidence, "I4", take, "was released, and its body had begun")]
    writer = _writer(evidence, take, outcome)
    if writer is not None:
        return [_say(evidence, "I4", take, f"was ended as {outcome} by {writer}")]
    if how in ("ok", "raised", "exit") and take.incarnation not in verdicts:
        return _kept(evidence, take, how, outcome)
    return []


def _kept(evidence: Evidence, take: Take, how: str, outcome: str | None) -> list[Violation]:
    """I17: the end of a body on a node that was never declared dead, and lived on, is what the row says."""
    wanted = "succeeded" if how == "ok" else "failed"
    process = evidence.process_of(take.incarnation)
    body = evidence.body_of[take.key][0]
    if outcome == wanted or body.told is not None or _asked_to_stop(evidence, take):
        return []
    if (
        process is not None
        and process.ended < (take.end.mono if take.end is not None else float("inf")) + _SAME
    ):
        return []  # it was gone before it could write that
    return [_say(evidence, "I17", take, f"ended {how}, its node lived on, and its outcome is {outcome}")]


def _asked_to_stop(evidence: Evidence, take: Take) -> bool:
    return any(version.row["cancel_requested_at"] is not None for version in evidence.of_firing[take.firing])


def _writer(evidence: Evidence, take: Take, outcome: str | None) -> str | None:
    """Who wrote an end that only the one who ran it may write, if it was another; None where it was right, or unknown."""
    if outcome not in _BY_ITSELF or take.end is None or take.end.backend is None:
        return None
    writer = node_of_backend(evidence, take.end.backend, take.end.mono)
    owner = evidence.process_of(take.incarnation)
    if writer is None or owner is None or writer in (owner.node, "client"):
        return None
    return f"{writer}, and {owner.node} ran it"


def node_of_backend(evidence: Evidence, backend: int, mono: float) -> str | None:
    """Whose connection a database's backend served at this moment, as the proxies know."""
    found = None
    for line in evidence.said("connected"):
        if line["backend"] == backend and line["mono"] <= mono + _SAME:
            found = line["node"]
    return found


def _verdicts(evidence: Evidence, verdicts: dict[int, Verdict]) -> list[Violation]:
    """I14: silent only after a lease of silence, gone only what is gone (or was cut off, and could not be told apart)."""
    found = []
    for incarnation, verdict in verdicts.items():
        heard = last_heard(evidence, verdict)
        silence = verdict.change.mono - heard
        process = evidence.process_of(incarnation)
        gone = process is not None and process.ended <= verdict.change.mono + _SAME
        if gone or silence >= evidence.settings.lease - _SAME:
            continue
        if evidence.hands.stepped(heard, verdict.change.mono):
            continue
        if (
            verdict.kind == "gone"
            and process is not None
            and cut_off(evidence, process, heard, verdict.change.mono)
        ):
            continue
        text = f"incarnation {incarnation} was declared dead ({verdict.kind}) {silence:.3f} s after its last check-in"
        found.append(Violation("I14", text, slice_of(evidence, incarnations=(incarnation,))))
    return found


def last_heard(evidence: Evidence, verdict: Verdict) -> float:
    """When the incarnation's last check-in before its verdict was committed."""
    heard = evidence.of_node[verdict.incarnation][0]
    for version in evidence.of_node[verdict.incarnation]:
        if version.seq < verdict.change.seq and version.row["renew_seq"] != heard.row["renew_seq"]:
            heard = version
    return heard.mono


STOPS = ("stop_half", "stop_long", "stop_3")
CUTS = ("hold", "hold_replies", "half_close", "reset", "delay", "cut_before", "cut_after", "cut_late")
OUTAGES = ("db_restart", "db_pause", "terminate")


def cut_off(evidence: Evidence, process: Process, first: float, last: float) -> bool:
    """Whether something stood between this process and the database, or stopped it, in this time."""
    return any(
        (spell.target == process.node or spell.kind in OUTAGES)
        and spell.began <= last
        and spell.ended >= first
        for spell in evidence.of_kinds(*STOPS, *CUTS, *OUTAGES)
    ) or hogged(evidence, process, first, last)


def hogged(evidence: Evidence, process: Process, first: float, last: float) -> bool:
    """Whether a body held the process's interpreter in this time."""
    return any(
        body.job == "hog" and body.pid == process.pid and body.began <= last and body.until >= first
        for body in evidence.bodies
    )


def _say(evidence: Evidence, rule: str, take: Take, text: str) -> Violation:
    shown = slice_of(evidence, firings=(take.firing,), incarnations=(take.incarnation,))
    return Violation(rule, f"firing {take.firing}/{take.fence} of {take.trigger} {text}", shown)
