"""How another scheduler reads a cron expression: croniter names wall-clock times, the scheduler's own rule the instants."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from ...triggers.instant import from_instant, to_instant
from ...triggers.zone import find_zone
from .reading import Fires

ENGINE = "croniter"
_REACH = timedelta(hours=3)


class WallRule(NamedTuple):
    """What a scheduler does with wall-clock times that a change of offset skips or repeats."""

    gap: bool
    """A skipped time runs, at the first instant after the gap; else not at all."""
    twice: bool
    """A repeated time runs both times; else the first time only."""
    star_days: bool = False
    """`*/2` in a day field counts as a star (Vixie): both day fields must then match; else either does."""


EVERY = WallRule(gap=False, twice=True)
"""Whenever the clock shows such a time: also what Vixie's cron does for hours or minutes that begin with `*`."""
FIXED = WallRule(gap=True, twice=False)


def fires(expression: str, zone: str, rule: WallRule) -> Fires:
    """The next fires of `expression` in `zone`, as croniter and `rule` say."""
    tz = find_zone(zone).tz

    def of(after: int, count: int) -> list[int]:
        found = (instant for instant in _instants(expression, tz, rule, after) if instant > after)
        return list(islice(found, count))

    return of


def _instants(expression: str, tz: ZoneInfo, rule: WallRule, after: int) -> Iterator[int]:
    """In order; each once. Walls are asked for from a little before, since a gap or an overlap lies between."""
    last: int | None = None
    waiting: list[int] = []
    for wall in _walls(expression, rule, from_instant(after).astimezone(tz).replace(tzinfo=None) - _REACH):
        fresh = sorted(_of_wall(wall, tz, rule))
        # What is earlier than all that later walls can give is ready; the second pass of an overlap waits.
        floor = _first_of(wall, tz)
        ready = sorted(each for each in waiting if each < floor)
        waiting = [each for each in waiting if each >= floor] + fresh
        for instant in ready:
            if last is None or instant > last:
                last = instant
                yield instant
    yield from (each for each in sorted(set(waiting)) if last is None or each > last)


def _walls(expression: str, rule: WallRule, start: datetime) -> Iterator[datetime]:
    from croniter import croniter
    from croniter.croniter import CroniterBadDateError

    options: dict[str, Any] = {"implement_cron_bug": rule.star_days}
    times = croniter(expression, start, ret_type=datetime, **options)
    while True:
        try:
            yield times.get_next(datetime)
        except CroniterBadDateError:
            return


def _first_of(wall: datetime, tz: ZoneInfo) -> int:
    return to_instant(wall.replace(tzinfo=tz, fold=0))


def _of_wall(wall: datetime, tz: ZoneInfo, rule: WallRule) -> set[int]:
    first, second = (wall.replace(tzinfo=tz, fold=fold) for fold in (0, 1))
    exists = first.astimezone(UTC).astimezone(tz).replace(tzinfo=None) == wall
    if not exists:
        return {_gap_end(first, second)} if rule.gap else set()
    both = {to_instant(first), to_instant(second)}
    return both if rule.twice else {min(both)}


def _gap_end(first: datetime, second: datetime) -> int:
    """The instant of the change: between the two readings of a wall time that does not exist, by halving."""
    low, high = sorted((to_instant(first), to_instant(second)))
    tz = first.tzinfo
    before = from_instant(low).astimezone(tz).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if from_instant(middle).astimezone(tz).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high
