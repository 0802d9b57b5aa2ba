"""A zone as tables of seconds: when its offset changes, which walls (local times) that skips or doubles."""

import zoneinfo
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from .errors import ZoneError

DAY = 86_400
HORIZON = 32_503_680_000
"""2999-12-31, in seconds since the epoch, UTC: where this house's years end."""

_RULES_ONLY = 4_102_444_800  # 2100-01-01: the last year that zone data lists by itself is 2087
_BEGIN = -180 * DAY
_FIRST_LOOK = (
    70 * 366 * DAY
)  # one look covers 1970 to 2040; later years are looked at when they are asked for
_NEXT_LOOK = 40 * 366 * DAY
_STEP = timedelta(days=4)  # no zone has left an offset and come back to it in less than 6.9 days
_EPOCH = datetime(1970, 1, 1)
_FIRST_MONTH = 1970 * 12 + 1
_HOST_ZONES = ("localtime", "posixrules", "posix/", "right/", "Factory")


class Changes(NamedTuple):
    """What is known of a zone up to `until`; entry i holds from `starts[i]` (a second, UTC) to the next.

    `floors[i]` is the greatest wall reached before `starts[i]`: walls from there to `starts[i] + offsets[i]`
    do not exist, and walls from `starts[i] + offsets[i]` to there come again.
    """

    starts: tuple[int, ...]
    offsets: tuple[int, ...]
    floors: tuple[int, ...]
    uneven: frozenset[int]
    """The local days (from the epoch) that a change touches; every other day has each of its walls once."""
    until: int
    uneven_months: dict[int, int]
    """`uneven` once more: by month (year * 12 + month), the mask of its uneven days."""
    even_until: int
    """The first month of which nothing is known."""


class Zone:
    """One IANA zone; its table of changes grows as later years are asked for, by replacing it whole."""

    __slots__ = ("_years", "changes", "key", "tz")

    def __init__(self, tz: zoneinfo.ZoneInfo) -> None:
        self.tz = tz
        self.key = tz.key
        self._years: dict[tuple[int, int], list[tuple[int, int]]] = {}
        offset = _offset_at(tz, _BEGIN)
        self.changes = Changes((_BEGIN,), (offset,), (_BEGIN + offset,), frozenset(), _BEGIN, {}, 0)

    def covering(self, second: int) -> Changes:
        """The changes, known for two days beyond `second` (wall or instant) at least, or to the horizon."""
        changes = self.changes
        if second + 2 * DAY > changes.until and changes.until < HORIZON + 2 * DAY:
            self.changes = changes = self._grown(second)
        return changes

    def _grown(self, second: int) -> Changes:
        known = self.changes
        wanted = max(second + 4 * DAY, known.until + (_FIRST_LOOK if known.until == _BEGIN else _NEXT_LOOK))
        wanted = min(wanted, HORIZON + 4 * DAY)
        if wanted > _RULES_ONLY:
            wanted = _new_year(_year_of(wanted) + 1)
        starts, offsets, floors = list(known.starts), list(known.offsets), list(known.floors)
        uneven = set(known.uneven)
        for start, offset in self._changes(known.until, wanted):
            floor = max(floors[-1], start + offsets[-1])
            landing = start + offset
            uneven.update(range(min(landing, floor) // DAY, max(landing, floor) // DAY + 1))
            starts.append(start)
            offsets.append(offset)
            floors.append(floor)
        return Changes(
            tuple(starts),
            tuple(offsets),
            tuple(floors),
            frozenset(uneven),
            wanted,
            *_by_month(uneven, wanted),
        )

    def _changes(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Each (instant, new offset) after `begin` and up to `end`."""
        yield from _changes_between(self.tz, begin, min(end, _RULES_ONLY))
        # From here on years are alike where they begin on the same weekday and are as long.
        for year in range(_year_of(max(begin, _RULES_ONLY)), _year_of(end)):
            first, after = _new_year(year), _new_year(year + 1)
            shape = (first // DAY % 7, after - first)
            if shape not in self._years:
                found = _changes_between(self.tz, first, after)
                self._years[shape] = [(start - first, offset) for start, offset in found]
            for start, offset in self._years[shape]:
                yield first + start, offset

    def offset_at(self, second: int) -> int:
        """The offset from UTC, in seconds, at `second` (since the epoch, UTC; from 1970 on)."""
        changes = self.covering(second)
        return changes.offsets[bisect_right(changes.starts, second) - 1]

    def wall_at(self, second: int) -> int:
        """The local time at `second`, as seconds since 1970-01-01T00:00 on the wall."""
        return second + self.offset_at(second)

    def second_of(self, wall: int) -> int:
        """The second at which a wall is shown first; of one that a change leaves out, the first instant after the gap."""
        changes = self.covering(wall)
        i = max(bisect_right(changes.floors, wall) - 1, 0)
        landing = changes.starts[i] + changes.offsets[i]
        return changes.starts[i] if wall < landing else wall - changes.offsets[i]


@lru_cache(maxsize=1024)
def find_zone(name: str) -> Zone:
    """The zone of an IANA name; raises ZoneError with the nearest known name, never answers with another."""
    try:
        if isinstance(name, str) and name.isascii() and name and not name.startswith(_HOST_ZONES):
            return Zone(zoneinfo.ZoneInfo(name))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise ZoneError(f"time zone {name!r} is not known here; {_nearest(str(name))}")


def _nearest(name: str) -> str:
    import difflib  # only where something is wrong

    known = zoneinfo.available_timezones()
    if not known:
        return "this machine has no zone data: install the tzdata package"
    folded = {zone.casefold(): zone for zone in sorted(known) if not zone.startswith(_HOST_ZONES)}
    cities = {zone.rsplit("/", 1)[-1]: zone for zone in folded if "/" in zone}
    wanted = name.casefold().replace(" ", "_")
    near = difflib.get_close_matches(wanted, folded, 1, 0.7)
    if near:
        return f"did you mean {folded[near[0]]!r}?"
    near = difflib.get_close_matches(wanted, cities, 1, 0.8)
    if near:
        return f"did you mean {folded[cities[near[0]]]!r}?"
    return "use an IANA name such as 'Europe/Istanbul' or 'UTC'"


def _new_year(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


def _year_of(second: int) -> int:
    return datetime.fromtimestamp(second, UTC).year


def _by_month(uneven: set[int], until: int) -> tuple[dict[int, int], int]:
    months = {_FIRST_MONTH: 2}  # east of Greenwich 1970-01-01 begins before the epoch
    for day in uneven:
        when = _EPOCH + timedelta(days=day)
        number = when.year * 12 + when.month
        months[number] = months.get(number, 0) | 1 << when.day
    end = _EPOCH + timedelta(seconds=until - 2 * DAY)
    return months, end.year * 12 + end.month


def _offset_at(tz: zoneinfo.ZoneInfo, second: int) -> int:
    offset = datetime.fromtimestamp(second, tz).utcoffset()
    return 0 if offset is None else offset.days * DAY + offset.seconds


def _changes_between(tz: zoneinfo.ZoneInfo, begin: int, end: int) -> list[tuple[int, int]]:
    """Each (instant, new offset) after `begin` and up to `end`: a coarse look over walls, then bisection."""
    found: list[tuple[int, int]] = []
    moment = (_EPOCH + timedelta(seconds=begin)).replace(tzinfo=tz)
    last = (_EPOCH + timedelta(seconds=end + 2 * DAY)).replace(tzinfo=tz)
    old = _offset_at(tz, begin)
    seen = timedelta(seconds=old)
    at = tz.utcoffset
    while moment < last and begin < end:
        moment += _STEP  # the same zone on both sides: plain wall arithmetic
        offset = at(moment)
        if offset == seen or offset is None:
            continue
        seen = offset
        high = (moment.replace(tzinfo=None) - _EPOCH) // timedelta(seconds=1) + DAY
        low = max(high - 7 * DAY, found[-1][0] if found else begin)
        new = _offset_at(tz, high)
        while high - low > 1:
            middle = (low + high) // 2
            if _offset_at(tz, middle) == old:
                low = middle
            else:
                high = middle
        if begin < high <= end:
            found.append((high, new))
            old = new
    return found
