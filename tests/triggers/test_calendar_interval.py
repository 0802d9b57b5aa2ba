"""Calendar interval: counted from its start by the calendar, at one time of day by the zone rule."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil.relativedelta import relativedelta
from hypothesis import given, settings
from hypothesis import strategies as st
from qsched.triggers.calendar_interval import CalendarInterval
from qsched.triggers.errors import ScheduleError
from qsched.triggers.instant import HOUR, from_instant, to_instant
from qsched.triggers.recurrence import Recurrence
from qsched.triggers.schedule import note_on

from support.wall_brute import AWKWARD, instants, keeps_the_laws, slots_of, walk


def dates(schedule: CalendarInterval, begin: datetime, count: int) -> list[str]:
    slot, found = to_instant(begin), []
    for _ in range(count):
        slot = schedule.slot_after(slot) or 0
        found.append(f"{from_instant(slot).astimezone(ZoneInfo(schedule.time_zone)):%m-%d %H:%M}")
    return found


NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)


def test_a_shorter_month_has_its_run_on_its_last_day_and_the_next_has_its_own_day_again() -> None:
    monthly = CalendarInterval("UTC", datetime(2027, 1, 31, 9, 30, tzinfo=UTC), months=1)
    assert dates(monthly, NEW_YEAR, 4) == ["01-31 09:30", "02-28 09:30", "03-31 09:30", "04-30 09:30"]
    assert (
        monthly.notes(to_instant(datetime(2027, 2, 28, 9, 30, tzinfo=UTC)))
        == "February has no day 31: its last day"
    )
    assert monthly.notes(to_instant(datetime(2027, 3, 31, 9, 30, tzinfo=UTC))) is None


def test_the_29th_of_february_is_the_28th_in_years_without_one() -> None:
    yearly = CalendarInterval("UTC", datetime(2028, 2, 29, tzinfo=UTC), years=1)
    assert dates(yearly, NEW_YEAR, 5) == ["02-29 00:00", *3 * ["02-28 00:00"], "02-29 00:00"]


def test_last_is_the_last_day_of_every_month_and_needs_no_note() -> None:
    monthly = CalendarInterval("UTC", months=1, day="last", at="18:00")
    assert dates(monthly, NEW_YEAR, 3) == ["01-31 18:00", "02-28 18:00", "03-31 18:00"]
    assert monthly.notes(to_instant(datetime(2027, 2, 28, 18, tzinfo=UTC))) is None


def test_without_a_start_weeks_are_mondays_and_every_second_one_is_the_same_whoever_asks() -> None:
    weekly = CalendarInterval("UTC", weeks=2, at="09:00")
    first = from_instant(weekly.slot_after(0) or 0)
    assert (first.isoformat(), first.strftime("%a")) == ("1970-01-05T09:00:00+00:00", "Mon")
    assert dates(weekly, NEW_YEAR, 2) == ["01-04 09:00", "01-18 09:00"]


def test_the_hour_is_kept_while_the_offset_changes() -> None:
    start = datetime(2026, 3, 26, 9, tzinfo=ZoneInfo("Europe/Berlin"))
    every_third = CalendarInterval("Europe/Berlin", start, days=3)
    assert dates(every_third, start, 3) == ["03-29 09:00", "04-01 09:00", "04-04 09:00"]


def test_a_time_that_does_not_exist_runs_when_the_gap_ends_or_is_left_out() -> None:
    begin = datetime(2026, 3, 28, 12, tzinfo=UTC)
    daily = CalendarInterval("Europe/Berlin", days=1, at="02:30")
    assert dates(daily, begin, 2) == ["03-29 03:00", "03-30 02:30"]
    assert note_on(daily, daily.slot_after(to_instant(begin)) or 0) == (
        "02:30 does not exist on this day: runs when the gap ends"
    )
    strict = CalendarInterval("Europe/Berlin", days=1, at="02:30", gap="skip")
    assert dates(strict, begin, 1) == ["03-30 02:30"]
    twice = CalendarInterval("Europe/Berlin", days=1, at="02:30", overlap="twice")
    assert dates(twice, datetime(2026, 10, 24, 12, tzinfo=UTC), 2) == ["10-25 02:30", "10-25 02:30"]


@pytest.mark.parametrize("until", ["", ";UNTIL=20261025"])
def test_the_first_and_the_last_slot_of_all_may_come_twice(until: str) -> None:
    start = datetime(2026, 10, 25, tzinfo=ZoneInfo("Europe/Berlin"))
    rule = Recurrence(f"FREQ=DAILY;BYHOUR=2;BYMINUTE=30{until}", "Europe/Berlin", start, overlap="twice")
    first = to_instant(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    assert rule.slot_after(first) == first + HOUR
    assert rule.latest_before(first + HOUR - 1) == first


def test_quarters_are_counted_from_the_month_of_the_start() -> None:
    quarterly = CalendarInterval("UTC", datetime(2027, 1, 20, tzinfo=UTC), months=3, day=15)
    assert dates(quarterly, datetime(2027, 1, 20, tzinfo=UTC), 3) == [
        "04-15 00:00",
        "07-15 00:00",
        "10-15 00:00",
    ]


def test_a_start_between_two_seconds_counts_from_the_second_that_follows() -> None:
    start = datetime(2027, 1, 1, 9, 0, 0, 1, tzinfo=UTC)
    assert from_instant(
        CalendarInterval("UTC", start, days=1).slot_after(to_instant(start)) or 0
    ) == datetime(2027, 1, 1, 9, 0, 1, tzinfo=UTC)


def test_it_ends_with_the_year_2999() -> None:
    yearly = CalendarInterval("Pacific/Auckland", years=1)
    last = yearly.latest_before(10**18)
    assert last is not None
    assert from_instant(last).year == 2998
    assert yearly.slot_after(last) is None


WORDS = [
    ({"months": 1, "day": "last", "at": "18:00"}, "Every month on the last day at 18:00"),
    ({"months": 1, "day": 30}, "Every month on day 30 (or the month's last) at 00:00"),
    ({"weeks": 2, "at": "09:00"}, "Every 2 weeks on Monday at 09:00, counted from 1970-01-05"),
    ({"days": 1, "at": "02:30:10"}, "Every day at 02:30:10"),
    ({"years": 1, "day": 24}, "Every year on day 24 of January at 00:00, counted from 1970-01-01"),
]


@pytest.mark.parametrize(("said", "words"), WORDS)
def test_it_says_itself_in_words(said: Any, words: str) -> None:
    assert CalendarInterval(**said).words() == words


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "no unit is given; say one of years, months, weeks, days"),
    ({"weeks": 1, "days": 2}, "weeks and days are given; say one of"),
    ({"days": 0}, "days 0 is not a whole number from 1 to 1000"),
    ({"days": True}, "days True is not a whole number"),
    ({"months": 1, "day": 32}, "day 32 is not 1 to 31; use a number, or last"),
    ({"weeks": 1, "day": 3}, "`day` goes with years and months, not with weeks; use start_at"),
    ({"days": 1, "at": "24:00"}, "'24:00' is not a time of day; write it as in 09:00"),
    ({"days": 1, "at": "9"}, "'9' is not a time of day"),
    ({"days": 1, "hour": 9}, "'hour' is not known; use years"),
    ({"days": 1, "gap": "run"}, "dst gap 'run' is not known; use 'run_after' or 'skip'"),
]


@pytest.mark.parametrize(("said", "message"), WRONG)
def test_what_makes_no_sense_is_refused_with_a_next_step(said: dict[str, Any], message: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        CalendarInterval(**said)
    assert message in str(refused.value)


@settings(max_examples=120, deadline=None)
@given(
    zone=st.sampled_from(AWKWARD),
    unit=st.sampled_from(["years", "months", "weeks", "days"]),
    step=st.integers(1, 5),
    day=st.sampled_from([None, 1, 29, 30, 31, "last"]),
    at=st.sampled_from(["00:00", "00:30", "01:30", "02:15", "02:30:30", "23:59:59"]),
    began=st.datetimes(datetime(2009, 1, 1), datetime(2014, 12, 31)),
    later=st.integers(0, 9000),
    dst=st.sampled_from([("run_after", "once"), ("skip", "twice"), ("run_after", "twice"), ("skip", "once")]),
)
def test_it_equals_a_count_by_the_calendar(
    zone: str,
    unit: str,
    step: int,
    day: int | str | None,
    at: str,
    began: datetime,
    later: int,
    dst: tuple[str, str],
) -> None:
    said: dict[str, Any] = {unit: step, "at": at}
    if day is not None and unit in ("years", "months"):
        said["day"] = day
    start = began.replace(microsecond=0, tzinfo=UTC)
    schedule = CalendarInterval(zone, start, gap=dst[0], overlap=dst[1], **said)
    local = start.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    hour, minute, second = map(int, (at + ":00").split(":")[:3])
    first = local.replace(hour=hour, minute=minute, second=second)
    named = 31 if day == "last" else local.day if day is None else day
    walls = []
    span = {"years": 4000, "months": 500, "weeks": 200, "days": 40}[unit]
    begin = start + timedelta(days=later)
    naive = begin.replace(tzinfo=None)
    skipped = max(0, {"years": 0, "months": 0}.get(unit, later // (step * (7 if unit == "weeks" else 1)) - 3))
    for k in range(skipped, skipped + 1000):
        wall = first + relativedelta(**{unit: k * step})  # type: ignore[arg-type]
        if unit in ("years", "months"):
            wall = wall.replace(day=1) + relativedelta(day=int(named or 1))
        if wall > naive + timedelta(days=span + 3):
            break
        walls.append(wall)
    low, high = instants(begin, span)
    slots = [slot for slot in slots_of(walls, zone, *dst) if low <= slot <= high]
    assert walk(schedule, low, high) == slots
    keeps_the_laws(schedule, slots, low, high)
