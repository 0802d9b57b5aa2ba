"""What a change of offset does to a slot, said in words for previews."""

from bisect import bisect_right
from datetime import UTC, datetime

from .wall_slots import Slots
from .zone import Changes


def note(slots: Slots, slot: int) -> str | None:
    """The note for `slot` (a second since the epoch), or None where no change of offset touches it."""
    changes = slots.zone.covering(slot)
    i = bisect_right(changes.starts, slot) - 1
    wall = slot + changes.offsets[i]
    if i > 0 and wall < changes.floors[i]:
        return f"second {_clock(wall)} of this day: clocks went back"
    return _after_gap(slots, changes, i, slot) or _first_of_two(slots, changes, i, wall)


def _after_gap(slots: Slots, changes: Changes, i: int, slot: int) -> str | None:
    """A note where walls named in the gap before entry i run now, or were left out just before `slot`."""
    start, offset, floor = changes.starts[i], changes.offsets[i], changes.floors[i]
    if i == 0:
        return None
    missed = slots.walls.after(floor)
    if missed is None or missed >= start + offset:
        return None
    if slots.runs_at_start(changes, i):
        return (
            f"{_clock(missed)} does not exist on this day: runs when the gap ends" if slot == start else None
        )
    before = slots.before(slot - 1)
    if before is not None and before >= start:
        return None
    return f"{_clock(missed)} of {_date(missed)} does not exist and is skipped"


def _first_of_two(slots: Slots, changes: Changes, i: int, wall: int) -> str | None:
    if i + 1 == len(changes.starts) or wall < changes.starts[i + 1] + changes.offsets[i + 1]:
        return None
    second = "the second is not run" if slots.once else "the second runs too"
    return f"first {_clock(wall)} of two on this day: {second}"


def _date(wall: int) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d")


def _clock(wall: int) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%H:%M:%S").removesuffix(":00")
