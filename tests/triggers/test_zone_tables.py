"""Zones: the table of changes against the zone files themselves, far years, and names that are not known."""

import random
import struct
import zoneinfo
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

import pytest
from qsched.triggers.cron import Cron
from qsched.triggers.errors import ZoneError
from qsched.triggers.zone import HORIZON, Zone, find_zone


def _zone_file(key: str) -> bytes:
    """The file that zoneinfo reads for `key`."""
    for folder in zoneinfo.TZPATH:
        path = Path(folder) / key
        if path.is_file():
            return path.read_bytes()
    return resources.files("tzdata").joinpath("zoneinfo", key).read_bytes()


def _listed_changes(data: bytes) -> list[tuple[int, int]]:
    """(instant, new offset) of each change of offset that a version 2 zone file lists."""

    def counts(at: int) -> tuple[int, ...]:
        return struct.unpack(">6l", data[at + 20 : at + 44])

    utc, wall, leaps, times, types, chars = counts(0)
    at = 44 + times * 5 + types * 6 + chars + leaps * 8 + wall + utc
    utc, wall, leaps, times, types, chars = counts(at)
    at += 44
    instants = struct.unpack(f">{times}q", data[at : at + 8 * times])
    kinds = data[at + 8 * times : at + 9 * times]
    at += 9 * times
    offsets = [struct.unpack(">l", data[at + 6 * kind : at + 6 * kind + 4])[0] for kind in range(types)]
    found, current = [], offsets[0]
    for instant, kind in zip(instants, kinds, strict=True):
        if offsets[kind] != current:
            current = offsets[kind]
            found.append((instant, current))
    return found


NAMES = sorted(
    name
    for name in zoneinfo.available_timezones()
    if not name.startswith(("posix", "right", "localtime", "Factory"))
)


def test_every_listed_change_of_every_zone_is_in_its_table(long_form: bool) -> None:
    names = (
        NAMES
        if long_form
        else sorted({*random.Random(7).sample(NAMES, 60), "Asia/Gaza", "Africa/Casablanca"})
    )
    for name in names:
        listed = [change for change in _listed_changes(_zone_file(name)) if change[0] > 0]
        last = max([2_000_000_000, *(instant for instant, _ in listed)])
        changes = Zone(zoneinfo.ZoneInfo(name)).covering(last + 1)
        table = list(zip(changes.starts, changes.offsets, strict=True))
        known = [change for change in table if 0 < change[0] <= listed[-1][0]] if listed else []
        assert known == listed, name


@pytest.mark.parametrize(
    "name", ["America/New_York", "Europe/Dublin", "Africa/Casablanca", "Pacific/Chatham", "Asia/Gaza"]
)
def test_far_years_follow_the_rule_that_zoneinfo_follows(name: str) -> None:
    zone, tz = find_zone(name), zoneinfo.ZoneInfo(name)
    seeds = random.Random(2100)
    for _ in range(400):
        second = seeds.randrange(0, HORIZON)
        offset = datetime.fromtimestamp(second, tz).utcoffset()
        assert offset is not None
        assert zone.offset_at(second) == offset.total_seconds()
    changes = zone.covering(HORIZON)
    for start, offset_after in list(zip(changes.starts, changes.offsets, strict=True))[1:]:
        before, after = (datetime.fromtimestamp(second, tz).utcoffset() for second in (start - 1, start))
        assert before != after
        assert after is not None
        assert after.total_seconds() == offset_after


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("Istanbul", "Istanbul'"),
        ("europe/istanbul", "Europe/Istanbul"),
        ("New York", "America/New_York"),
        ("Asia/Katmandu ", "Asia/Katmandu"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_nearest_name(name: str, nearest: str) -> None:
    with pytest.raises(ZoneError, match=nearest):
        Cron("0 2 * * *", time_zone=name)


@pytest.mark.parametrize(
    "name",
    ["", "localtime", "/etc/localtime", "../UTC", "Europe", "right/UTC", "Mars/Olympus", "UTC\0", "+03:00"],
)
def test_what_is_no_iana_name_is_refused_and_never_utc(name: str) -> None:
    with pytest.raises(ZoneError):
        find_zone(name)
    with pytest.raises(ZoneError):
        find_zone(None)


def test_deprecated_names_are_taken_with_their_stated_meaning() -> None:
    asked = datetime(2024, 7, 1, tzinfo=UTC)
    for name, expected in (
        ("US/Pacific", "02:00:00-07:00"),
        ("EST", "02:00:00-05:00"),
        ("Etc/GMT+3", "02:00:00-03:00"),
    ):
        found = Cron("0 2 * * *", time_zone=name).next_after(asked)
        assert found is not None
        assert found.isoformat()[11:] == expected


def test_the_hosts_zone_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = datetime(2024, 7, 1, tzinfo=UTC)
    before = Cron("17 2 * * *").next_after(asked)
    monkeypatch.setenv("TZ", "Pacific/Chatham")
    assert Cron("17 2 * * *").next_after(asked) == before == datetime(2024, 7, 1, 2, 17, tzinfo=UTC)


def test_without_zone_files_the_tzdata_package_is_read() -> None:
    known = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[])
    zoneinfo.ZoneInfo.clear_cache()
    find_zone.cache_clear()
    try:
        offset = find_zone("Europe/Istanbul").offset_at(1_700_000_000)
        with pytest.raises(ZoneError, match="Europe/Berlin"):
            find_zone("Europe/Berln")
    finally:
        zoneinfo.reset_tzpath(to=known)
        zoneinfo.ZoneInfo.clear_cache()
        find_zone.cache_clear()
    assert offset == 3 * 3600
