"""What schedules of local times must give, by the slow way: zoneinfo asked wall by wall, and laws that all schedules keep."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from qsched.triggers.instant import DAY, SECOND, to_instant
from qsched.triggers.schedule import COUNT_LIMIT, Schedule

AWKWARD = (
    "Australia/Lord_Howe",  # half an hour
    "America/Santiago",  # at midnight
    "Africa/Cairo",  # at midnight, and some years without
    "Antarctica/Troll",  # two hours
    "Pacific/Apia",  # a day that there was not
    "Africa/Casablanca",  # around each Ramadan
    "Europe/Berlin",
    "UTC",
)


def slots_of(
    walls: Iterable[datetime], zone: str, gap: str = "run_after", overlap: str = "once"
) -> list[int]:
    """The instants of naive `walls` in `zone` under the zone rule."""
    tz, found = ZoneInfo(zone), set()
    for wall in walls:
        both = [wall.replace(tzinfo=tz, fold=fold).astimezone(UTC) for fold in (0, 1)]
        real = sorted({at for at in both if at.astimezone(tz).replace(tzinfo=None) == wall})
        if real:
            found.update(real if overlap == "twice" else real[:1])
        elif gap == "run_after" and abs(both[0] - both[1]) <= timedelta(hours=3):
            found.add(_end_of_gap(min(both), max(both), tz))
    return sorted(map(to_instant, found))


def _end_of_gap(before: datetime, after: datetime, tz: ZoneInfo) -> datetime:
    old = before.astimezone(tz).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) // 2
        if middle.astimezone(tz).utcoffset() == old:
            before = middle
        else:
            after = middle
    return after.replace(microsecond=0)


def walk(schedule: Schedule, first: int, last: int) -> list[int]:
    """The slots in `first`..`last`, one by one."""
    slots, slot = [], schedule.slot_after(first - 1)
    while slot is not None and slot <= last:
        slots.append(slot)
        slot = schedule.slot_after(slot)
    return slots


def keeps_the_laws(schedule: Schedule, slots: Sequence[int], first: int, last: int) -> None:
    """`slots` are all of `first`..`last`: forwards, backwards, from anywhere between, and counted."""
    for sooner, later in pairwise(slots):
        assert sooner < later
        for between in (sooner, (sooner + later) // 2, later - 1):
            assert schedule.slot_after(between) == later
            assert schedule.latest_before(between) == sooner
    for slot in slots[:3]:
        assert schedule.slot_after(slot - 1) == slot == schedule.latest_before(slot)
    assert schedule.count_between(first, last) == min(len(slots), COUNT_LIMIT + 1)
    if slots:
        middle = slots[len(slots) // 2]
        assert schedule.count_between(first, middle) == len(slots) // 2 + 1
        assert schedule.count_between(middle + 1, last) == len(slots) - len(slots) // 2 - 1
        assert schedule.count_between(slots[0], slots[0]) == 1


def instants(begin: datetime, days: int) -> tuple[int, int]:
    """The first and last instant of so many days from `begin` on."""
    first = to_instant(begin)
    return first, first + days * DAY - SECOND
