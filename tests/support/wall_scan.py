"""Slots by looking at every wall minute of every day with zoneinfo: slow, plain, and independent of the engine."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

LONGEST_GAP = timedelta(hours=3)


@dataclass(frozen=True)
class Written:
    """Times of day and weekdays (Monday = 0), each as a set, and the five fields that say the same."""

    minutes: frozenset[int]
    hours: frozenset[int]
    weekdays: frozenset[int]
    fields: str
    interval: bool


def slots_by_scan(
    written: Written, zone: ZoneInfo, first: datetime, last: datetime, rule: tuple[bool, bool]
) -> list[datetime]:
    """The slots in `first`..`last` in UTC; `rule` says whether a gap's walls run after it, and whether walls run once."""
    runs_after_gap, once = (False, False) if written.interval else rule
    found: set[datetime] = set()
    day = first.astimezone(zone).date() - timedelta(days=2)
    while day <= last.astimezone(zone).date() + timedelta(days=2):
        if day.weekday() in written.weekdays:
            for hour in written.hours:
                for minute in written.minutes:
                    found.update(
                        instants_of(day, time(hour, minute), zone, runs_after_gap=runs_after_gap, once=once)
                    )
        day += timedelta(days=1)
    return sorted(instant for instant in found if first <= instant <= last)


def instants_of(
    day: date, clock: time, zone: ZoneInfo, *, runs_after_gap: bool, once: bool
) -> list[datetime]:
    """When a wall time of a day comes, in UTC: in an overlap `once` or twice, in a gap at its end or never."""
    early = datetime.combine(day, clock, zone)
    late = early.replace(fold=1)
    instants = sorted({early.astimezone(UTC), late.astimezone(UTC)})
    real = [
        instant
        for instant in instants
        if instant.astimezone(zone).replace(tzinfo=None) == early.replace(tzinfo=None)
    ]
    if real:
        return real[:1] if once else real
    before, after = late.utcoffset(), early.utcoffset()
    assert before is not None
    assert after is not None
    if not runs_after_gap or abs(before - after) > LONGEST_GAP:
        return []
    return [_end_of_gap(instants[0], instants[-1], zone)]


def _end_of_gap(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    old = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = (low + (high - low) / 2).replace(microsecond=0)
        if middle.astimezone(zone).utcoffset() == old:
            low = middle
        else:
            high = middle
    return high
