"""Daily window: counted in elapsed time from where the day's window begins, to where clocks pass its end."""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qsched.triggers.daily_window import DailyWindow
from qsched.triggers.errors import TriggerError
from qsched.triggers.instant import DAY, MINUTE, from_instant, to_instant
from qsched.triggers.schedule import COUNT_LIMIT
from qsched.triggers.weekdays import WEEKDAYS

from support.wall_brute import AWKWARD, instants, keeps_the_laws, walk


def clocks(schedule: DailyWindow, begin: datetime, hours: int = 24) -> list[str]:
    first = to_instant(begin)
    zone = ZoneInfo(schedule.time_zone)
    return [
        f"{from_instant(s).astimezone(zone):%H:%M}"
        for s in walk(schedule, first, first + hours * 60 * MINUTE)
    ]


def berlin(month: int, day: int, hour: int = 0) -> datetime:
    return datetime(2026, month, day, hour, tzinfo=ZoneInfo("Europe/Berlin"))


def test_both_ends_belong_to_the_window() -> None:
    window = DailyWindow("4h", "09:00", "17:00", "Europe/Berlin")
    assert clocks(window, berlin(6, 1), 23) == ["09:00", "13:00", "17:00"]


def test_days_without_a_window_are_left_out() -> None:
    window = DailyWindow("8h", "09:00", "16:00", "Europe/Berlin", days=["mon-tue", "fri"])
    begin = to_instant(berlin(6, 1))
    days = [f"{from_instant(slot):%a}" for slot in walk(window, begin, begin + 7 * DAY)]
    assert days == ["Mon", "Tue", "Fri"]


def test_repeat_bounds_each_day() -> None:
    window = DailyWindow("15m", "09:00", "17:00", "Europe/Berlin", repeat=2)
    assert clocks(window, berlin(6, 1), 23) == ["09:00", "09:15"]
    assert window.count_between(to_instant(berlin(6, 1)), to_instant(berlin(6, 11)) - 1) == 20


def test_a_window_over_midnight_belongs_to_the_day_it_begins_on() -> None:
    window = DailyWindow("4h", "22:00", "06:00", "Europe/Berlin", days=["fri"])
    assert clocks(window, berlin(6, 5), 48) == ["22:00", "02:00", "06:00"]


def test_a_day_of_23_hours_has_an_hour_less_and_says_so() -> None:
    window = DailyWindow("1h", "00:00", "04:00", "Europe/Berlin")
    assert clocks(window, berlin(3, 29), 12) == ["00:00", "01:00", "03:00", "04:00"]
    assert window.notes(to_instant(berlin(3, 29))) == "clocks change within: 4 slots in place of 5"


def test_a_day_of_25_hours_has_an_hour_more() -> None:
    window = DailyWindow("1h", "00:00", "04:00", "Europe/Berlin")
    assert clocks(window, berlin(10, 25), 12) == ["00:00", "01:00", "02:00", "02:00", "03:00", "04:00"]
    second = to_instant(berlin(10, 25).astimezone(UTC)) + 180 * MINUTE
    assert window.notes(second) == "second 02:00 of this day: clocks went back"


def test_a_window_that_begins_in_a_gap_begins_when_it_ends() -> None:
    window = DailyWindow("30m", "02:15", "03:45", "Europe/Berlin")
    assert clocks(window, berlin(3, 29), 12) == ["03:00", "03:30"]
    note = window.notes(to_instant(datetime(2026, 3, 29, 1, tzinfo=UTC)))
    assert note == (
        "02:15 does not exist on this day: the window begins when the gap ends; clocks change within: 2 slots in place of 4"
    )


def test_a_window_that_lies_in_a_gap_is_left_out_and_the_next_one_says_so() -> None:
    window = DailyWindow("10m", "02:10", "02:50", "Europe/Berlin")
    assert clocks(window, berlin(3, 29), 20) == []
    assert window.notes(to_instant(berlin(3, 30, 2)) + 10 * MINUTE) == (
        "the window of 2026-03-29 does not exist and is left out"
    )


def test_a_day_that_there_was_not_has_no_window() -> None:
    window = DailyWindow("12h", "08:00", "20:00", "Pacific/Apia")
    begin = to_instant(datetime(2011, 12, 29, tzinfo=ZoneInfo("Pacific/Apia")))
    zone = ZoneInfo("Pacific/Apia")
    days = [f"{from_instant(s).astimezone(zone):%d %H}" for s in walk(window, begin, begin + 2 * DAY)]
    assert days == ["29 08", "29 20", "31 08", "31 20"]


def test_a_century_is_counted_without_walking_it() -> None:
    window = DailyWindow("1s", "00:00", "23:59:59", "Europe/Berlin")
    first = to_instant(datetime(2000, 1, 1, tzinfo=UTC))
    assert window.count_between(first, first + 36_525 * DAY) == COUNT_LIMIT + 1


def test_it_says_itself_in_words() -> None:
    window = DailyWindow("15m", "09:00", "17:00", days=["mon-fri"], repeat=5)
    assert window.words() == "Every 15 minutes from 09:00 to 17:00, at most 5 times, on Monday to Friday"
    assert str(window) == "every 15m from 09:00 to 17:00 on mon, tue, wed, thu, fri, 5 a day"
    assert (
        DailyWindow("1h", "22:00", "06:00").words()
        == "Every hour from 22:00 to 06:00 of the next day, every day"
    )


WRONG: list[tuple[tuple[str, str, str], dict[str, Any], str]] = [
    (("2d", "09:00", "10:00"), {}, "every 2d is longer than a day; use calendar_interval"),
    (("1h", "9", "10:00"), {}, "'9' is not a time of day; write it as in 09:00"),
    (("1h", "09:00", "24:00"), {}, "up to 23:59:59"),
    (("1h", "09:00", "10:00"), {"days": ["monday", "xyz"]}, "'xyz' is no day of the week; use mon"),
    (("1h", "09:00", "10:00"), {"days": []}, "leave `days` out for every day"),
    (("1h", "09:00", "10:00"), {"repeat": 0}, "repeat 0 is not a whole number"),
    (("1", "09:00", "10:00"), {}, "'1' is not a duration"),
]


@pytest.mark.parametrize(("window", "said", "message"), WRONG)
def test_what_makes_no_sense_is_refused_with_a_next_step(
    window: tuple[str, str, str], said: Any, message: str
) -> None:
    with pytest.raises(TriggerError) as refused:
        DailyWindow(*window, **said)
    assert message in str(refused.value)


CHANGES = [
    ("Australia/Lord_Howe", datetime(2026, 4, 3), datetime(2026, 10, 2)),
    ("America/Santiago", datetime(2026, 4, 3), datetime(2026, 9, 4)),
    ("Africa/Cairo", datetime(2026, 4, 22), datetime(2026, 10, 28)),
    ("Antarctica/Troll", datetime(2026, 3, 27), datetime(2026, 10, 23)),
    ("Pacific/Apia", datetime(2011, 12, 28), datetime(2012, 3, 30)),
    ("Africa/Casablanca", datetime(2026, 2, 13), datetime(2026, 3, 20)),
    ("America/St_Johns", datetime(2010, 3, 12), datetime(2010, 11, 5)),  # one minute after midnight
]


@settings(max_examples=60, deadline=None)
@given(
    place=st.sampled_from(CHANGES),
    autumn=st.booleans(),
    every=st.sampled_from([10, 25, 60, 90, 240]),
    begins=st.integers(0, 1439) | st.integers(0, 200),
    ends=st.integers(0, 1439) | st.integers(0, 200),
    days=st.sets(st.sampled_from(WEEKDAYS), min_size=1),
    repeat=st.sampled_from([None, None, 1, 3]),
)
def test_it_equals_a_look_at_every_minute(
    place: tuple[str, datetime, datetime],
    autumn: bool,
    every: int,
    begins: int,
    ends: int,
    days: set[str],
    repeat: int | None,
) -> None:
    zone, begin = place[0], (place[2] if autumn else place[1]).replace(tzinfo=UTC)
    said: dict[str, Any] = {"days": sorted(days), **({} if repeat is None else {"repeat": repeat})}
    written = [f"{minute // 60:02}:{minute % 60:02}" for minute in (begins, ends)]
    schedule = DailyWindow(f"{every}m", written[0], written[1], zone, **said)
    low, high = instants(begin, 5)
    slots = [
        slot
        for slot in _minute_by_minute(zone, begin, (every, begins, ends), days, repeat)
        if low <= slot <= high
    ]
    assert walk(schedule, low, high) == slots
    keeps_the_laws(schedule, slots, low, high)


def _minute_by_minute(
    zone: str, begin: datetime, window: tuple[int, int, int], days: set[str], repeat: int | None
) -> list[int]:
    every, begins, ends = window
    step, found = timedelta(minutes=1), []
    for number in range(-2, 7):
        day = begin.replace(tzinfo=None) + timedelta(days=number)
        if WEEKDAYS[day.weekday()] not in days:
            continue
        shown = _clock_shown(zone, begin)[(number + 2) * 1440 : (number + 6) * 1440]
        first, last = day + step * begins, day + step * (ends + (1440 if ends < begins else 0))
        inside = [at for at, wall in shown if first <= wall <= last]
        next_begins = next(at for at, wall in shown if wall >= first + timedelta(days=1))
        inside = [at for at in inside if at < next_begins]
        if inside:
            count = (inside[-1] - inside[0]) // (step * every) + 1
            count = count if repeat is None else min(count, repeat)
            found += [to_instant(inside[0] + step * every * k) for k in range(count)]
    return found


@cache
def _clock_shown(zone: str, begin: datetime) -> list[tuple[datetime, datetime]]:
    """Each minute of some days, and what clocks show then."""
    tz = ZoneInfo(zone)
    minutes = [begin + timedelta(minutes=i) for i in range(-3 * 1440, 10 * 1440)]
    return [(at, at.astimezone(tz).replace(tzinfo=None)) for at in minutes]


@settings(max_examples=40, deadline=None)
@given(
    zone=st.sampled_from(AWKWARD),
    begin=st.datetimes(datetime(2009, 1, 1), datetime(2036, 1, 1)),
    years=st.integers(1, 40),
)
def test_long_counts_equal_the_sum_of_short_ones(zone: str, begin: datetime, years: int) -> None:
    window = DailyWindow("6h", "22:30", "07:00", zone, days=["sat", "sun", "tue"])
    first = to_instant(begin.replace(tzinfo=UTC))
    parts = [first + i * 100 * DAY for i in range(years * 4)]
    each = sum(window.count_between(part, part + 100 * DAY - 1) for part in parts)
    assert window.count_between(first, parts[-1] + 100 * DAY - 1) == each
