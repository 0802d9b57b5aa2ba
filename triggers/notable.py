"""What is remarkable among a schedule's slots of a span: changes of clocks, what calendars leave out or move, the last one."""

from datetime import timedelta, tzinfo
from itertools import pairwise
from typing import Any, NamedTuple

from .instant import DAY, from_instant
from .schedule import Bounded, Schedule, note_on

_MOST = 1000
"""Left-out slots that are looked at."""
_NEAR = 2000
"""Slots around one change of offset that are looked at."""


class Notable(NamedTuple):
    """From one slot to another (µs; the same for a single one), and what is to say of them."""

    first: int
    last: int
    note: str


def notable(schedule: Schedule, zone: tzinfo, first: int, last: int) -> list[Notable]:
    """What is remarkable between `first` and `last`, in order; an endless run of left-out slots is one of them."""
    found = [*_changes(schedule, zone, first, last), *_left_out(schedule, first, last)]
    end_at = getattr(schedule, "end_at", None)
    if end_at is not None and first <= end_at <= last:
        slot = schedule.latest_before(end_at)
        if slot is not None and slot >= first:
            found.append(Notable(slot, slot, "the last one before end_at"))
    return sorted(found)


def _changes(schedule: Schedule, zone: tzinfo, first: int, last: int) -> list[Notable]:
    """Slots within a day of a change of the zone's offset of which there is something to say."""
    found: dict[int, Notable] = {}
    days = range(first, last + DAY, DAY)
    for before, after in pairwise(days):
        if _offset(zone, before) == _offset(zone, after):
            continue
        slot = schedule.slot_after(before - DAY)
        for _ in range(_NEAR):
            if slot is None or slot > min(after + DAY, last):
                break
            if slot >= first and (note := note_on(schedule, slot)) is not None:
                found[slot] = Notable(slot, slot, note)
            slot = schedule.slot_after(slot)
    return list(found.values())


def _offset(zone: tzinfo, instant: int) -> timedelta | None:
    return from_instant(instant).astimezone(zone).utcoffset()


def _left_out(schedule: Schedule, first: int, last: int) -> list[Notable]:
    """What calendars leave out: neighbours of one kind are one run."""
    excluding, first, last = _excluding(schedule, first, last)
    if excluding is None:
        return []
    runs: list[list[Any]] = []
    for each in excluding.left_out(first, last, _MOST):
        run = runs[-1] if runs else None
        if run is not None and each.rolled_to is None and run[-1].rolled_to is None:
            served = schedule.slot_after(run[-1].slot)
            if each.calendars == run[-1].calendars and (served is None or served > each.slot):
                run.append(each)
                continue
        runs.append([each])
    return [Notable(run[0].slot, run[-1].slot, _said(run)) for run in runs]


def _said(run: list[Any]) -> str:
    named = " and ".join(run[0].calendars)
    if run[0].rolled_to is not None:
        return f"left out by {named}: runs at {from_instant(run[0].rolled_to):%Y-%m-%d %H:%M:%S} UTC instead"
    return f"{len(run)} slot{'s' if len(run) > 1 else ''} left out: {named}"


def _excluding(schedule: Schedule | None, first: int, last: int) -> tuple[Any, int, int]:
    while schedule is not None and not callable(getattr(schedule, "left_out", None)):
        if isinstance(schedule, Bounded):
            first = first if schedule.start_at is None else max(first, schedule.start_at)
            last = last if schedule.end_at is None else min(last, schedule.end_at)
        schedule = getattr(schedule, "inner", None)
    return schedule, first, last
