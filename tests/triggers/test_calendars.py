"""Calendars: what is left out, for how long, and the schedules around that; compared with plain scans."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qsched.triggers.calendars.calendar import Calendar
from qsched.triggers.calendars.compiling import compile_calendar
from qsched.triggers.calendars.excluding import exclude
from qsched.triggers.calendars.landing import FARTHEST, Roll
from qsched.triggers.cron import Cron
from qsched.triggers.errors import ScheduleError
from qsched.triggers.instant import DAY, HOUR, MINUTE, SECOND, from_instant, to_instant
from qsched.triggers.interval import Every
from qsched.triggers.schedule import Schedule
from qsched.triggers.zone import find_zone

EXAMPLES = 600 if os.environ.get("QSCHED_LONG") == "1" else 40
Specs = Mapping[str, Mapping[str, Any]]
ZONES = (
    "UTC",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Cairo",
    "Antarctica/Troll",
    "America/Havana",
    "Pacific/Apia",
)


def at(text: str, zone: str = "UTC") -> int:
    return to_instant(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)))


def shown(instant: int | None, zone: str = "UTC") -> str | None:
    return (
        None if instant is None else f"{from_instant(instant).astimezone(ZoneInfo(zone)):%a %Y-%m-%d %H:%M}"
    )


# -- one calendar each -----------------------------------------------------------------------------------------------------


def test_a_day_that_is_left_out_begins_and_ends_at_its_zones_midnights() -> None:
    calendar = compile_calendar({"dates": [["2026-12-24", "2026-12-25"]]}, "Europe/Istanbul")
    begin, end = at("2026-12-24", "Europe/Istanbul"), at("2026-12-26", "Europe/Istanbul")
    assert [calendar.excludes(each) for each in (begin - 1, begin, end - 1, end)] == [
        False,
        True,
        True,
        False,
    ]
    assert calendar.changes_after(begin) == end
    assert calendar.changes_before(end - 1) == begin


def test_a_calendar_has_its_own_zone_whatever_the_triggers_is() -> None:
    calendar = compile_calendar({"dates": [["2026-12-24", "2026-12-24"]], "time_zone": "Asia/Tokyo"}, "UTC")
    assert calendar.excludes(at("2026-12-24", "Asia/Tokyo"))
    assert not calendar.excludes(at("2026-12-24T20:00"))


def test_days_of_each_year_go_over_the_new_year() -> None:
    calendar = compile_calendar({"yearly": [["12-24", "01-02"]]}, "UTC")
    for year in (2026, 2031):
        assert calendar.excludes(at(f"{year}-12-24"))
        assert calendar.excludes(at(f"{year}-01-02T23:59"))
        assert not calendar.excludes(at(f"{year}-01-03"))


def test_hours_go_over_midnight() -> None:
    calendar = compile_calendar({"daily": [["22:00", "06:00"]]}, "UTC")
    assert [calendar.excludes(at(f"2026-05-05T{hour}:00")) for hour in ("21", "22", "23", "05", "06")] == [
        *(False, True, True),
        *(True, False),
    ]
    assert calendar.changes_after(at("2026-05-05T06:00")) == at("2026-05-05T22:00")


def test_a_run_of_minutes_is_jumped_over_whole() -> None:
    calendar = compile_calendar({"cron": "* * 24-31 12 *"}, "UTC")
    begin, end = at("2026-12-24"), at("2027-01-01")
    assert calendar.changes_after(begin) == end
    assert calendar.changes_before(end - 1) == begin
    assert not calendar.excludes(end)


def test_holidays_of_a_country_and_of_a_part_of_it() -> None:
    turkey = compile_calendar({"holidays": {"country": "TR"}}, "Europe/Istanbul")
    assert turkey.excludes(at("2026-10-29T12:00", "Europe/Istanbul"))
    bavaria = compile_calendar({"holidays": {"country": "DE", "subdivision": "BY"}}, "Europe/Berlin")
    whole = compile_calendar({"holidays": {"country": "DE"}}, "Europe/Berlin")
    epiphany = at("2026-01-06T12:00", "Europe/Berlin")
    assert (bavaria.excludes(epiphany), whole.excludes(epiphany)) == (True, False)


def test_events_that_come_again_are_left_out_each_time_but_where_they_do_not() -> None:
    said = {
        "rrule": "FREQ=WEEKLY;BYDAY=TU",
        "start": "2026-01-06T10:00:00",
        "length": 7200,
        "except": ["2026-01-13T10:00:00"],
    }
    calendar = compile_calendar({"recurring": [said]}, "Europe/Berlin")
    assert calendar.excludes(at("2026-01-06T11:59", "Europe/Berlin"))
    assert not calendar.excludes(at("2026-01-06T12:00", "Europe/Berlin"))
    assert not calendar.excludes(at("2026-01-13T10:30", "Europe/Berlin"))
    assert calendar.excludes(at("2036-01-08T10:30", "Europe/Berlin"))
    assert calendar.changes_after(at("2026-01-06T12:00", "Europe/Berlin")) == at(
        "2026-01-20T10:00", "Europe/Berlin"
    )


def test_any_leaves_out_what_one_of_them_does() -> None:
    calendar = compile_calendar({"any": [{"weekly": ["sun"]}, {"daily": [["22:00", "24:00"]]}]}, "UTC")
    assert calendar.excludes(at("2026-05-03T10:00"))
    assert calendar.excludes(at("2026-05-04T22:30"))
    assert not calendar.excludes(at("2026-05-04T21:59"))


# -- every calendar: the stretches are what a scan finds -----------------------------------------------------------------

day_names = st.lists(
    st.sampled_from(("mon", "tue", "wed", "thu", "fri", "sat", "sun")), min_size=1, max_size=6, unique=True
)
dates = st.dates(datetime(2018, 9, 20).date(), datetime(2018, 11, 20).date())


@st.composite
def of_days(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if draw(st.booleans()):
        spec["weekly"] = draw(day_names)
    if not spec or draw(st.booleans()):
        firsts = draw(st.lists(dates, min_size=1, max_size=4))
        spec["dates"] = [
            [str(first), str(first + timedelta(days=draw(st.integers(0, 6))))] for first in firsts
        ]
    if draw(st.booleans()):
        spec["yearly"] = [["10-28", draw(st.sampled_from(("10-29", "11-04")))]]
    if draw(st.booleans()):
        spec["time_zone"] = draw(st.sampled_from(ZONES))
    return spec


@st.composite
def of_hours(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if draw(st.booleans()):
        hours = st.integers(0, 23).map(lambda hour: f"{hour:02}:30")
        spec["daily"] = [[draw(hours), draw(hours)]]
    if draw(st.booleans()):
        spec["cron"] = draw(
            st.sampled_from(("* 1-3 * * *", "*/20 * * * *", "* * * * sun", "0-29 * 3-5 11 *"))
        )
    if not spec or draw(st.booleans()):
        spec["spans"] = [["2018-11-03T22:15:00+00:00", "2018-11-04T05:45:00+00:00"]]
    return spec


# Around the changes of October and November 2018 in most of the zones.
instants = st.integers(at("2018-10-01T00:00") // MINUTE, at("2018-11-12T00:00") // MINUTE).map(
    lambda m: m * MINUTE
)


@settings(max_examples=EXAMPLES)
@given(st.one_of(of_days(), of_hours()), st.sampled_from(ZONES), instants)
def test_the_answer_stays_the_same_between_the_edges_that_a_calendar_names(
    spec: Mapping[str, Any], zone: str, instant: int
) -> None:
    calendar = compile_calendar(spec, zone)
    now = calendar.excludes(instant)
    after = calendar.changes_after(instant)
    before = calendar.changes_before(instant)
    assert after is None or after > instant
    assert before is None or before <= instant
    end = min(after if after is not None else instant + 3 * DAY, instant + 3 * DAY)
    begin = max(before if before is not None else instant - 3 * DAY, instant - 3 * DAY)
    for probe in range(instant, end, 7 * MINUTE):
        assert calendar.excludes(probe) is now
    assert calendar.excludes(end - 1) is now
    for probe in range(instant, begin - 1, -7 * MINUTE):
        assert calendar.excludes(probe) is now
    assert calendar.excludes(begin) is now


# -- schedules around them ------------------------------------------------------------------------------------------------


@st.composite
def sparse(draw: st.DrawFn, zone: str) -> Schedule:
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return Every(draw(st.sampled_from((5 * HOUR, 36 * HOUR, 11 * HOUR + 7 * MINUTE))))
    return Cron(
        draw(
            st.sampled_from(
                ("30 2 * * *", "0 9,17 * * *", "0 0 * * *", "15 */6 1-10 * *", "0 3 * * 0", "45 23 31 10 *")
            )
        ),
        "unix",
        zone,
    )


def scan(schedule: Schedule, first: int, last: int) -> list[int]:
    """Its slots from `first` to `last`, both included."""
    found: list[int] = []
    slot = schedule.slot_after(first - 1)
    while slot is not None and slot <= last:
        found.append(slot)
        slot = schedule.slot_after(slot)
    return found


@settings(max_examples=EXAMPLES)
@given(st.data(), st.sampled_from(ZONES), st.one_of(of_days(), of_hours()), instants)
def test_what_is_left_out_is_no_slot_and_nothing_else_changes(
    data: st.DataObject, zone: str, spec: Mapping[str, Any], instant: int
) -> None:
    inner = data.draw(sparse(zone))
    calendar = compile_calendar(spec, zone)
    schedule = exclude(inner, {"closed": spec}, "skip", zone)
    expected = [
        slot for slot in scan(inner, instant - 40 * DAY, instant + 40 * DAY) if not calendar.excludes(slot)
    ]
    agrees(schedule, expected, instant)


@settings(max_examples=EXAMPLES // 2)
@given(st.data(), st.sampled_from(ZONES), of_days(), instants)
def test_a_roll_is_the_set_of_where_each_slot_lands(
    data: st.DataObject, zone: str, spec: Mapping[str, Any], instant: int
) -> None:
    inner = data.draw(sparse(zone))
    way = data.draw(st.sampled_from(("next", "previous")))
    schedule = exclude(inner, {"closed": spec}, way, zone)
    days = (40 + FARTHEST + 2) * DAY
    calendar = compile_calendar(spec, zone)
    landed = {
        land(slot, calendar, zone, 1 if way == "next" else -1)
        for slot in scan(inner, instant - days, instant + days)
    }
    expected = sorted(
        slot for slot in landed if slot is not None and instant - 40 * DAY <= slot <= instant + 40 * DAY
    )
    agrees(schedule, expected, instant)


def land(slot: int, calendar: Calendar, zone: str, way: int) -> int | None:
    """By plain dates: the same wall time, a day further each time."""
    tz = ZoneInfo(zone)
    there = slot
    wall = from_instant(slot).astimezone(tz).replace(tzinfo=None)
    for days in range(1, FARTHEST + 1):
        if not calendar.excludes(there):
            return there
        moved = wall + timedelta(days=way * days)
        aware = moved.replace(tzinfo=tz)
        there = to_instant(aware)
        if aware.astimezone(UTC).astimezone(tz).replace(tzinfo=None) != moved:  # in a gap: when that ends
            there = to_instant(aware.replace(fold=1).astimezone(UTC))
            while from_instant(there).astimezone(tz).replace(tzinfo=None) < moved:
                there += MINUTE
            while from_instant(there - SECOND).astimezone(tz).replace(tzinfo=None) >= moved:
                there -= SECOND
    return None if calendar.excludes(there) else there


def agrees(schedule: Schedule, expected: list[int], instant: int) -> None:
    """The three questions, answered as the list of slots around `instant` answers them."""
    if not expected:
        return
    first, last = expected[0], expected[-1]
    walk, slot = [], schedule.slot_after(first - 1)
    while slot is not None and slot <= last:
        walk.append(slot)
        slot = schedule.slot_after(slot)
    assert walk == expected
    after = [each for each in expected if each > instant]
    before = [each for each in expected if each <= instant]
    if after:
        assert schedule.slot_after(instant) == after[0]
    if before:
        assert schedule.latest_before(instant) == before[-1]
    assert schedule.count_between(first, last) == len(expected)
    assert schedule.count_between(instant, last) == sum(each >= instant for each in expected)


@settings(max_examples=EXAMPLES * 4)
@given(st.sampled_from(ZONES), of_days(), instants, st.data())
def test_a_stretch_of_slots_moves_as_one(
    zone: str, spec: Mapping[str, Any], instant: int, data: st.DataObject
) -> None:
    roll = Roll(compile_calendar(spec, zone), find_zone(zone), data.draw(st.sampled_from((1, -1))))
    for side in (1, -1):
        there, like = roll.of(instant, side)
        assert there == roll.landing(instant)
        moved = side * data.draw(st.sampled_from((like, like // 2)) | st.integers(0, like))
        assert roll.landing(instant + moved) == (None if there is None else there + moved)


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(ZONES), of_days(), instants, st.data())
def test_no_slot_of_many_lands_between_an_instant_and_what_is_said_to_come_next(
    zone: str, spec: Mapping[str, Any], instant: int, data: st.DataObject
) -> None:
    gap = data.draw(st.sampled_from((SECOND, 7 * MINUTE)))
    way = data.draw(st.sampled_from(("next", "previous")))
    rolling: Any = exclude(Every(gap), {"closed": spec}, way, zone)
    after, before = rolling.slot_after(instant), rolling.latest_before(instant)
    assert before <= instant < after
    for near in (before, after):
        assert rolling.latest_before(near) == near == rolling.slot_after(near - 1)
        assert rolling.count_between(near, near) == 1
    for _ in range(40):
        source = instant + data.draw(st.integers(-15 * DAY, 15 * DAY))
        there = rolling.landing(source // gap * gap)
        assert there is None or not before < there < after


# -- what people meet ------------------------------------------------------------------------------------------------------


def test_the_last_day_of_a_month_rolls_back_to_friday_and_the_first_on_to_monday() -> None:
    weekend: Specs = {"weekend": {"weekly": ["sat", "sun"]}}
    month_end = exclude(
        Cron("0 30 18 L * ?", "quartz", "Europe/Istanbul"), weekend, "previous", "Europe/Istanbul"
    )
    assert shown(month_end.slot_after(at("2026-01-02")), "Europe/Istanbul") == "Fri 2026-01-30 18:30"
    first = exclude(Cron("0 9 1 * *"), weekend, "next", "UTC")
    assert shown(first.slot_after(at("2026-07-15"))) == "Mon 2026-08-03 09:00"


def test_slots_that_roll_to_one_instant_are_one_slot() -> None:
    schedule = exclude(Cron("0 9 * * *"), {"weekend": {"weekly": ["sat", "sun"]}}, "next", "UTC")
    assert [shown(slot) for slot in scan(schedule, at("2026-05-01"), at("2026-05-05T23:00"))] == [
        "Fri 2026-05-01 09:00",
        "Mon 2026-05-04 09:00",
        "Tue 2026-05-05 09:00",
    ]


def test_a_preview_says_what_was_left_out_by_which_calendar_and_where_it_went() -> None:
    calendars: Specs = {
        "weekend": {"weekly": ["sat", "sun"]},
        "freeze": {"dates": [["2026-05-04", "2026-05-04"]]},
    }
    rolling: Any = exclude(Cron("0 9 * * *"), calendars, "next", "UTC")
    found = rolling.left_out(at("2026-05-01"), at("2026-05-05"))
    assert [(shown(each.slot), each.calendars, shown(each.rolled_to)) for each in found] == [
        ("Sat 2026-05-02 09:00", ("weekend",), "Tue 2026-05-05 09:00"),
        ("Sun 2026-05-03 09:00", ("weekend",), "Tue 2026-05-05 09:00"),
        ("Mon 2026-05-04 09:00", ("freeze",), "Tue 2026-05-05 09:00"),
    ]
    assert rolling.notes(at("2026-05-05T09:00")) == "rolled from Sat 02 May, Sun 03 May, Mon 04 May"
    skipping: Any = exclude(Cron("0 9 * * *"), calendars, "skip", "UTC")
    assert [each.rolled_to for each in skipping.left_out(at("2026-05-01"), at("2026-05-05"))] == [None] * 3


def test_calendars_that_leave_out_everything_are_refused_not_searched_for_ever() -> None:
    always: Specs = {"closed": {"weekly": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}}
    for way, inner in (("skip", Every(SECOND)), ("next", Every(SECOND)), ("previous", Cron("0 9 * * *"))):
        assert exclude(inner, always, way, "UTC").slot_after(at("2026-05-01")) is None
    assert exclude(Every(SECOND), always, "next", "UTC").latest_before(at("2026-05-01")) is None


def test_a_roll_over_hours_is_refused_with_the_calendar_named() -> None:
    with pytest.raises(ScheduleError, match="calendar 'nights' leaves out hours"):
        exclude(Cron("0 9 * * *"), {"nights": {"daily": [["22:00", "06:00"]]}}, "next", "UTC")
