"""Around every change of offset from 2010 to 2037, in forty zones and both dialects: forward only, stateless, bounded, and
what a scan of the walls finds."""

import random
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from types import FrameType
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from qsched.triggers.cron import Cron
from qsched.triggers.instant import HOUR, SECOND, from_instant, to_instant
from qsched.triggers.zone import find_zone

from support.clock_scan import EXPRESSIONS, Meant, utc

ZONES = (
    "Africa/Cairo", "Africa/Casablanca", "Africa/El_Aaiun", "Africa/Juba", "Africa/Tripoli", "Africa/Windhoek",
    "America/Anchorage", "America/Asuncion", "America/Caracas", "America/Godthab", "America/Havana", "America/Mexico_City",
    "America/New_York", "America/Santiago", "America/Sao_Paulo", "America/Scoresbysund", "America/St_Johns",
    "Antarctica/Casey", "Antarctica/Troll", "Asia/Amman", "Asia/Beirut", "Asia/Gaza", "Asia/Jerusalem", "Asia/Kathmandu",
    "Asia/Pyongyang", "Asia/Tehran", "Atlantic/Azores", "Australia/Lord_Howe", "Australia/Sydney", "Europe/Berlin",
    "Europe/Chisinau", "Europe/Dublin", "Europe/Istanbul", "Europe/London", "Europe/Moscow", "Pacific/Apia",
    "Pacific/Chatham", "Pacific/Fiji", "Pacific/Norfolk", "Pacific/Tongatapu", "Asia/Kolkata", "UTC",
)  # fmt: skip
FIRST, LAST = 1_262_304_000, 2_145_916_800
"""2010 and 2038, in seconds."""
AHEAD = timedelta(days=3)
"""So far behind a change slots are looked for one by one."""
MOST_LINES = 1_000
"""Lines of Python that one answer may take."""


def changes(zone: str) -> list[int]:
    """The seconds at which the zone's offset changes; a zone without one is asked somewhere in between."""
    starts = find_zone(zone).covering(LAST).starts
    return [start for start in starts if FIRST <= start < LAST] or [1_700_000_000]


CHANGES = [(zone, change) for zone in ZONES for change in changes(zone)]


def lines_of(answer: Callable[[], object]) -> int:
    """How many lines of Python are run for an answer."""
    lines = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        answer()
    finally:
        sys.settrace(before)
    return lines


def starts_around(change: int, seeds: random.Random) -> Iterator[int]:
    """Instants within four hours of a change: at it, just before it, and anywhere."""
    at = change * SECOND
    yield from (at - 1, at, at - 4 * HOUR, at + 4 * HOUR)
    yield from (at + seeds.randrange(-4 * HOUR, 4 * HOUR) for _ in range(2))


def proven(meant: Meant, zone: str, change: int, seeds: random.Random) -> None:
    """Everything that has to hold around one change, for one expression."""
    cron = Cron(meant.expr, "unix" if meant.dialect == "unix" else "quartz", zone)
    horizon = utc(change) + (AHEAD if not meant.interval else timedelta(days=1))
    scanned = meant.slots(ZoneInfo(zone), utc(change) - timedelta(hours=5), horizon)
    for start in starts_around(change, seeds):
        slot = cron.slot_after(start)
        where = (meant.expr, zone, from_instant(start).isoformat())
        assert slot is not None, where
        assert slot > start, where
        assert slot % SECOND == 0, where
        assert cron.slot_after(slot - 1) == slot, where
        assert cron.latest_before(slot) == slot, where
        before = cron.latest_before(start)
        assert before is not None, where
        assert before <= start, where
        assert cron.slot_after(before) == slot, where
        index = bisect_right(scanned, from_instant(start))
        expected = scanned[index] if index < len(scanned) else None
        found = from_instant(slot)
        assert found == expected if expected is not None else found > horizon, (*where, found, expected)
    if scanned:
        begin, end = to_instant(scanned[0]), to_instant(scanned[-1])
        assert cron.count_between(begin, end) == len(scanned), (meant.expr, zone, change)
        assert cron.count_between(begin + 1, end - 1) == max(len(scanned) - 2, 0), (meant.expr, zone, change)


def test_there_are_forty_zones_and_sixty_expressions_of_both_dialects() -> None:
    assert len(set(ZONES)) >= 40
    assert len({(meant.dialect, meant.expr) for meant in EXPRESSIONS}) >= 60
    assert {meant.dialect for meant in EXPRESSIONS} == {"unix", "quartz"}
    assert len(CHANGES) > 1_200  # or the zone data know less than they should


def test_around_a_sample_of_changes_slots_are_what_a_scan_of_the_walls_finds() -> None:
    """B16, its short form."""
    seeds = random.Random(2037)
    for _ in range(1_500):
        proven(seeds.choice(EXPRESSIONS), *seeds.choice(CHANGES), seeds)


@pytest.mark.long
@pytest.mark.parametrize("zone", ZONES)
def test_around_every_change_slots_are_what_a_scan_of_the_walls_finds(zone: str) -> None:
    """B16: every change of the zone with every expression."""
    seeds = random.Random(zone)
    for change in changes(zone):
        for meant in EXPRESSIONS:
            proven(meant, zone, change, seeds)


def test_an_answer_takes_a_bounded_number_of_steps(long_form: bool) -> None:
    seeds = random.Random(16)
    most = 0
    for _ in range(20_000 if long_form else 1_000):
        meant, (zone, change) = seeds.choice(EXPRESSIONS), seeds.choice(CHANGES)
        cron = Cron(meant.expr, "unix" if meant.dialect == "unix" else "quartz", zone)
        start = change * SECOND + seeds.randrange(-4 * HOUR, 4 * HOUR)
        cron.slot_after(start)  # what is compiled and remembered once is no step of an answer
        for ask in (cron.slot_after, cron.latest_before):
            most = max(most, lines_of(partial(ask, start)))
    assert most <= MOST_LINES


def test_a_count_of_a_century_takes_a_bounded_number_of_steps() -> None:
    for meant in EXPRESSIONS[::7]:
        cron = Cron(meant.expr, "unix" if meant.dialect == "unix" else "quartz", "America/New_York")
        first, last = (to_instant(datetime(year, 1, 1, tzinfo=UTC)) for year in (2010, 2037))
        cron.count_between(first, last)
        lines = lines_of(partial(cron.count_between, first, last))
        assert lines <= 20_000, meant.expr
