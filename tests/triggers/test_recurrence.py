"""Recurrence: what RFC 5545 says, by the zone rule, however long ago it began."""

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from qsched.triggers.errors import ScheduleError
from qsched.triggers.instant import DAY, from_instant, to_instant
from qsched.triggers.recurrence import Recurrence
from qsched.triggers.schedule import COUNT_LIMIT, note_on

from support.wall_brute import AWKWARD, instants, keeps_the_laws, slots_of, walk

NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)


def next_of(schedule: Recurrence, count: int, begin: datetime = NEW_YEAR) -> list[str]:
    slot = to_instant(begin)
    found: list[str] = []
    for _ in range(count):
        following = schedule.slot_after(slot)
        if following is None:
            return found
        found.append(f"{from_instant(following).astimezone(ZoneInfo(schedule.time_zone)):%Y-%m-%d %H:%M}")
        slot = following
    return found


def test_the_last_friday_of_each_month() -> None:
    rule = Recurrence("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=18", "Europe/Istanbul")
    assert next_of(rule, 3) == ["2027-01-29 18:00", "2027-02-26 18:00", "2027-03-26 18:00"]


def test_what_the_rule_leaves_open_comes_from_the_start() -> None:
    start = datetime(2026, 12, 31, 9, 30, tzinfo=UTC)
    assert next_of(Recurrence("FREQ=MONTHLY", "UTC", start), 2) == ["2027-01-31 09:30", "2027-03-31 09:30"]
    assert next_of(Recurrence("FREQ=YEARLY", "UTC", start), 1) == ["2027-12-31 09:30"]
    assert next_of(Recurrence("FREQ=WEEKLY;INTERVAL=2", "UTC", start), 2) == [
        "2027-01-14 09:30",
        "2027-01-28 09:30",
    ]
    assert next_of(Recurrence("FREQ=DAILY;INTERVAL=3", "UTC", start), 2) == [
        "2027-01-03 09:30",
        "2027-01-06 09:30",
    ]


def test_a_line_dtstart_says_where_it_counts_from_and_dates_are_added_and_left_out() -> None:
    text = """
        DTSTART;TZID=Europe/Istanbul:20270104T090000
        RRULE:FREQ=WEEKLY;COUNT=3
        EXDATE:20270111T090000
        RDATE:20270113T120000,20270112T060000Z
    """
    rule = Recurrence(text, "Europe/Istanbul")
    assert next_of(rule, 9) == [
        "2027-01-04 09:00",
        "2027-01-12 09:00",
        "2027-01-13 12:00",
        "2027-01-18 09:00",
    ]
    first = to_instant(NEW_YEAR)
    keeps_the_laws(rule, walk(rule, first, first + 60 * DAY), first, first + 60 * DAY)


def test_a_folded_line_is_one() -> None:
    assert next_of(Recurrence("RRULE:FREQ=YEARLY;\r\n BYMONTH=5;BYMONTHDAY=1"), 1) == ["2027-05-01 00:00"]


def test_until_belongs_to_the_rule() -> None:
    start = datetime(2027, 1, 1, 9, tzinfo=UTC)
    for until, count in (
        ("20270103T090000Z", 3),
        ("20270103T085959Z", 2),
        ("20270103T090000", 3),
        ("20270103", 3),
    ):
        rule = Recurrence(f"FREQ=DAILY;UNTIL={until}", "UTC", start)
        assert len(next_of(rule, 9)) == count
        assert rule.slot_after(to_instant(start) + 9 * DAY) is None
        assert rule.count_between(0, 10**18) == count


def test_until_in_utc_is_an_instant_in_the_hour_that_comes_twice() -> None:
    start = datetime(2026, 10, 24, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    rule = Recurrence("FREQ=DAILY;UNTIL=20261025T004500Z", "Europe/Berlin", start)
    assert rule.latest_before(10**18) == to_instant(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))


def test_a_time_that_does_not_exist_runs_when_the_gap_ends() -> None:
    rule = Recurrence("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "Europe/Berlin")
    begin = datetime(2026, 3, 28, 12, tzinfo=UTC)
    assert next_of(rule, 2, begin) == ["2026-03-29 03:00", "2026-03-30 02:30"]
    assert note_on(rule, rule.slot_after(to_instant(begin)) or 0) == (
        "02:30 does not exist on this day: runs when the gap ends"
    )
    assert next_of(Recurrence(rule.text, "Europe/Berlin", gap="skip"), 1, begin) == ["2026-03-30 02:30"]


def test_a_rule_by_hours_follows_the_clock_through_the_hour_that_comes_twice() -> None:
    rule = Recurrence("FREQ=HOURLY", "Europe/Berlin")
    begin = to_instant(datetime(2026, 10, 24, 22, tzinfo=UTC))
    assert rule.count_between(begin, begin + DAY - 1) == 24


def test_days_that_a_month_has_not_are_left_out() -> None:
    assert next_of(Recurrence("FREQ=MONTHLY;BYMONTHDAY=31"), 2) == ["2027-01-31 00:00", "2027-03-31 00:00"]


RARE = ["FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", "FREQ=SECONDLY;INTERVAL=86400;BYMONTH=2;BYMONTHDAY=29"]


@pytest.mark.parametrize("text", RARE)
def test_a_rare_rule_is_found_forwards_and_backwards(text: str) -> None:
    rule = Recurrence(text)
    slots = walk(rule, 0, to_instant(datetime(2200, 1, 1, tzinfo=UTC)))
    days = [from_instant(slot) for slot in slots]
    assert len(days) > 5
    assert all((day.month, day.day) == (2, 29) for day in days)
    for sooner, later in pairwise(slots[:6]):
        assert rule.latest_before(later - 1) == sooner


NEVER = [
    "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=SECONDLY;BYMONTH=4;BYMONTHDAY=31",
    "FREQ=YEARLY;BYDAY=MO;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=HOURLY;INTERVAL=24;BYHOUR=5",
    "FREQ=DAILY;INTERVAL=7;BYDAY=MO",
    "RRULE:FREQ=YEARLY;COUNT=1\nDTSTART:20270101T000000\nEXDATE:20270101T000000",
]


@pytest.mark.parametrize("text", NEVER)
def test_what_can_never_fire_is_refused_in_bounded_time(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(ScheduleError, match="can never fire"):
        Recurrence(text)
    assert time.process_time() - begun < 10


@pytest.mark.parametrize("text", ["FREQ=DAILY;BYHOUR=2", "FREQ=MINUTELY;BYDAY=MO,FR", "FREQ=SECONDLY"])
def test_a_backlog_of_ten_years_is_counted_in_bounded_time(text: str) -> None:
    rule = Recurrence(text, "America/New_York")
    now = to_instant(NEW_YEAR)
    begun = time.process_time()
    count = rule.count_between(now - 3652 * DAY, now)
    assert time.process_time() - begun < 5
    assert count == (COUNT_LIMIT + 1 if "DAILY" not in text else 3652)


WORDS = [
    ("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=18", "Every month, on the last Friday, at 18:00"),
    ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;BYHOUR=9;BYMINUTE=0,30", "Every 2 weeks, on Monday and Wednesday, at 09:00 and 09:30"),
    ("FREQ=WEEKLY", "Every week, on Thursday, at 00:00"),
    ("FREQ=YEARLY", "Every year, on day 1 of January, at 00:00"),
    ("FREQ=YEARLY;BYMONTH=5,11;BYDAY=2SU", "Every year, on the 2nd Sunday, in May and November, at 00:00"),
    ("FREQ=MINUTELY;INTERVAL=15;BYHOUR=9,10", "Every 15 minutes, at hour 9 and 10"),
    ("FREQ=MONTHLY;BYMONTHDAY=-2", "Every month, on the 2nd to last day, at 00:00"),
    (
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;UNTIL=20300101T000000",
        "Every month, on Monday, Tuesday, Wednesday, Thursday and Friday, at 00:00,"
        " only the last of those in each month, until 2030-01-01 00:00:00",
    ),
    ("DTSTART:20270104T093000\nFREQ=DAILY;COUNT=5\nEXDATE:20270105T093000", "Every day, at 09:30, 5 times, without one date"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WORDS)
def test_it_says_itself_in_words(text: str, words: str) -> None:
    assert Recurrence(text).words() == words


def test_a_list_shows_the_rule_and_how_much_more_there_is() -> None:
    assert str(Recurrence("FREQ=DAILY;BYHOUR=9")) == "rrule FREQ=DAILY;BYHOUR=9"
    text = "DTSTART:20270104T090000\nRRULE:FREQ=DAILY\nEXDATE:20270111T090000"
    assert str(Recurrence(text)) == "rrule FREQ=DAILY (and 2 lines)"


WRONG = [
    ("", "expected a text"),
    ("DAILY", "no NAME=VALUE; write it as in FREQ=WEEKLY;BYDAY=MO,WE"),
    ("FREQ=FORTNIGHTLY", "FREQ=FORTNIGHTLY is not known; use one of YEARLY"),
    ("BYDAY=MO", "FREQ is missing; use one of"),
    ("FREQ=DAILY;BYHOURS=9", "'BYHOURS' is not known; did you mean BYHOUR?"),
    ("FREQ=DAILY;FREQ=WEEKLY", "FREQ is given twice"),
    ("FREQ=DAILY;INTERVAL=0", "INTERVAL=0 is not a whole number from 1"),
    ("FREQ=DAILY;COUNT=10001", "COUNT=10001 is not a whole number from 1 to 10000"),
    ("FREQ=DAILY;COUNT=3", "COUNT counts from a beginning, and there is none; add start_at"),
    ("FREQ=DAILY;COUNT=3;UNTIL=20270101", "COUNT and UNTIL are both given; keep one"),
    ("FREQ=DAILY;UNTIL=tomorrow", "UNTIL 'TOMORROW' is no time; write it as in 20270131T090000"),
    ("FREQ=DAILY;UNTIL=20270230", "UNTIL '20270230' is no time"),
    ("FREQ=DAILY;BYHOUR=24", "BYHOUR '24' is no number from 0 to 23; correct it"),
    ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY '0' is no number from 1 to 31, or -31 to -1 from the end"),
    ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY '1MO' counts in a month or year, which FREQ=WEEKLY has not; write MO"),
    ("FREQ=WEEKLY;BYDAY=MON", "BYDAY 'MON' is no weekday; use MO to SU"),
    ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY has no meaning with FREQ=WEEKLY"),
    ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS picks from what another BY… part names"),
    ("FREQ=DAILY;WKST=XX", "WKST=XX is no weekday"),
    ("RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY", "2 RRULE lines, and one is needed; combine rules by `any`"),
    ("RRULE:FREQ=DAILY\nEXRULE:FREQ=WEEKLY", "a line 'EXRULE' is not known; use RRULE"),
    ("DTSTART;TZID=Asia/Tokyo:20270101T090000\nFREQ=DAILY", "DTSTART is in Asia/Tokyo and the trigger in UTC; set time_zone"),
    ("FREQ=DAILY\nEXDATE:2027-01-01", "EXDATE '2027-01-01' is no time"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_makes_no_sense_is_refused_with_a_next_step(text: str, message: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        Recurrence(text)
    assert message in str(refused.value)


def _part(name: str, *values: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True).map(
        lambda chosen: f"{name}={','.join(chosen)}"
    )


_OF_ALL = [
    _part("BYMONTH", "1", "2", "3", "10", "12"),
    _part("BYHOUR", "0", "2", "3", "9", "23"),
    st.just("WKST=SU"),
]
_OF_FREQ: dict[str, list[Any]] = {
    "YEARLY": [
        _part("BYDAY", "MO", "-1FR", "2SU"),
        _part("BYMONTHDAY", "1", "29", "31", "-1"),
        _part("BYYEARDAY", "1", "100", "-1", "366"),
        _part("BYSETPOS", "1", "-1", "3"),
    ],
    "MONTHLY": [
        _part("BYDAY", "MO", "TU", "-1FR", "2SU"),
        _part("BYMONTHDAY", "1", "29", "31", "-2"),
        _part("BYSETPOS", "1", "-1", "2"),
    ],
    "WEEKLY": [_part("BYDAY", "MO", "WE", "SU"), _part("BYMINUTE", "0", "30")],
    "DAILY": [
        _part("BYDAY", "MO", "WE", "SU"),
        _part("BYMONTHDAY", "1", "15", "-1"),
        _part("BYMINUTE", "15", "45"),
    ],
    "HOURLY": [_part("BYDAY", "MO", "SA"), _part("BYMINUTE", "0", "30")],
    "MINUTELY": [_part("BYDAY", "MO", "SA"), _part("BYSECOND", "0", "30")],
}


@st.composite
def rules(draw: st.DrawFn) -> str:
    freq = draw(st.sampled_from(sorted(_OF_FREQ)))
    least = 7 if freq == "MINUTELY" else 1
    parts = [f"FREQ={freq}", f"INTERVAL={draw(st.integers(least, least + 4))}"]
    for part in draw(
        st.lists(st.sampled_from(range(len(_OF_ALL) + len(_OF_FREQ[freq]))), max_size=3, unique=True)
    ):
        parts.append(draw((_OF_ALL + _OF_FREQ[freq])[part]))
    return ";".join(parts)


def _unless_refused(text: str, zone: str) -> Recurrence | None:
    """None for a rule that can never fire, or whose parts do not go together."""
    try:
        return Recurrence(text, zone)
    except ScheduleError:
        return None


@settings(max_examples=80, deadline=None)
@given(
    text=rules(),
    zone=st.sampled_from(AWKWARD),
    began=st.datetimes(datetime(2009, 1, 1), datetime(2012, 1, 1)),
    later=st.integers(0, 1500),
    count=st.sampled_from([None, None, 7, 100]),
)
def test_it_equals_dateutil_walked_from_the_very_start(
    text: str, zone: str, began: datetime, later: int, count: int | None
) -> None:
    began = began.replace(microsecond=0)
    text = text if count is None else f"{text};COUNT={count}"
    text = f"DTSTART:{began:%Y%m%dT%H%M%S}\nRRULE:{text}"
    schedule = _unless_refused(text, zone)
    assume(schedule is not None)
    assert schedule is not None
    freq = schedule.recurring.freq
    span = {"YEARLY": 3000, "MONTHLY": 900, "WEEKLY": 300, "DAILY": 60, "HOURLY": 10, "MINUTELY": 2}[freq]
    begin = began + timedelta(days=later if span > 10 else min(later, 200))
    low, high = instants(begin.replace(tzinfo=UTC), span)
    walls = []
    for wall in rrulestr(text):
        if wall > begin + timedelta(days=span + 2):
            break
        if wall >= begin - timedelta(days=2):
            walls.append(wall)
    assume(not (freq == "WEEKLY" and "BYSETPOS" in text))
    dst = ("skip", "twice") if schedule.follows_clock else ("run_after", "once")
    slots = [slot for slot in slots_of(walls, zone, *dst) if low <= slot <= high]
    assert walk(schedule, low, high) == slots
    keeps_the_laws(schedule, slots, low, high)
