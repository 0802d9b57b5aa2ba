"""What previews show around both changes of offset of a year, for each kind of schedule: checked in, and computed twice.

The second computation is python-dateutil's: its recurrences, its reading of the zones, its own zone data. Written anew
by `PYTHONPATH=tests python -m triggers.test_golden_previews`, to be read before it is committed.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil import tz as dateutil_tz
from dateutil.rrule import DAILY, MINUTELY, rrule
from dateutil.zoneinfo import get_zonefile_instance
from qsched.triggers.compiling import Frame, compile_schedule
from qsched.triggers.instant import HOUR, MINUTE, from_instant, rfc3339, to_instant
from qsched.triggers.schedule import note_on

from support.wall_brute import walk

PREVIEWS = Path(__file__).parents[1] / "data" / "previews"
SPANS = {
    "Europe/Berlin": [("2026-03-28T00:00", "2026-03-30T12:00"), ("2026-10-24T00:00", "2026-10-26T12:00")],
    "Australia/Lord_Howe": [
        ("2026-04-03T12:00", "2026-04-05T23:00"),
        ("2026-10-02T12:00", "2026-10-04T23:00"),
    ],
}
_YEAR, _END = datetime(2026, 1, 1), datetime(2026, 12, 31)


def _walls(zone: str, hours: list[int], minutes: list[int], second: int = 0) -> set[datetime]:
    """The instants of times of day: each that does not exist at the end of its gap, each that comes twice the first time."""
    place = get_zonefile_instance().get(zone)
    found: set[datetime] = set()
    for wall in rrule(DAILY, _YEAR, until=_END, byhour=hours, byminute=minutes, bysecond=second):
        aware = wall.replace(tzinfo=place)
        while not dateutil_tz.datetime_exists(aware):
            aware = aware.replace(second=0) + timedelta(minutes=1)
        found.add(dateutil_tz.enfold(aware, 0).astimezone(UTC))
    return found


def _every(minutes: int) -> set[datetime]:
    return set(rrule(MINUTELY, _YEAR.replace(tzinfo=UTC), interval=minutes, until=_END.replace(tzinfo=UTC)))


def _window(zone: str, first: int, last: int, minutes: int) -> set[datetime]:
    """Every so many minutes, in elapsed time, of each day from its `first` hour on, up to its `last`."""
    place = get_zonefile_instance().get(zone)
    found: set[datetime] = set()
    for day in rrule(DAILY, _YEAR, until=_END):
        begin = day.replace(hour=first, tzinfo=place).astimezone(UTC)
        end = dateutil_tz.enfold(day.replace(hour=last, tzinfo=place), 1).astimezone(UTC)
        found.update(rrule(MINUTELY, begin, interval=minutes, until=end))
    return found


KINDS: dict[str, tuple[dict[str, Any], Callable[[str], set[datetime]]]] = {
    "cron": ({"cron": "15,45 1,2 * * *"}, lambda zone: _walls(zone, [1, 2], [15, 45])),
    "quartz": ({"quartz": "30 15,45 1-2 ? * *"}, lambda zone: _walls(zone, [1, 2], [15, 45], 30)),
    "every": ({"every": 7 * HOUR, "anchor": to_instant(_YEAR.replace(tzinfo=UTC))}, lambda _zone: _every(420)),
    "calendar_interval": (
        {"calendar_interval": {"days": 1, "at": "02:15"}},
        lambda zone: _walls(zone, [2], [15]),
    ),
    "daily_window": (
        {"daily_window": {"every": 45 * MINUTE, "from": "01:00", "to": "05:00"}},
        lambda zone: _window(zone, 1, 5, 45),
    ),
    "rrule": ({"rrule": "FREQ=DAILY;BYHOUR=1,2;BYMINUTE=10,50"}, lambda zone: _walls(zone, [1, 2], [10, 50])),
    "any": (
        {"any": [{"cron": "15 2 * * *"}, {"every": 8 * HOUR}]},
        lambda zone: _walls(zone, [2], [15]) | _every(480),
    ),
    "all": (
        {"all": [{"cron": "0,30 1,2,3 * * *"}, {"every": HOUR}]},
        lambda zone: _walls(zone, [1, 2, 3], [0, 30]) & _every(60),
    ),
}  # fmt: skip


def _spans(zone: str) -> Iterator[tuple[datetime, datetime]]:
    for begin, end in SPANS[zone]:
        yield datetime.fromisoformat(begin + "+00:00"), datetime.fromisoformat(end + "+00:00")


def preview(kind: str) -> str:
    """Each slot around the changes: in UTC, in its zone, and what is noted of it."""
    said = KINDS[kind][0]
    lines = [f"# {said}", "# second opinion: python-dateutil 2.9.0.post0, with its own zone data"]
    for zone in SPANS:
        schedule = compile_schedule(said, Frame("nightly", zone))
        place = ZoneInfo(zone)
        for begin, end in _spans(zone):
            lines.append(f"## {zone}")
            for slot in walk(schedule, to_instant(begin), to_instant(end)):
                local = from_instant(slot).astimezone(place).strftime("%Y-%m-%d %H:%M:%S %z")
                lines.append(f"{rfc3339(slot)}  {local}  {note_on(schedule, slot) or ''}".rstrip())
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_preview_is_as_it_was_read_and_approved(kind: str) -> None:
    assert preview(kind) == (PREVIEWS / f"{kind}.txt").read_text()


@pytest.mark.parametrize("zone", SPANS)
@pytest.mark.parametrize("kind", KINDS)
def test_dateutil_comes_to_the_same_slots(kind: str, zone: str) -> None:
    said, second = KINDS[kind]
    schedule, theirs = compile_schedule(said, Frame("nightly", zone)), second(zone)
    for begin, end in _spans(zone):
        ours = [from_instant(slot) for slot in walk(schedule, to_instant(begin), to_instant(end))]
        assert ours == sorted(moment for moment in theirs if begin <= moment <= end)
        assert ours


@pytest.mark.parametrize("zone", SPANS)
@pytest.mark.parametrize("kind", ["cron", "quartz"])
def test_croner_comes_to_the_same_slots_where_its_answers_to_changes_are_given(kind: str, zone: str) -> None:
    lines = (PREVIEWS / "croner.txt").read_text().splitlines()
    (theirs,) = [line.split()[2:] for line in lines if line.startswith(f"{kind} {zone} ")]
    schedule = compile_schedule(KINDS[kind][0], Frame("nightly", zone, "skip", "twice"))
    ours = [
        rfc3339(slot)
        for begin, end in _spans(zone)
        for slot in walk(schedule, to_instant(begin), to_instant(end))
    ]
    assert ours == theirs


def write() -> None:
    """Write the previews as they are now."""
    for kind in KINDS:
        (PREVIEWS / f"{kind}.txt").write_text(preview(kind))


if __name__ == "__main__":
    write()
