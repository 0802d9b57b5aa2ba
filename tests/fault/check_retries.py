"""Retries are as many as declared, at their times, and never after a success (I7)."""

from .evidence import Evidence
from .runs import Take, by_firing, outcome_of, takes_of
from .violation import Violation, slice_of

_BLUR = 5_000
"""µs of rounding between the body's end and the written delay."""
_LATE = 0.2
"""Seconds that a retry's time may lie behind its delay: the end is dated when the body ended."""
_COUNTED = ("failed", "timed_out")


def check_retries(evidence: Evidence) -> list[Violation]:
    """I7."""
    found = []
    for takes in by_firing(takes_of(evidence)).values():
        wrong = _wrong(evidence, takes)
        if wrong is not None:
            text = f"firing {takes[0].firing} of {takes[0].trigger}: {wrong}"
            found.append(Violation("I7", text, slice_of(evidence, firings=(takes[0].firing,))))
    return found


def _wrong(evidence: Evidence, takes: list[Take]) -> str | None:
    job = evidence.jobs.get(takes[0].job)
    delays = job.delays if job is not None else ()
    for number, take in enumerate(takes):
        outcome, attempt = outcome_of(evidence, take), take.row["attempt"]
        later = takes[number + 1 :]
        if attempt > len(delays):
            return f"attempt {attempt}, and {len(delays)} retries are declared"
        if outcome == "succeeded" and later:
            return f"it succeeded under fence {take.fence} and was taken again"
        follows = later[0].row["attempt"] if later else None
        if follows is not None and follows != attempt + int(outcome in _COUNTED):
            return f"attempt {attempt} ended {outcome} and attempt {follows} followed"
        if outcome in _COUNTED and (early := _times(evidence, take, delays)) is not None:
            return early
        if outcome in _COUNTED and attempt < len(delays) and take.end is not None and _given_up(take):
            return f"attempt {attempt} of {len(delays)} failed, and no retry follows, for no reason"
    return None


def _times(evidence: Evidence, take: Take, delays: tuple[float, ...]) -> str | None:
    """What is wrong with the time of the retry that follows a failed take."""
    ended = evidence.ended_attempts.get(take.key)
    if ended is None:
        return None
    waits = (ended["next_run_at"] - ended["finished_at"]) / 1e6
    if take.row["attempt"] >= len(delays):
        return f"a retry follows attempt {take.row['attempt']}, and {len(delays)} are declared"
    wanted = delays[take.row["attempt"]]
    if not wanted - _BLUR / 1e6 <= waits <= wanted + _LATE:
        return f"retry {take.row['attempt'] + 1} is set {waits:.3f} s after the failure, and {wanted} s are declared"
    return None


def _given_up(take: Take) -> bool:
    assert take.end is not None
    return take.end.row["state"] == "failed" and take.end.row["retry_dropped"] is None
