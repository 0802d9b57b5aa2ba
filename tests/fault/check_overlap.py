"""One at a time: running rows of a no-overlap job never overlap, and its bodies only where nothing could prevent it."""

from itertools import pairwise

from .check_fences import CUTS, OUTAGES, STOPS, hogged
from .evidence import Body, Evidence
from .runs import Take, takes_of, verdicts_of
from .violation import Violation, slice_of

_TELLING = 0.5
"""Seconds in which a body that is told to stop has stopped."""


def check_overlap(evidence: Evidence) -> list[Violation]:
    """I6 and I16."""
    takes = takes_of(evidence)
    found: list[Violation] = []
    for job in evidence.jobs.values():
        if job.overlap != "allow":
            found += _rows(evidence, [take for take in takes if take.job == job.name])
            found += _bodies(evidence, [body for body in evidence.bodies if body.job == job.name])
    return found


def _rows(evidence: Evidence, takes: list[Take]) -> list[Violation]:
    """I6, by the order of the database itself."""
    found = []
    for before, after in pairwise(sorted(takes, key=lambda take: take.begin.seq)):
        if before.end is None or before.end.seq > after.begin.seq:
            text = f"firings {before.firing}/{before.fence} and {after.firing}/{after.fence} of {before.job} run at once"
            found.append(Violation("I6", text, slice_of(evidence, firings=(before.firing, after.firing))))
    return found


def _bodies(evidence: Evidence, bodies: list[Body]) -> list[Violation]:
    """I16: the older one's node was stopped, or it was cut off and its body deaf; a process is never excused."""
    found = []
    ordered = sorted(bodies, key=lambda body: body.began)
    for n, younger in enumerate(ordered):
        for older in ordered[max(0, n - 12) : n]:
            if older.until <= younger.began or excused(evidence, older, younger):
                continue
            text = (
                f"bodies of {older.firing}/{older.fence} and {younger.firing}/{younger.fence} of {older.job}"
                f" overlap by {min(older.until, younger.until) - younger.began:.3f} s"
            )
            found.append(Violation("I16", text, slice_of(evidence, firings=(older.firing, younger.firing))))
    return found


def excused(evidence: Evidence, older: Body, younger: Body) -> bool:
    """Whether nothing in the world could have stopped the older body in time."""
    job = evidence.jobs[older.job]
    if job.process:
        return False
    take = next((take for take in takes_of(evidence) if take.key == (older.firing, older.fence)), None)
    if take is None or take.incarnation not in verdicts_of(evidence):
        return False  # its node was never declared dead: nobody had the right
    home = evidence.process_of(take.incarnation)
    if home is None:
        return False
    first, last = older.began - evidence.settings.lease, younger.began
    beside = [
        spell
        for spell in evidence.of_kinds(*STOPS, *CUTS, *OUTAGES)
        if (spell.target == home.node or spell.kind in OUTAGES)
        and spell.began <= last
        and spell.ended >= first
    ]
    if hogged(evidence, home, first, last) or any(spell.kind in STOPS for spell in beside):
        return True
    return bool(beside) and bool(job.data.get("deaf"))
