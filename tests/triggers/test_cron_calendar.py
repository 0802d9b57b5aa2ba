"""Which days: two day fields, leap years, last days, working days, n-th weekdays, and dates that never come."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qsched.triggers.cron import Cron, Dialect
from qsched.triggers.cron_dates import DateRule, dates_of
from qsched.triggers.errors import CronError

EPOCH = date(1970, 1, 1)


def days(
    expr: str, start: str, count: int, dialect: Dialect = "unix", clock: str = "T00:00:00+00:00"
) -> list[str]:
    """The dates of the next `count` slots after `start` (UTC), each checked to be at `clock`."""
    cron, found = Cron(expr, dialect), []
    moment = datetime.fromisoformat(start).replace(tzinfo=UTC)
    for _ in range(count):
        slot = cron.next_after(moment)
        assert slot is not None
        assert slot.isoformat().endswith(clock)
        found.append(slot.date().isoformat())
        moment = slot
    return found


def test_two_restricted_day_fields_mean_either() -> None:
    found = days("0 16 1,2,3 * FRI", "2023-05-01T00:00", 8, clock="T16:00:00+00:00")
    assert [day[5:] for day in found] == [
        "05-01", "05-02", "05-03", "05-05", "05-12", "05-19", "05-26", "06-01",
    ]  # fmt: skip
    assert days("0 0 31 2 0", "2026-01-15", 2) == ["2026-02-01", "2026-02-08"]
    assert "either is enough" in Cron("0 16 1,2,3 * FRI").words()
    assert "either" in Cron("0 16 1,2,3 * FRI").remarks[0]


def test_a_day_field_that_begins_with_a_star_means_both() -> None:
    assert days("0 0 */2 * 1", "2024-12-31T23:59", 2) == ["2025-01-13", "2025-01-27"]
    assert days("0 0 15 * */3", "2025-01-01", 2) == ["2025-01-15", "2025-02-15"]
    assert days("0 0 13 * */5", "2018-07-13T11:47", 1) == ["2019-01-13"]
    assert "if that is" in Cron("0 0 */2 * 1").words()


@pytest.mark.parametrize(
    ("expr", "start", "expected"),
    [
        ("0 0 29 2 *", "2021-03-01", "2024-02-29"),
        ("0 0 29 2 *", "2096-03-01", "2104-02-29"),
        ("0 0 29 2 *", "2396-03-01", "2400-02-29"),
        ("0 0 * * *", "2099-12-31", "2100-01-01"),
        ("0 0 29 2 *", "2100-01-01", "2104-02-29"),
        ("0 0 1 1 *", "2199-06-01", "2200-01-01"),
    ],
)
def test_leap_years_and_far_years_are_right(expr: str, start: str, expected: str) -> None:
    assert days(expr, start, 1) == [expected]


@pytest.mark.parametrize(
    ("expr", "dialect"),
    [
        ("0 0 30 2 *", "unix"),
        ("0 0 31 4,6 *", "unix"),
        ("0 0 31 2 */2", "unix"),
        ("0 0 0 30 2 ?", "quartz"),
        ("0 0 0 L-30 2 ?", "quartz"),
        ("0 0 0 31W 4 ?", "quartz"),
        ("0 0 0 ? 2 MON#5 2025", "quartz"),
        ("0 0 0 29 2 ? 2023,2025-2027", "quartz"),
    ],
)
def test_a_date_that_never_comes_is_refused(expr: str, dialect: Dialect) -> None:
    with pytest.raises(CronError, match=r"day-of-(month|week) .*can never fire; choose"):
        Cron(expr, dialect)


def test_a_year_that_has_passed_is_expired_and_not_impossible() -> None:
    cron = Cron("0 0 12 1 1 ? 2020", "quartz")
    assert cron.next_after(datetime(2024, 1, 1, tzinfo=UTC)) is None
    assert cron.slot_after(1_704_067_200_000_000) is None
    assert cron.latest_before(1_704_067_200_000_000) == 1_577_880_000_000_000


def test_a_fixed_time_that_only_a_gap_would_hold_is_refused_where_gaps_are_skipped() -> None:
    only = "0 30 2 10 3 ? 2024"
    assert Cron(only, "quartz", "America/New_York").slot_after(0) == 1_710_054_000_000_000
    with pytest.raises(CronError, match="never fire"):
        Cron(only, "quartz", "America/New_York", gap="skip")
    with pytest.raises(CronError, match="never fire"):
        Cron("0 0 12 30 12 ? 2011", "quartz", "Pacific/Apia")  # the day that Samoa left out


def test_a_working_day_is_found_inside_its_month() -> None:
    assert days("0 0 0 1W * ?", "2024-05-31", 3, "quartz") == ["2024-06-03", "2024-07-01", "2024-08-01"]
    assert days("0 0 0 LW * ?", "2024-05-01", 3, "quartz") == ["2024-05-31", "2024-06-28", "2024-07-31"]
    assert days("0 0 0 L-3W * ?", "2024-06-01", 1, "quartz") == ["2024-06-27"]
    # A month without that day has no working day near it.
    assert days("0 0 0 31W * ?", "2024-03-31", 2, "quartz") == ["2024-05-31", "2024-07-31"]


def test_last_days_and_working_days_may_stand_in_lists() -> None:
    assert days("0 0 0 L,15 * ?", "2024-02-01", 3, "quartz") == ["2024-02-15", "2024-02-29", "2024-03-15"]
    assert days("0 0 0 2W,16 * ?", "2024-06-01", 3, "quartz") == ["2024-06-03", "2024-06-16", "2024-07-02"]
    assert days("0 0 0 L-2 2 ?", "2023-01-01", 2, "quartz") == ["2023-02-26", "2024-02-27"]


def test_the_fifth_monday_of_february_comes_once_in_28_years() -> None:
    assert days("0 0 0 ? 2 2#5", "2020-01-01", 2, "quartz") == ["2044-02-29", "2072-02-29"]
    assert days("0 0 0 ? 2 WED#5", "2013-01-01", 1, "quartz") == ["2040-02-29"]


@given(
    st.builds(
        DateRule,
        days=st.integers(0, (1 << 32) - 2),
        months=st.integers(1, (1 << 12) - 1).map(lambda mask: mask << 1),
        weekdays=st.integers(0, 127),
        before_last=st.lists(st.integers(0, 30), max_size=2, unique=True).map(tuple),
        workday_near=st.lists(st.integers(1, 31), max_size=2, unique=True).map(tuple),
        nth_weekdays=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 5)), max_size=1).map(tuple),
        last_weekdays=st.integers(0, 127).map(lambda mask: mask & 9),
        years=st.none() | st.frozensets(st.integers(2020, 2032), min_size=1),
        either=st.booleans(),
    ),
    st.dates(date(2018, 1, 1), date(2034, 1, 1)),
    st.integers(0, 900),
)
def test_masks_of_days_agree_with_looking_at_each_day(rule: DateRule, first: date, length: int) -> None:
    dates = dates_of(rule)
    start = (first - EPOCH).days
    looked = [day for day in range(start, start + length + 1) if _matches(rule, EPOCH + timedelta(days=day))]
    found, day = [], dates.after(start)
    while day is not None and day <= start + length:
        found.append(day)
        day = dates.after(day + 1)
    assert found == looked
    assert dates.count(start, start + length) == len(looked)
    backwards, day = [], dates.before(start + length)
    while day is not None and day >= start:
        backwards.append(day)
        day = dates.before(day - 1)
    assert backwards == looked[::-1]


def _matches(rule: DateRule, day: date) -> bool:
    """The definition of a rule, read off the calendar without a single mask shift."""
    if not rule.months >> day.month & 1 or (rule.years is not None and day.year not in rule.years):
        return False
    next_month = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
    last = next_month - timedelta(days=1)
    weekday = day.isoweekday() % 7
    of_month = bool(rule.days >> day.day & 1)
    of_month |= any(last - timedelta(days=before) == day for before in rule.before_last)
    of_month |= any(_near(wanted, last) == day for wanted in rule.workday_near if wanted <= last.day)
    of_week = bool(rule.weekdays >> weekday & 1)
    of_week |= (weekday, (day.day + 6) // 7) in rule.nth_weekdays
    of_week |= bool(rule.last_weekdays >> weekday & 1) and (last - day).days < 7
    return of_month or of_week if rule.either else of_month and of_week


def _near(wanted: int, last: date) -> date:
    """The working day of the month nearest to `wanted`; of two, the one that is nearest by the smaller step."""
    middle = last.replace(day=wanted)
    working = [last.replace(day=day) for day in range(1, last.day + 1) if last.replace(day=day).weekday() < 5]
    return min(working, key=lambda day: (abs((day - middle).days), day))
