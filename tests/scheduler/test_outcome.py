"""An outcome can be made of any exception, and its texts stored in any database."""

import asyncio
import sys
import traceback
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qsched.scheduler.errors import JobCancelled, PermanentError, RetryAfter, RetryNow, StoreUnavailable
from qsched.scheduler.outcome import MESSAGE_BYTES, TRACEBACK_BYTES, Outcome, clean, cut, middle_cut
from qsched.triggers.errors import QschedError
from qsched.triggers.instant import SECOND


class Hostile(Exception):
    """An error whose own methods raise."""

    def __str__(self) -> str:
        raise RuntimeError("no text for you")

    def __repr__(self) -> str:
        raise RuntimeError("nor this")


class Wordless(Exception):
    def __str__(self) -> str:
        return cast(str, 42)


def raised(error: BaseException) -> BaseException:
    """`error` with a traceback, as a body raises it."""
    try:
        raise error
    except BaseException as caught:
        return caught


def test_a_failure_keeps_type_message_traceback_and_classes() -> None:
    outcome = Outcome.of_exception(raised(FileNotFoundError(2, "No such file", "rates.csv")))
    assert (outcome.kind, outcome.error_type) == ("failed", "FileNotFoundError")
    assert outcome.error_message == "[Errno 2] No such file: 'rates.csv'"
    assert outcome.traceback is not None
    assert "in raised" in outcome.traceback
    assert outcome.error_classes == (
        "builtins.FileNotFoundError",
        "builtins.OSError",
        "builtins.Exception",
        "builtins.BaseException",
    )
    assert (outcome.permanent, outcome.retry_now, outcome.retry_after) == (False, False, None)


def test_the_words_a_job_raises_are_understood() -> None:
    assert Outcome.of_exception(PermanentError("no")).permanent
    assert Outcome.of_exception(RetryNow()).retry_now
    assert Outcome.of_exception(RetryAfter(1.5)).retry_after == 1_500_000
    assert Outcome.of_exception(RetryAfter(-20)).retry_after == 0


def test_a_word_alone_in_a_task_group_is_understood() -> None:
    group = ExceptionGroup("tasks", [ExceptionGroup("more", [RetryAfter(30)])])
    assert Outcome.of_exception(group).retry_after == 30 * SECOND
    both = Outcome.of_exception(ExceptionGroup("tasks", [ValueError(), KeyError()]))
    assert both.error_type == "ExceptionGroup"


@pytest.mark.parametrize("seconds", ["30", None, float("nan"), float("inf"), True])
def test_retry_after_refuses_what_is_no_number_of_seconds(seconds: object) -> None:
    with pytest.raises(ValueError, match="number of seconds"):
        RetryAfter(seconds)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("shutdown", "interrupted"), ("timeout", "timed_out"), ("lease_lost", "lost"), ("by ada", "cancelled")],
)
def test_a_body_that_was_told_to_stop_ends_as_the_reason_says(reason: str, kind: str) -> None:
    assert Outcome.of_exception(JobCancelled(reason)).kind == kind
    assert Outcome.of_exception(asyncio.CancelledError(), cancel_reason=reason).kind == kind


def test_an_asyncio_cancellation_that_nobody_asked_for_is_a_failure() -> None:
    assert Outcome.of_exception(asyncio.CancelledError()).kind == "failed"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_a_body_raises_is_a_failure(error: BaseException) -> None:
    assert Outcome.of_exception(error).kind == "failed"


@pytest.mark.parametrize("error", [Hostile(), Wordless()])
def test_an_error_whose_own_methods_raise_is_told_all_the_same(error: Exception) -> None:
    outcome = Outcome.of_exception(raised(error))
    assert outcome.error_type == type(error).__name__
    assert outcome.error_message is not None
    assert outcome.error_message.startswith("<its text cannot be shown")
    assert outcome.traceback


def test_an_error_that_cannot_be_formatted_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(error: BaseException) -> list[str]:
        raise RecursionError

    monkeypatch.setattr(traceback, "format_exception", broken)
    outcome = Outcome.of_exception(ValueError("boom"))
    assert outcome.traceback == "<the traceback cannot be shown: formatting it raised RecursionError>"


def test_a_deep_recursion_leaves_head_and_tail() -> None:
    def deeper(n: int) -> None:
        if n % 2:
            deeper(n - 1)
        else:
            deeper(n - 1)

    with pytest.raises(RecursionError) as caught:
        deeper(sys.getrecursionlimit())
    text = Outcome.of_exception(caught.value).traceback
    assert text is not None
    assert text.startswith("Traceback (most recent call last)")
    assert "RecursionError" in text[-200:]
    assert len(text.encode()) <= TRACEBACK_BYTES


def test_texts_given_by_hand_are_cleaned_too() -> None:
    outcome = Outcome("failed", "E\0", "m\ud800", "t\0" * TRACEBACK_BYTES, result="r\0")
    assert (outcome.error_type, outcome.error_message, outcome.result) == ("E�", "m�", "r�")
    assert outcome.traceback is not None
    assert "\0" not in outcome.traceback


def test_a_long_message_keeps_its_head_within_its_bytes() -> None:
    message = Outcome.of_exception(ValueError("é" * 10_000)).error_message
    assert message is not None
    assert message.startswith("éé")
    assert message.endswith("…")
    assert MESSAGE_BYTES - 2 <= len(message.encode()) <= MESSAGE_BYTES


texts = st.text(alphabet=st.characters(codec=None), max_size=300)


@given(texts, st.integers(0, 40), st.integers(100, 400))
def test_a_cut_text_can_be_stored_and_is_short_enough(text: str, times: int, most: int) -> None:
    long = text * times
    for made in (cut(long, most), middle_cut(long, most)):
        assert len(made.encode()) <= most
        assert "\0" not in made
    if len(clean(long).encode()) <= most:
        assert cut(long, most) == middle_cut(long, most) == clean(long)


def test_a_long_text_keeps_both_ends() -> None:
    text = middle_cut("begin" + "x" * 100_000 + "end", 1000)
    assert text.startswith("begin")
    assert text.endswith("end")
    assert "characters left out" in text


def test_errors_carry_their_next_step_under_one_root() -> None:
    error = StoreUnavailable("the database cannot be reached", hint="start it", in_doubt=True)
    assert (str(error), error.hint, error.in_doubt) == ("the database cannot be reached", "start it", True)
    assert isinstance(error, QschedError)
    assert StoreUnavailable("x").hint is None
