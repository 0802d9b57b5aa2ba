"""What follows from an outcome: retries in their order, what ends them, and what is not a failure at all."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qsched.scheduler.errors import JobCancelled, PermanentError, RetryAfter, RetryNow
from qsched.scheduler.outcome import KINDS, Outcome
from qsched.scheduler.verdict import MOST_REFIRES, EndedAttempt, Verdict, judge
from qsched.triggers.instant import DAY, HOUR, MINUTE, SECOND
from qsched.triggers.retry import ON_EXHAUSTED, RetryPolicy

FIVE = 5 * HOUR
"""05:00, the slot of the firings here."""

BOOM = Outcome.of_exception(ValueError("boom"))
FIRST = EndedAttempt(attempt=0, failed_at=FIVE)
THREE = RetryPolicy.exponential(3, "2s", 2.0)

middle: Callable[[], float] = lambda: 0.5  # noqa: E731


class OutOfStock(PermanentError):
    """A job's own permanent error."""


def judged(outcome: Outcome, ended: EndedAttempt = FIRST, policy: RetryPolicy | None = THREE) -> Verdict:
    return judge(outcome, ended, policy=policy, random=middle)


def runs(policy: RetryPolicy | None, *, next_at: int | None = None, until: int | None = None) -> list[int]:
    """When the runs of a job that always fails at once begin, in seconds after its slot."""
    ended = EndedAttempt(0, FIVE, next_at=next_at, retry_until=until, first_started_at=FIVE)
    started = [0]
    while (verdict := judged(BOOM, ended, policy)).run_at is not None:
        assert (verdict.state, verdict.retry) == ("due", True)
        started.append((verdict.run_at - FIVE) // SECOND)
        ended = replace(ended, attempt=ended.attempt + 1, failed_at=verdict.run_at)
    return started


def test_a_success_is_done() -> None:
    assert judged(Outcome.success("42 rows")).state == "succeeded"


def test_without_a_policy_a_failure_is_final() -> None:
    verdict = judged(BOOM, policy=None)
    assert (verdict.state, verdict.run_at, verdict.pause_trigger) == ("failed", None, False)
    assert verdict.why == "no retry policy: ValueError: boom"


def test_three_retries_are_at_most_four_runs() -> None:
    assert runs(RetryPolicy.exponential(3, "1m", 2.0)) == [0, 60, 180, 420]
    assert runs(THREE) == [0, 2, 6, 14]
    assert runs(RetryPolicy.explicit(["2s", "5s", "10s"])) == [0, 2, 7, 17]
    assert runs(RetryPolicy.none()) == [0]
    assert runs(None) == [0]


def test_a_retry_is_counted_from_the_failure_and_says_why() -> None:
    verdict = judged(BOOM, EndedAttempt(attempt=1, failed_at=FIVE + 90 * SECOND))
    assert verdict == Verdict(
        "due", "retry 2 of 3 in 4s: ValueError: boom", run_at=FIVE + 94 * SECOND, retry=True
    )


def test_used_up_retries_end_the_firing_and_leave_its_trigger_alone() -> None:
    verdict = judged(BOOM, replace(FIRST, attempt=3))
    assert (verdict.state, verdict.pause_trigger) == ("failed", False)
    assert verdict.why == "retries exhausted after 3: ValueError: boom"


def test_exhaustion_discards_or_pauses_where_the_policy_says_so() -> None:
    last = replace(FIRST, attempt=1)
    discarded = judged(BOOM, last, RetryPolicy.fixed(1, "2s", on_exhausted="discard"))
    assert (discarded.state, discarded.pause_trigger) == ("cancelled", False)
    assert discarded.why.startswith("discarded: retries exhausted")
    paused = judged(BOOM, last, RetryPolicy.fixed(1, "2s", on_exhausted="pause_trigger"))
    assert (paused.state, paused.pause_trigger) == ("failed", True)


@pytest.mark.parametrize(
    ("gap", "dropped"),
    [(3 * SECOND + 1, None), (3 * SECOND, "superseded"), (2 * SECOND, "superseded"), (SECOND, "superseded")],
)
def test_a_retry_never_displaces_the_next_slot(gap: int, dropped: str | None) -> None:
    verdict = judged(BOOM, replace(FIRST, next_at=FIVE + gap))
    assert verdict.dropped == dropped
    assert verdict.state == ("due" if dropped is None else "failed")


def test_a_dropped_retry_names_the_slot_that_superseded_it() -> None:
    why = judged(BOOM, replace(FIRST, next_at=FIVE + SECOND)).why
    assert why == "retry dropped: superseded by the slot at 1970-01-01T05:00:01Z: ValueError: boom"


def test_a_retry_may_land_on_the_end_and_not_after_it() -> None:
    assert judged(BOOM, replace(FIRST, retry_until=FIVE + 2 * SECOND)).state == "due"
    late = judged(BOOM, replace(FIRST, retry_until=FIVE + 2 * SECOND - 1))
    assert (late.state, late.dropped) == ("failed", "after end")


def test_a_daily_trigger_retries_and_is_whole_again_the_next_day() -> None:
    policy = RetryPolicy.exponential(3, "60s", 2.0)
    assert runs(policy, next_at=FIVE + DAY) == [0, 60, 180, 420]


def test_a_minute_trigger_drops_the_retry_that_would_meet_its_next_slot() -> None:
    policy = RetryPolicy.exponential(3, "20s", 2.0)
    assert runs(policy, next_at=FIVE + MINUTE) == [0, 20]


def test_a_one_shot_that_fails_is_retried_and_never_in_a_hot_loop() -> None:
    assert runs(RetryPolicy.fixed(2, "10s"), next_at=None) == [0, 10, 20]


def test_giving_up_is_measured_from_the_first_start() -> None:
    policy = RetryPolicy.fixed(10, "1m", give_up_after="3m")
    assert runs(policy) == [0, 60, 120, 180]
    verdict = judged(BOOM, EndedAttempt(3, FIVE + 3 * MINUTE, first_started_at=FIVE), policy)
    assert verdict.dropped == "given up"
    assert verdict.why == "given up 3m after the first start: ValueError: boom"


@pytest.mark.parametrize("error", [PermanentError("no such order"), OutOfStock("none left")])
def test_a_permanent_error_is_never_retried(error: PermanentError) -> None:
    verdict = judged(Outcome.of_exception(error))
    assert (verdict.state, verdict.run_at) == ("failed", None)
    assert verdict.why == f"permanent: {type(error).__name__}: {error}"


def test_filters_say_which_errors_are_retried() -> None:
    only_network = RetryPolicy.fixed(3, "2s", retry_on=[ConnectionError])
    assert judged(Outcome.of_exception(ConnectionResetError()), policy=only_network).retry
    refused = judged(BOOM, policy=only_network)
    assert (refused.state, refused.retry) == ("failed", False)
    assert "retry_on" in refused.why
    assert not judged(BOOM, policy=RetryPolicy.fixed(3, "2s", no_retry_on=["ValueError"])).retry


def test_a_timeout_is_a_failure_that_filters_know_as_timeout_error() -> None:
    timeout = Outcome.timeout(10 * MINUTE)
    assert judged(timeout).retry
    assert not judged(timeout, policy=RetryPolicy.fixed(3, "2s", no_retry_on=["TimeoutError"])).retry
    assert judged(timeout, policy=None).why == (
        "no retry policy: TimeoutError: ran longer than its timeout of 10m"
    )


def test_retry_after_names_its_own_delay_and_counts_as_a_retry() -> None:
    asked = Outcome.of_exception(RetryAfter(30))
    policy = RetryPolicy.fixed(2, "2s", max_delay="5s", retry_on=[ConnectionError])
    verdict = judged(asked, policy=policy)
    assert (verdict.run_at, verdict.retry) == (FIVE + 30 * SECOND, True)
    assert judged(asked, replace(FIRST, attempt=2), policy).state == "failed"
    assert judged(asked, replace(FIRST, next_at=FIVE + 31 * SECOND), policy).dropped == "superseded"


def test_what_a_server_says_of_when_does_not_say_whether() -> None:
    asked = Outcome("failed", "HttpStatus", "429", error_classes=("http.429",), retry_after=30 * SECOND)
    assert judged(asked, policy=RetryPolicy.fixed(2, "2s")).run_at == FIVE + 30 * SECOND
    assert not judged(asked, policy=RetryPolicy.fixed(2, "2s", no_retry_on=["http.429"])).retry
    assert not judged(asked, policy=RetryPolicy.fixed(2, "2s", retry_on=["http.503"])).retry


def test_a_servers_retry_after_says_when_and_the_filters_say_whether() -> None:
    answer = replace(Outcome.failure("http.503", "busy"), retry_after=30 * SECOND)
    assert (
        judged(answer, policy=RetryPolicy.fixed(1, "2s", retry_on=["transient"])).run_at == FIVE + 30 * SECOND
    )
    assert not judged(answer, policy=RetryPolicy.fixed(1, "2s", retry_on=["ValueError"])).retry
    assert not judged(answer, policy=RetryPolicy.fixed(1, "2s", no_retry_on=["transient"])).retry


def test_retry_now_runs_again_at_once_and_burns_no_retry() -> None:
    asked = Outcome.of_exception(RetryNow("stale token"))
    verdict = judged(asked, policy=None)
    assert (verdict.state, verdict.run_at, verdict.retry, verdict.refire) == ("due", FIVE, False, True)
    assert verdict.why == "run again at once, 1 of 10: RetryNow: stale token"


def test_retry_now_is_capped_and_then_a_failure_like_any_other() -> None:
    asked = Outcome.of_exception(RetryNow())
    assert judged(asked, replace(FIRST, refires=MOST_REFIRES - 1)).refire
    spent = judged(asked, replace(FIRST, refires=MOST_REFIRES))
    assert (spent.refire, spent.retry, spent.run_at) == (False, True, FIVE + 2 * SECOND)
    assert judged(asked, replace(FIRST, refires=MOST_REFIRES), None).state == "failed"


def test_retry_now_ends_when_the_policy_gives_up() -> None:
    policy = RetryPolicy.fixed(1, "2s", give_up_after="1m")
    late = EndedAttempt(0, FIVE + 2 * MINUTE, first_started_at=FIVE)
    assert judged(Outcome.of_exception(RetryNow()), late, policy).dropped == "given up"


def test_a_shutdown_is_no_failure_and_burns_no_retry() -> None:
    interrupted = Outcome.of_exception(JobCancelled("shutdown"))
    recoverable = judged(interrupted, replace(FIRST, attempt=3, request_recovery=True))
    assert (recoverable.state, recoverable.run_at) == ("due", FIVE)
    assert not recoverable.retry
    assert not recoverable.refire
    assert judged(interrupted).state == "cancelled"


def test_an_attempt_that_was_lost_is_due_again_only_where_the_job_asked_for_it() -> None:
    lost = Outcome.lost("node n1 is gone")
    assert judged(lost, replace(FIRST, request_recovery=True)).state == "due"
    assert judged(lost).state == "lost"


def test_a_cancelled_firing_is_not_retried() -> None:
    verdict = judged(Outcome.cancelled("stopped by ada"))
    assert (verdict.state, verdict.why) == ("cancelled", "cancelled: stopped by ada")


def test_the_reason_is_one_short_line() -> None:
    why = judged(Outcome.of_exception(ValueError("first\nsecond " + "x" * 5000))).why
    assert why == "retry 1 of 3 in 2s: ValueError: first"
    assert len(judged(Outcome.of_exception(ValueError("x" * 5000))).why) < 300


def test_a_jittered_delay_is_told_without_its_fractions() -> None:
    policy = RetryPolicy(3, delay=12_345_678)
    assert judged(BOOM, policy=policy).why == "retry 1 of 3 in 12s: ValueError: boom"


outcomes = st.one_of(
    st.builds(Outcome, kind=st.sampled_from(KINDS), retry_now=st.booleans(), permanent=st.booleans()),
    st.builds(Outcome, kind=st.just("failed"), retry_after=st.integers(0, DAY)),
)
instants = st.integers(0, 100 * DAY)
attempts = st.builds(
    EndedAttempt,
    attempt=st.integers(0, 12),
    failed_at=instants,
    refires=st.integers(0, 12),
    next_at=st.none() | instants,
    retry_until=st.none() | instants,
    first_started_at=st.none() | instants,
    request_recovery=st.booleans(),
)
policies = st.none() | st.builds(
    RetryPolicy,
    max_retries=st.integers(0, 10),
    delay=st.integers(1, HOUR),
    jitter=st.floats(0, 1),
    give_up_after=st.none() | st.integers(1, DAY),
    on_exhausted=st.sampled_from(ON_EXHAUSTED),
)


@given(outcomes, attempts, policies, st.floats(0, 1, exclude_max=True))
def test_a_verdict_keeps_its_promises_for_any_outcome(
    outcome: Outcome, ended: EndedAttempt, policy: RetryPolicy | None, drawn: float
) -> None:
    verdict = judge(outcome, ended, policy=policy, random=lambda: drawn)
    assert (verdict.run_at is not None) is (verdict.state == "due")
    assert not (verdict.retry and verdict.refire)
    if verdict.run_at is not None:
        assert verdict.run_at >= ended.failed_at
    if verdict.retry:
        assert policy is not None
        assert verdict.run_at is not None
        assert ended.attempt < policy.max_retries
        assert ended.next_at is None or verdict.run_at + SECOND < ended.next_at
        assert ended.retry_until is None or verdict.run_at <= ended.retry_until
    if verdict.pause_trigger or verdict.dropped:
        assert verdict.state in ("failed", "cancelled")
    assert (verdict.state == "succeeded") is (outcome.kind == "succeeded")
