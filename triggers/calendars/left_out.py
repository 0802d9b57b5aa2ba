"""What was left out of a schedule, in values and in words."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..schedule import Schedule
from .compiling import Named


class LeftOut(NamedTuple):
    """A slot that does not run when the schedule names it: by which calendars, and where it went, if anywhere."""

    slot: int
    calendars: tuple[str, ...]
    rolled_to: int | None


def slots_between(schedule: Schedule, first: int, last: int) -> Iterator[int]:
    """Each slot from `first` to `last`, both included."""
    slot = schedule.slot_after(first - 1)
    while slot is not None and slot <= last:
        yield slot
        slot = schedule.slot_after(slot)


def spoken(named: Sequence[Named]) -> str:
    """The calendars' names in a sentence."""
    names = [each.name for each in named]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def endless(schedule: Schedule, named: Sequence[Named]) -> str:
    """What is said where a search found nothing but left-out slots."""
    return f"{schedule}: nothing but slots that {spoken(named)} leaves out, for as long as was looked; it can never fire"
