"""Every: a grid from its anchor that no restart, change of offset or lateness moves."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qsched.triggers.errors import TriggerError
from qsched.triggers.instant import DAY, HOUR, MINUTE, SECOND, to_instant
from qsched.triggers.interval import Every
from qsched.triggers.schedule import COUNT_LIMIT, Schedule

T0 = to_instant(datetime(2024, 1, 10, tzinfo=UTC))


def test_slots_lie_on_the_grid_of_the_anchor_whenever_they_are_asked_for() -> None:
    every = Every("6h")
    for asked, expected in ((T0, 6), (T0 + 4 * HOUR + 20 * MINUTE, 6), (T0 + 6 * HOUR, 12), (T0 - 1, 0)):
        assert every.slot_after(asked) == T0 + expected * HOUR


def test_an_anchor_is_the_first_slot() -> None:
    every = Every("15m", datetime(2024, 1, 10, 0, 7, tzinfo=UTC))
    anchor = T0 + 7 * MINUTE
    assert every.slot_after(anchor - 100 * DAY) == anchor
    assert every.slot_after(anchor) == anchor + 15 * MINUTE
    assert every.latest_before(anchor - 1) is None
    assert every.latest_before(anchor) == anchor
    assert every.count_between(anchor - DAY, anchor + 30 * MINUTE) == 3


def test_seven_days_are_168_hours_across_a_change_of_offset() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    every = Every("7d", datetime(2024, 3, 28, 12, tzinfo=berlin))
    found = every.next_after(datetime(2024, 3, 28, 12, tzinfo=berlin))
    assert found is not None
    assert found.astimezone(berlin).hour == 13


@pytest.mark.parametrize(
    ("interval", "expected"),
    [("10s", 10 * SECOND), (timedelta(minutes=5), 5 * MINUTE), (1500, 1500), ("PT1H", HOUR)],
)
def test_an_interval_is_text_a_timedelta_or_microseconds(
    interval: str | int | timedelta, expected: int
) -> None:
    assert Every(interval).interval == expected
    assert Every(interval) == Every(expected)


@pytest.mark.parametrize("interval", ["0s", 0, -5, timedelta(0), "10", "five", True, 1.5])
def test_an_interval_that_is_none_is_refused(interval: str | int | timedelta) -> None:
    with pytest.raises(TriggerError):
        Every(interval)


def test_a_naive_anchor_is_refused() -> None:
    with pytest.raises(TriggerError, match="no time zone"):
        Every("1h", datetime(2024, 1, 1))


@given(
    st.integers(1, 400 * DAY),
    st.integers(-(10**15), 10**16),
    st.integers(-(10**15), 10**16),
    st.integers(0, 10**15),
)
def test_the_three_questions_agree(interval: int, anchor: int, instant: int, length: int) -> None:
    every = Every(interval, anchor)
    after, before = every.slot_after(instant), every.latest_before(instant)
    assert after > instant
    assert after >= anchor
    assert (after - anchor) % interval == 0
    assert after - interval <= max(instant, anchor - interval)
    assert before == (after - interval if after > anchor else None)
    count = every.count_between(instant, instant + length)
    last = every.latest_before(instant + length)
    first = every.slot_after(instant - 1)
    exact = 0 if last is None or last < first else (last - first) // interval + 1
    assert count == min(exact, COUNT_LIMIT + 1)


def test_it_says_itself() -> None:
    assert str(Every("90s")) == "every 1m30s"
    assert Every("90s").words() == "Every 1 minute 30 seconds"
    assert Every("1h").words() == "Every hour"
    assert Every("2d", T0).words() == "Every 2 days, counted from 2024-01-10T00:00:00Z"
    assert isinstance(Every("1h"), Schedule)
