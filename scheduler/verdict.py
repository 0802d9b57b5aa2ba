"""The pure judgement of an outcome: done, due again at an instant, or ended for good, and why (DESIGN §8)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from ..triggers.duration import format_duration
from ..triggers.error_names import matches
from ..triggers.instant import SECOND, rfc3339
from ..triggers.retry import DISCARD, PAUSE_TRIGGER, SUPERSEDED, RetryPolicy, retry_fits
from .errors import RetryAfter
from .outcome import CANCELLED, INTERRUPTED, LOST, SUCCEEDED, Outcome

MOST_REFIRES: Final = 10
"""How often RetryNow runs one firing again; after that it is a failure like any other."""

GIVEN_UP: Final = "given up"
EXHAUSTED: Final = "retries exhausted"
"""How `judge` begins the note of a firing whose retries are used up; its trail knows it by that."""

State = Literal["succeeded", "failed", "cancelled", "lost", "due"]


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """What a judgement needs to know of an ended attempt besides its outcome; instants are microseconds."""

    attempt: int
    """0 for the first run, n for the n-th retry."""
    failed_at: int
    """When the body ended."""
    refires: int = 0
    """How often RetryNow has run this firing again."""
    next_at: int | None = None
    """The slot after the firing's own, as its decision wrote it; None where there is none."""
    retry_until: int | None = None
    """The trigger's end; a retry may land on it, not after it."""
    first_started_at: int | None = None
    """When the firing's first run began: give_up_after is measured from here."""
    request_recovery: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of the firing. `due`: it runs again at `run_at`; the other states are final."""

    state: State
    why: str
    """In words, for the attempt's record and the log."""
    run_at: int | None = None
    retry: bool = False
    """Due again as a retry: its attempt number goes up by one."""
    refire: bool = False
    """Due again at once by RetryNow: its count of refires goes up by one."""
    dropped: str | None = None
    """Why a retry that was left was not made: superseded, after end, given up."""
    pause_trigger: bool = False


def judge(
    outcome: Outcome, ended: EndedAttempt, *, policy: RetryPolicy | None, random: Callable[[], float]
) -> Verdict:
    """What follows from `outcome`; `policy` is the one found at failure time, None where there is none."""
    if outcome.kind == SUCCEEDED:
        return Verdict("succeeded", "succeeded")
    if outcome.kind == CANCELLED:
        return Verdict("cancelled", f"cancelled: {outcome.error_message or 'on request'}")
    if outcome.kind in (INTERRUPTED, LOST):
        return _broken_off(outcome, ended)
    if outcome.permanent:
        return Verdict("failed", f"permanent: {_brief(outcome)}")
    if outcome.retry_now and ended.refires < MOST_REFIRES:
        return _refire(outcome, ended, policy)
    if policy is None:
        return Verdict("failed", f"no retry policy: {_brief(outcome)}")
    if not _asks(outcome) and not policy.retries(outcome.error_classes):
        return Verdict("failed", f"not retried by retry_on or no_retry_on: {_brief(outcome)}")
    if ended.attempt >= policy.max_retries:
        return _exhausted(policy, f"retries exhausted after {ended.attempt}: {_brief(outcome)}")
    return _retry(outcome, ended, policy, random)


def _broken_off(outcome: Outcome, ended: EndedAttempt) -> Verdict:
    """Not the job's fault: no retry is burnt, and it is due for others where the job asked for recovery."""
    why = f"{outcome.kind}: {outcome.error_message or 'no reason given'}"
    if ended.request_recovery:
        return Verdict("due", f"{why}; due again for any node", run_at=ended.failed_at)
    if outcome.kind == LOST:
        return Verdict("lost", f"{why}; the job does not ask for recovery")
    return Verdict("cancelled", f"{why}; the job does not ask for recovery")


def _refire(outcome: Outcome, ended: EndedAttempt, policy: RetryPolicy | None) -> Verdict:
    if policy is not None and _too_late(policy, ended, ended.failed_at):
        return _given_up(policy, outcome)
    why = f"run again at once, {ended.refires + 1} of {MOST_REFIRES}: {_brief(outcome)}"
    return Verdict("due", why, run_at=ended.failed_at, refire=True)


def _asks(outcome: Outcome) -> bool:
    """Whether the job itself asked to be retried; what a server says of when is subject to the policy's filters."""
    return outcome.retry_after is not None and matches((RetryAfter.__name__,), outcome.error_classes)


def _retry(
    outcome: Outcome, ended: EndedAttempt, policy: RetryPolicy, random: Callable[[], float]
) -> Verdict:
    number = ended.attempt + 1
    delay = outcome.retry_after
    if delay is None:
        delay = policy.delay_of(number, random=random)
    retry_at = ended.failed_at + delay
    misfit = retry_fits(retry_at, next_at=ended.next_at, end_at=ended.retry_until)
    if misfit is not None:
        limit, word = (ended.next_at, "by the slot at") if misfit == SUPERSEDED else (ended.retry_until, "at")
        place = "" if limit is None else f" {word} {rfc3339(limit)}"
        return Verdict("failed", f"retry dropped: {misfit}{place}: {_brief(outcome)}", dropped=misfit)
    if _too_late(policy, ended, retry_at):
        return _given_up(policy, outcome)
    why = f"retry {number} of {policy.max_retries} in {_wait(delay)}: {_brief(outcome)}"
    return Verdict("due", why, run_at=retry_at, retry=True)


def _too_late(policy: RetryPolicy, ended: EndedAttempt, at: int) -> bool:
    if policy.give_up_after is None or ended.first_started_at is None:
        return False
    return at > ended.first_started_at + policy.give_up_after


def _given_up(policy: RetryPolicy, outcome: Outcome) -> Verdict:
    after = format_duration(policy.give_up_after or 0)
    return _exhausted(policy, f"given up {after} after the first start: {_brief(outcome)}", dropped=GIVEN_UP)


def _exhausted(policy: RetryPolicy, why: str, *, dropped: str | None = None) -> Verdict:
    """The end that the policy chose for when its retries are used up."""
    if policy.on_exhausted == DISCARD:
        return Verdict("cancelled", f"discarded: {why}", dropped=dropped)
    pause = policy.on_exhausted == PAUSE_TRIGGER
    return Verdict("failed", why, dropped=dropped, pause_trigger=pause)


def _brief(outcome: Outcome) -> str:
    """The error in one short line: `ValueError: boom`."""
    lines = (outcome.error_message or "").strip().splitlines()
    text = lines[0] if lines else ""
    if len(text) > 200:
        text = f"{text[:200]}…"
    return (
        f"{outcome.error_type}: {text}"
        if outcome.error_type and text
        else outcome.error_type or text or outcome.kind
    )


def _wait(delay: int) -> str:
    """A delay as people want it told: jitter's fractions left out."""
    unit = SECOND if delay >= 10 * SECOND else 1000
    return format_duration(round(delay / unit) * unit)
