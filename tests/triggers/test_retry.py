"""Retry delays, the one-second rule and its boundary table, exception filters, the policy as it is stored."""

import json
import random as randomness
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qsched.triggers.error_names import error_classes, matches
from qsched.triggers.errors import DefinitionError, TriggerError
from qsched.triggers.instant import HOUR, MINUTE, SECOND
from qsched.triggers.job import digest
from qsched.triggers.retry import (
    LONGEST_DELAY,
    MOST_RETRIES,
    ON_EXHAUSTED,
    PRESETS,
    RetryPolicy,
    retry_fits,
)

LEAST: Callable[[], float] = lambda: 0.0  # noqa: E731
MOST: Callable[[], float] = lambda: 1 - 2**-53  # noqa: E731
NEXT = 1_000 * SECOND


class Upstream(ConnectionError):
    """An error of a package's own."""


def delays(policy: RetryPolicy, random: Callable[[], float] = LEAST) -> list[float]:
    """The delays before each retry, in seconds."""
    return [policy.delay_of(k, random=random) / SECOND for k in range(1, policy.max_retries + 1)]


def test_exponential_delays_grow_by_the_multiplier() -> None:
    assert delays(RetryPolicy.exponential(3, "2s", 2.0)) == [2, 4, 8]
    assert delays(RetryPolicy.exponential(5, "2s")) == [2, 4, 8, 16, 32]


def test_fixed_delays_stay_the_same() -> None:
    assert delays(RetryPolicy.fixed(3, timedelta(milliseconds=1500))) == [1.5, 1.5, 1.5]


def test_explicit_delays_are_followed_and_the_last_repeats() -> None:
    assert delays(RetryPolicy.explicit(["2s", "5s", "10s"])) == [2, 5, 10]
    assert delays(RetryPolicy.explicit(["2s", "5s"], max_retries=4)) == [2, 5, 5, 5]


def test_there_is_no_retry_without_being_asked() -> None:
    assert RetryPolicy.none().max_retries == 0
    assert RetryPolicy().max_retries == 0


def test_hangfire_delays_lie_inside_its_formula() -> None:
    policy = RetryPolicy.hangfire()
    assert policy.max_retries == 10
    assert sum(delays(policy)) == 15_483
    assert sum(delays(policy, MOST)) == 17_078


def test_ten_thousand_draws_of_each_hangfire_delay_stay_inside_its_bounds() -> None:
    """X1: what Hangfire's own formula gives, not what an article says of it."""
    bounds = [
        *((15, 44), (16, 74), (31, 118), (96, 212), (271, 416)),
        *((640, 814), (1311, 1514), (2416, 2648), (4111, 4372), (6576, 6866)),
    ]
    policy, source = RetryPolicy.hangfire(), randomness.Random(20240110)
    totals = [0] * 10_000
    for k, (least, most) in enumerate(bounds, start=1):
        drawn = [policy.delay_of(k, random=source.random) // SECOND for _ in totals]
        assert set(drawn) == {(k - 1) ** 4 + 15 + step * k for step in range(30)}
        assert (min(drawn), max(drawn)) == (least, most)
        totals = [total + delay for total, delay in zip(totals, drawn, strict=True)]
    assert min(totals) >= 15_483
    assert max(totals) <= 17_078
    assert 16_200 < sum(totals) / len(totals) < 16_360  # 4 h 31 m


def test_a_delay_is_capped_then_jittered_then_capped_again() -> None:
    policy = RetryPolicy.exponential(4, "2s", 2.0, max_delay="5s", jitter=0.5)
    assert delays(policy) == [1, 2, 2.5, 2.5]
    assert delays(policy, MOST) == pytest.approx([3, 5, 5, 5])


@given(
    st.integers(1, 10 * HOUR),
    st.floats(1, 1e6),
    st.floats(0, 1),
    st.integers(1, MOST_RETRIES),
    st.floats(0, 1),
)
def test_a_delay_is_never_negative_nor_beyond_its_cap(
    delay: int, multiplier: float, jitter: float, k: int, drawn: float
) -> None:
    random = min(drawn, 1 - 2**-53)
    for cap in (None, 10 * HOUR):
        policy = RetryPolicy(MOST_RETRIES, delay, multiplier, cap, jitter)
        assert 0 <= policy.delay_of(k, random=lambda: random) <= (cap or LONGEST_DELAY)
        assert 0 < RetryPolicy.hangfire().delay_of(k, random=lambda: random) <= LONGEST_DELAY


def test_jitter_is_drawn_once_for_a_retry() -> None:
    asked: list[float] = []

    def random() -> float:
        asked.append(0.5)
        return 0.5

    assert RetryPolicy.fixed(1, "2s", jitter=0.2).delay_of(1, random=random) == 2 * SECOND
    assert RetryPolicy.fixed(1, "2s").delay_of(1, random=random) == 2 * SECOND
    assert len(asked) == 1


def test_retries_of_many_jobs_that_fail_at_once_are_spread_by_jitter() -> None:
    source = randomness.Random(7)
    policy = RetryPolicy.fixed(3, "10s", jitter=0.5)
    drawn = [policy.delay_of(1, random=source.random) for _ in range(500)]
    assert min(drawn) < 6 * SECOND
    assert max(drawn) > 14 * SECOND
    assert len(set(drawn)) > 490


@pytest.mark.parametrize(
    ("retry_at", "next_at", "end_at", "dropped"),
    [
        pytest.param(NEXT - SECOND - 1, NEXT, None, None, id="1 s and 1 us before the next slot"),
        pytest.param(NEXT - SECOND, NEXT, None, "superseded", id="exactly 1 s before the next slot"),
        pytest.param(NEXT - SECOND + 1, NEXT, None, "superseded", id="less than 1 s before the next slot"),
        pytest.param(NEXT, NEXT, None, "superseded", id="on the next slot"),
        pytest.param(NEXT + 1, NEXT, None, "superseded", id="after the next slot"),
        pytest.param(NEXT, None, NEXT, None, id="at the end"),
        pytest.param(NEXT - 1, None, NEXT, None, id="before the end"),
        pytest.param(NEXT + 1, None, NEXT, "after end", id="after the end"),
        pytest.param(NEXT, None, None, None, id="no next slot and no end"),
        pytest.param(NEXT, NEXT, NEXT - 1, "superseded", id="both: the slot is named"),
    ],
)
def test_the_one_second_rule(
    retry_at: int, next_at: int | None, end_at: int | None, dropped: str | None
) -> None:
    assert retry_fits(retry_at, next_at=next_at, end_at=end_at) == dropped


@pytest.mark.parametrize(
    ("names", "error", "meant"),
    [
        (["ValueError"], ValueError(), True),
        (["builtins.ValueError"], ValueError(), True),
        (["ValueError"], UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), True),
        (["UnicodeDecodeError"], ValueError(), False),
        (["Exception"], KeyError(), True),
        (["OSError"], Upstream(), True),
        (["Upstream"], Upstream(), True),
        ([f"{__name__}.Upstream"], Upstream(), True),
        (["other.Upstream"], Upstream(), False),
        (["stream"], Upstream(), False),
        (["json.JSONDecodeError"], json.JSONDecodeError("bad", "x", 0), True),
        (["js.JSONDecodeError"], json.JSONDecodeError("bad", "x", 0), False),
        (["asyncio.TimeoutError"], TimeoutError(), True),
        (["IOError"], FileNotFoundError(), True),
        (["ValueError", "KeyError"], KeyError(), True),
        ([], ValueError(), False),
    ],
)
def test_a_name_means_the_class_and_everything_made_of_it(
    names: list[str], error: BaseException, meant: bool
) -> None:
    assert matches(names, error_classes(error)) is meant


def test_no_retry_on_comes_before_retry_on() -> None:
    policy = RetryPolicy.fixed(3, "2s", retry_on=[OSError], no_retry_on=["PermissionError"])
    assert policy.retries(error_classes(ConnectionError()))
    assert not policy.retries(error_classes(PermissionError()))
    assert not policy.retries(error_classes(ValueError()))
    assert RetryPolicy.fixed(3, "2s").retries(error_classes(ValueError()))
    assert RetryPolicy.fixed(3, "2s", no_retry_on=[KeyError]).retries(error_classes(ValueError()))


durations = st.integers(1, 400 * 24 * HOUR)
names = st.lists(st.sampled_from(["ValueError", "httpx.TimeoutException", "a.b.C"]), unique=True).map(tuple)
policies = st.one_of(
    st.builds(
        RetryPolicy,
        max_retries=st.integers(0, 50),
        delay=st.integers(1, HOUR),
        multiplier=st.floats(1, 10) | st.integers(1, 10),
        max_delay=st.none() | st.integers(HOUR, 10 * HOUR),
        jitter=st.floats(0, 1),
        retry_on=names,
        no_retry_on=names,
        give_up_after=st.none() | durations,
        on_exhausted=st.sampled_from(ON_EXHAUSTED),
    ),
    st.builds(RetryPolicy, max_retries=st.integers(0, 9), delays=st.lists(durations, min_size=1).map(tuple)),
    st.sampled_from([preset() for preset in PRESETS.values()]),
)


@given(policies)
def test_a_stored_policy_is_read_back_as_it_was(policy: RetryPolicy) -> None:
    stored = json.loads(json.dumps(policy.to_spec()))
    assert RetryPolicy.from_spec(stored) == policy
    assert digest(RetryPolicy.from_spec(stored).to_spec()) == digest(policy.to_spec())


def test_a_whole_multiplier_is_the_same_policy_as_its_float() -> None:
    whole, fraction = RetryPolicy(3, multiplier=2), RetryPolicy(3, multiplier=2.0)
    assert digest(whole.to_spec()) == digest(fraction.to_spec())


@pytest.mark.parametrize(
    "spec",
    [
        "none",
        None,
        {"max_retries": "3"},
        {"max_retries": 1, "retry": 2},
        {"delay": -1},
        {"delays": ["2s"]},
        {"delays": 5},
        {"jitter": 2},
        {"preset": "nightly"},
        {"preset": ["hangfire"]},
        {"multiplier": float("nan")},
        {"retry_on": "ValueError"},
        {"retry_on": [1]},
    ],
)
def test_a_stored_policy_that_makes_no_sense_is_refused(spec: Any) -> None:
    with pytest.raises(DefinitionError):
        RetryPolicy.from_spec(spec)


@pytest.mark.parametrize(
    ("declared", "policy"),
    [
        ("none", RetryPolicy.none()),
        (0, RetryPolicy.none()),
        (3, RetryPolicy.fixed(3, "10s")),
        ("hangfire", RetryPolicy.hangfire()),
        ("order_mail", RetryPolicy.order_mail()),
        ({"max_retries": 3, "delay": "2s", "multiplier": 2}, RetryPolicy.exponential(3, "2s", 2.0)),
        ({"delays": ["2s", "5s"]}, RetryPolicy.explicit(["2s", "5s"])),
        ({"delays": ["2s", "5s"], "max_retries": 4}, RetryPolicy.explicit(["2s", "5s"], max_retries=4)),
        ({"preset": "hangfire", "max_retries": 5}, RetryPolicy.hangfire(5)),
        (
            {"max_retries": 1, "delay": "PT5M", "no_retry_on": ["ValueError"], "on_exhausted": "discard"},
            RetryPolicy.fixed(1, "5m", no_retry_on=["ValueError"], on_exhausted="discard"),
        ),
    ],
)
def test_a_declaration_is_read_as_its_author_meant(declared: Any, policy: RetryPolicy) -> None:
    assert RetryPolicy.from_declaration(declared) == policy


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("nihgtly", "'nihgtly' is not known: write none or one of hangfire, order_mail, nightly"),
        (True, "retry True is not"),
        (-1, r"retry\.max_retries must be 0 to 1000, and -1 is not"),
        ({}, "needs max_retries, delays or a preset"),
        ({"delay": "2s"}, "needs max_retries, delays or a preset"),
        ({"max_retry": 3}, r"retry\.max_retry is not known: did you mean max_retries\?"),
        ({"max_retries": 3, "delay": 2}, r"retry\.delay: 2 is not a duration"),
        ({"max_retries": 3, "delay": "2"}, r"retry\.delay: '2' is not a duration"),
        ({"max_retries": 3, "delay": "0s"}, r"retry\.delay: .*greater than zero"),
        ({"delays": "2s"}, r"retry\.delays must be a list"),
        ({"delays": []}, r"retry\.delays is empty"),
        ({"delays": ["2s", 5]}, r"retry\.delays: 5 is not a duration"),
        ({"delays": ["2s"], "delay": "2s"}, r"retry\.delays stands in place"),
        ({"max_retries": 3, "multiplier": 0.5}, r"retry\.multiplier must be 1 to"),
        ({"max_retries": 3, "multiplier": "2"}, r"retry\.multiplier must be a number"),
        ({"max_retries": 3, "jitter": 20}, r"retry\.jitter must be 0 to 1"),
        ({"max_retries": 3, "delay": "1m", "max_delay": "30s"}, "max_delay 30s is less than retry.delay 1m"),
        ({"preset": ["hangfire"]}, "is not known: write none or one of"),
        ({"max_retries": 3, "on_exhausted": "explode"}, r"retry\.on_exhausted 'explode' is not one of fail"),
        ({"max_retries": 3, "retry_on": [42]}, r"retry\.retry_on: 42 is not the name of an exception"),
        ({"max_retries": 3, "retry_on": ["Value Error"]}, r"retry\.retry_on: 'Value Error' is not the name"),
        ({"max_retries": 3, "retry_on": 42}, r"retry\.retry_on must be a list"),
        ({"preset": "weekly"}, "'weekly' is not known"),
        ({"preset": "hangfire", "delay": "2s"}, "hangfire has delays of its own"),
    ],
)  # fmt: skip
def test_a_declaration_that_makes_no_sense_names_the_key_and_the_value(declared: Any, message: str) -> None:
    with pytest.raises(TriggerError, match=message):
        RetryPolicy.from_declaration(declared)


def test_python_refuses_a_bare_number_as_a_duration() -> None:
    with pytest.raises(TriggerError, match="2 is not a duration"):
        RetryPolicy.fixed(3, 2)  # type: ignore[arg-type]


def test_exceptions_are_given_by_class_or_by_name() -> None:
    policy = RetryPolicy.fixed(3, "2s", retry_on=[Upstream, "httpx.TimeoutException"])
    assert policy.retry_on == (f"{__name__}.Upstream", "httpx.TimeoutException")


def test_presets_fit_what_they_are_named_for() -> None:
    assert sum(delays(RetryPolicy.order_mail(), MOST)) < 10 * 60
    assert sum(delays(RetryPolicy.nightly(), MOST)) < 6 * 3600
    assert RetryPolicy.fixed(3, "1m", jitter=0.5).shortest_delay() == MINUTE // 2
