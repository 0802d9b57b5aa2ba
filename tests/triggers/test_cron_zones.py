"""Changes of offset: the verified table, the options, and walking against a scan of every wall minute."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qsched.triggers.cron import Cron, Dialect, _compiled
from qsched.triggers.errors import CronError, TriggerError
from qsched.triggers.instant import SECOND, from_instant, to_instant
from qsched.triggers.wall_schedule import Dst
from qsched.triggers.zone import find_zone

from support.wall_scan import Written, slots_by_scan

# expression, zone, asked at, slots (all UTC); `T05:30` alone means the day of the slot before it
TABLE = """
0 2 * * *|Europe/Berlin|2023-10-28T12:00|2023-10-29T00:00 2023-10-30T01:00
30 2 * * *|Europe/Berlin|2024-03-30T12:00|2024-03-31T01:00 2024-04-01T00:30
0 12 * * *|Europe/Amsterdam|2013-10-26T12:00|2013-10-27T11:00 2013-10-28T11:00
0 0 * * *|America/Los_Angeles|2022-03-13T08:00|2022-03-14T07:00 2022-03-15T07:00
0 0 * * 0-4|America/Chicago|2021-03-14T07:00|2021-03-15T05:00 2021-03-16T05:00
4 16 * * *|America/New_York|2025-03-08T22:00|2025-03-09T20:04 2025-03-10T20:04
0 7,9 * * *|America/Los_Angeles|2020-03-07T18:00|2020-03-08T14:00 T16:00 2020-03-09T14:00
20 */4 * * *|America/Los_Angeles|2023-03-12T04:30|2023-03-12T08:20 T11:20 T15:20 T19:20
15 7,8,13,19 * * *|Europe/Brussels|2023-10-28T17:16|2023-10-29T06:15 T07:15 T12:15 T18:15
0 1-23/2 * * *|Europe/London|2024-10-26T23:00|2024-10-27T00:00 T03:00 T05:00
30 * * * *|Europe/Helsinki|2017-10-28T23:45|2017-10-29T00:30 T01:30 T02:30
0 * * * *|America/Los_Angeles|2026-11-01T07:30|2026-11-01T08:00 T09:00 T10:00
* * * * *|Europe/London|2016-10-30T00:59|2016-10-30T01:00 T01:01
*/30 * * * *|America/New_York|2024-03-10T06:20|2024-03-10T06:30 T07:00 T07:30
0 */2 * * *|America/Toronto|2023-03-12T05:30|2023-03-12T08:00 T10:00
0 0 * * 0|America/Santiago|2023-08-27T12:00|2023-09-03T04:00 2023-09-10T03:00
0 6 * * *|America/Santiago|2018-08-11T12:00|2018-08-12T09:00 2018-08-13T09:00
0 1 4 11 *|America/Sao_Paulo|2018-11-04T02:00|2018-11-04T03:00
0 0 4 11 *|America/Sao_Paulo|2018-11-03T12:00|2018-11-04T03:00
0 0 * * *|America/Havana|2024-03-09T12:00|2024-03-10T05:00 2024-03-11T04:00
0 0 * * *|Africa/Cairo|2024-04-25T12:00|2024-04-25T22:00 2024-04-26T21:00
15 2 * * *|Australia/Lord_Howe|2024-10-05T12:00|2024-10-05T15:30 2024-10-06T15:15
45 1 * * *|Australia/Lord_Howe|2024-04-06T12:00|2024-04-06T14:45 2024-04-07T15:15
*/15 * * * *|Australia/Lord_Howe|2024-04-06T14:40|2024-04-06T14:45 T15:00 T15:15 T15:30
0 0 1 * *|Europe/Berlin|2024-02-23T00:00|2024-02-29T23:00 2024-03-31T22:00 2024-04-30T22:00
0 9 * * *|Asia/Kathmandu|2024-01-10T00:00|2024-01-10T03:15
0 9 * * *|Pacific/Chatham|2024-04-06T00:00|2024-04-06T20:15 2024-04-07T20:15
0 9 * * *|Pacific/Apia|2011-12-28T20:00|2011-12-29T19:00 2011-12-30T19:00
* * * * *|Europe/Amsterdam|2023-10-29T01:30|2023-10-29T01:31 T01:32
"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_the_verified_table_holds(row: str) -> None:
    expr, zone, asked, expected = row.split("|")
    cron = Cron(expr, time_zone=zone)
    moment: datetime | None = datetime.fromisoformat(asked).replace(tzinfo=UTC)
    day = ""
    for value in expected.split():
        day = value.partition("T")[0] or day
        assert moment is not None
        moment = cron.next_after(moment)
        assert moment is not None
        assert moment.astimezone(UTC).isoformat() == f"{day}T{value.partition('T')[2]}:00+00:00"


def test_a_restart_inside_the_second_hour_runs_no_second_time() -> None:
    cron = Cron("0 2 * * *", time_zone="Europe/Berlin")
    restarted = datetime(2023, 10, 29, 0, 30, tzinfo=UTC)
    assert cron.next_after(restarted) == datetime(2023, 10, 30, 1, tzinfo=UTC)


def test_a_result_carries_the_zone_and_the_fold() -> None:
    cron = Cron("*/30 * * * *", time_zone="America/New_York")
    found = cron.next_after(datetime(2024, 11, 3, 6, 20, tzinfo=UTC))
    assert found is not None
    assert (found.isoformat(), found.fold) == ("2024-11-03T01:30:00-05:00", 1)
    assert found.tzinfo == ZoneInfo("America/New_York")
    utc = Cron("0 2 * * *").next_after(found)
    assert utc is not None
    assert str(utc.tzinfo) == "UTC"


def test_a_naive_datetime_is_refused() -> None:
    with pytest.raises(TriggerError, match="no time zone"):
        Cron("0 2 * * *").next_after(datetime(2024, 1, 1))


def test_slots_have_no_fraction_of_a_second_and_never_drift() -> None:
    cron = Cron("*/5 * * * * ?", "quartz", "Europe/Istanbul")
    moment = datetime(2024, 1, 10, 0, 0, 2, 999_999, tzinfo=UTC)
    slot = to_instant(moment)
    for _ in range(10_000):
        found, after = cron.next_after(moment), cron.slot_after(slot)
        assert found is not None
        assert after is not None
        assert (found.microsecond, to_instant(found) % (5 * SECOND)) == (0, 0)
        moment, slot = found + timedelta(microseconds=3), after + 3
    assert to_instant(moment) == slot == to_instant(datetime(2024, 1, 10, 13, 53, 20, tzinfo=UTC)) + 3


NEW_YORK = "America/New_York"
GAP, OVERLAP = "2024-03-10", "2024-11-03"


@pytest.mark.parametrize(
    ("expr", "dst", "expected"),
    [
        ("30 2 * * *", {}, ["03-10T03:00-04:00", "03-11T02:30-04:00"]),
        ("30 2 * * *", {"gap": "skip"}, ["03-11T02:30-04:00", "03-12T02:30-04:00"]),
        ("0,30 2,3 * * *", {}, ["03-10T03:00-04:00", "03-10T03:30-04:00"]),
        ("*/20 2 * * *", {}, ["03-11T02:00-04:00", "03-11T02:20-04:00"]),
        ("*/20 2 * * *", {"gap": "run_after"}, ["03-11T02:00-04:00", "03-11T02:20-04:00"]),
    ],
)
def test_a_gap_follows_its_option(expr: str, dst: Dst, expected: list[str]) -> None:
    assert _walk(expr, dst, f"{GAP}T00:30-05:00") == expected


@pytest.mark.parametrize(
    ("expr", "dst", "expected"),
    [
        ("30 1 * * *", {}, ["11-03T01:30-04:00", "11-04T01:30-05:00"]),
        ("30 1 * * *", {"overlap": "twice"}, ["11-03T01:30-04:00", "11-03T01:30-05:00"]),
        ("*/30 1 * * *", {"overlap": "once"}, ["11-03T01:00-04:00", "11-03T01:30-04:00"]),
        ("30 * * * *", {}, ["11-03T01:30-04:00", "11-03T01:30-05:00"]),
    ],
)
def test_an_overlap_follows_its_option(expr: str, dst: Dst, expected: list[str]) -> None:
    assert _walk(expr, dst, f"{OVERLAP}T00:30-04:00") == expected


def _walk(expr: str, dst: Dst, start: str) -> list[str]:
    cron = Cron(expr, time_zone=NEW_YORK, **dst)
    first = cron.next_after(datetime.fromisoformat(start))
    assert first is not None
    second = cron.next_after(first)
    assert second is not None
    return [slot.isoformat()[5:].replace(":00-0", "-0") for slot in (first, second)]


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(CronError, match="use 'run_after' or 'skip'"):
        Cron("0 2 * * *", gap="never")
    with pytest.raises(CronError, match="use 'once' or 'twice'"):
        Cron("0 2 * * *", overlap="thrice")


@pytest.mark.parametrize(
    ("expr", "dst", "slot", "note"),
    [
        ("30 2 * * *", {}, f"{GAP}T03:00-04:00", "02:30 does not exist on this day: runs when the gap ends"),
        ("30 2 * * *", {"gap": "skip"}, "2024-03-11T02:30-04:00", f"02:30 of {GAP} does not exist and is skipped"),
        ("0 */2 * * *", {}, f"{GAP}T04:00-04:00", f"02:00 of {GAP} does not exist and is skipped"),
        ("0 */2 * * *", {}, f"{GAP}T06:00-04:00", None),
        ("30 1 * * *", {}, f"{OVERLAP}T01:30-04:00", "first 01:30 of two on this day: the second is not run"),
        ("30 * * * *", {}, f"{OVERLAP}T01:30-04:00", "first 01:30 of two on this day: the second runs too"),
        ("30 * * * *", {}, f"{OVERLAP}T01:30-05:00", "second 01:30 of this day: clocks went back"),
        ("30 1 * * *", {}, "2024-11-04T01:30-05:00", None),
        ("30 2 * * *", {}, "2024-03-11T02:30-04:00", None),
    ],
)  # fmt: skip
def test_a_preview_marks_what_a_change_does(expr: str, dst: Dst, slot: str, note: str | None) -> None:
    cron = Cron(expr, time_zone=NEW_YORK, **dst)
    instant = to_instant(datetime.fromisoformat(slot))
    assert cron.slot_after(instant - 1) == instant
    assert cron.notes(instant) == note


def _values(size: int) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(0, size - 1), min_size=1, max_size=4)


@st.composite
def written(draw: st.DrawFn) -> Written:
    """Sets of minutes, hours and weekdays with the expression that names them, some of it as steps of `*`."""
    minutes, minute = _field(draw, 60, (1, 7, 15, 20, 30))
    hours, hour = _field(draw, 24, (1, 2, 3, 5))
    weekdays, weekday = _field(draw, 7, (1,))
    fields = f"{minute} {hour} * * {weekday}"
    sunday_is_0 = frozenset((day - 1) % 7 for day in weekdays)
    return Written(minutes, hours, sunday_is_0, fields, minute.startswith("*") or hour.startswith("*"))


def _field(draw: st.DrawFn, size: int, steps: tuple[int, ...]) -> tuple[frozenset[int], str]:
    if draw(st.booleans()):
        step = draw(st.sampled_from(steps))
        return frozenset(range(0, size, step)), f"*/{step}" if step > 1 else "*"
    # Most of the values lie where clocks change.
    near = st.integers(0, min(size, 4) - 1) if size < 60 else st.sampled_from((0, 15, 30, 45, 59))
    values = draw(st.frozensets(near, min_size=1, max_size=3) | _values(size))
    return values, ",".join(str(value) for value in sorted(values))


ZONES = (
    "America/New_York", "Europe/Istanbul", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu",
    "Pacific/Apia", "Antarctica/Troll", "America/St_Johns", "Africa/Cairo", "America/Santiago", "Europe/Dublin",
    "Africa/Monrovia", "UTC",
)  # fmt: skip


def _changes(zone: str) -> list[int]:
    """The seconds at which the zone's offset changes between 1970 and 2045."""
    starts = find_zone(zone).covering(2_366_841_600).starts
    return [start for start in starts if 86400 * 10 < start < 2_366_841_600] or [1_700_000_000]


@st.composite
def windows(draw: st.DrawFn) -> tuple[str, datetime, datetime]:
    """A zone with some days around one of its changes."""
    zone = draw(st.sampled_from(ZONES))
    change = draw(st.sampled_from(_changes(zone)))
    first = from_instant((change + draw(st.integers(-2 * 86400, 7200))) * SECOND)
    return zone, first, first + timedelta(seconds=draw(st.integers(0, 3 * 86400)))


@given(written(), windows(), st.booleans(), st.booleans())
def test_slots_are_what_a_scan_of_every_wall_minute_finds(
    spec: Written, window: tuple[str, datetime, datetime], after_gap: bool, once: bool
) -> None:
    name, first, last = window
    expected = slots_by_scan(spec, ZoneInfo(name), first, last, (after_gap, once))
    cron = Cron(
        spec.fields,
        time_zone=name,
        gap="run_after" if after_gap else "skip",
        overlap="once" if once else "twice",
    )
    begin, end = to_instant(first), to_instant(last)
    forward, slot = [], cron.slot_after(begin - 1)
    while slot is not None and slot <= end:
        forward.append(from_instant(slot))
        slot = cron.slot_after(slot)
    assert forward == expected
    backward, slot = [], cron.latest_before(end)
    while slot is not None and slot >= begin:
        backward.append(from_instant(slot))
        slot = cron.latest_before(slot - 1)
    assert backward == expected[::-1]
    assert cron.count_between(begin, end) == len(expected)
    walked, moment = [], cron.next_after((first - timedelta(microseconds=1)).astimezone(ZoneInfo(name)))
    while moment is not None and moment <= last:
        walked.append(moment.astimezone(UTC))
        moment = cron.next_after(moment)
    assert walked == expected


B16_ZONES = (
    *ZONES,
    "America/Havana", "America/Asuncion", "Pacific/Chatham", "Europe/London", "Europe/Berlin", "Asia/Gaza",
    "Asia/Tehran", "America/Sao_Paulo", "America/Caracas", "Asia/Pyongyang", "Pacific/Kwajalein", "Asia/Manila",
    "America/Godthab", "Antarctica/Casey", "Asia/Kolkata", "Australia/Eucla", "Pacific/Kiritimati", "Europe/Moscow",
    "America/Anchorage", "Africa/El_Aaiun", "Africa/Juba", "America/Scoresbysund", "Asia/Amman", "Asia/Beirut",
    "Atlantic/Azores", "Pacific/Norfolk", "Pacific/Fiji",
)  # fmt: skip
B16_EXPRESSIONS: tuple[tuple[str, Dialect], ...] = (
    *((expr, "unix") for expr in (
        "* * * * *", "*/5 * * * *", "*/7 */3 * * *", "0 * * * *", "30 * * * *", "0 0 * * *", "30 0 * * *",
        "0 1 * * *", "30 1 * * *", "59 1 * * *", "0 2 * * *", "15 2 * * *", "30 2 * * *", "0 3 * * *", "30 3 * * *",
        "0 0-23 * * *", "*/20 2 * * *", "0 */2 * * *", "45 23 * * *", "0 0 * * 0", "30 2 * * 0", "0 0 1 * *",
        "30 2 31 3 *", "0 0 29 2 *", "0 0 29 2 */7", "* * 29 2 */7", "0 0 13 * 5", "0 0 L * *", "0 0 * * 5#2",
        "*/15 0-3 * * *", "0-59/15 0-3 * * *",
    )),
    *((expr, "quartz") for expr in (
        "* * * * * ?", "0/20 * * * * ?", "0 0/20 * * * ?", "* 30 2 * * ?", "0,30 59 1 * * ?", "59 59 23 * * ?",
        "0 0 0/2 * * ?", "0 30 1 LW * ?", "0 0 2 15W * ?", "0 30 2 ? * SUN#2", "0 30 2 ? 3 1L", "0 0 0 ? 2 2#5",
    )),
)  # fmt: skip


def test_around_every_kind_of_change_time_only_goes_forward(long_form: bool) -> None:
    """B16: next(t) > t, next(next(t) - 1 µs) = next(t), and what lies just before agrees."""
    seeds = random.Random(16)
    changes = {zone: [start for start in _changes(zone) if start > 1_262_304_000] for zone in B16_ZONES}
    for _ in range(100_000 if long_form else 4_000):
        zone = seeds.choice(B16_ZONES)
        expr, dialect = seeds.choice(B16_EXPRESSIONS)
        change = seeds.choice(changes[zone] or [1_700_000_000])
        start = (change + seeds.randrange(-4 * 3600, 4 * 3600)) * SECOND + seeds.randrange(SECOND)
        cron = Cron(expr, dialect, zone)
        slot = cron.slot_after(start)
        assert slot is not None, (expr, zone, start)
        assert slot > start
        assert slot % SECOND == 0
        assert cron.slot_after(slot - 1) == slot, (expr, zone, start)
        assert cron.latest_before(slot) == slot, (expr, zone, start)
        before = cron.latest_before(start)
        assert before is None or (before <= start and cron.slot_after(before) == slot), (expr, zone, start)
        moment = cron.next_after(from_instant(start).astimezone(ZoneInfo(zone)))
        assert moment is not None
        assert to_instant(moment) == slot, (expr, zone, start)


def test_walking_a_century_of_days_keeps_its_local_time() -> None:
    find_zone.cache_clear()  # the zone's table must grow on the way
    _compiled.cache_clear()
    cron = Cron("0 12 * * *", time_zone="America/New_York")
    moment, seen = datetime(2000, 1, 1, tzinfo=UTC), []
    while moment.year < 2101:
        found = cron.next_after(moment)
        assert found is not None
        seen.append(found)
        moment = found
    assert {slot.isoformat()[11:19] for slot in seen} == {"12:00:00"}
    assert {(after.date() - before.date()).days for before, after in pairwise(seen)} == {1}
    assert {str(slot.utcoffset()) for slot in seen[-365:]} == {"-1 day, 19:00:00", "-1 day, 20:00:00"}
