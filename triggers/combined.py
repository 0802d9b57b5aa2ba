"""Combinations: whenever any of some schedules has a slot, or only when all of them have one at the same instant."""

from collections.abc import Sequence
from math import gcd
from typing import ClassVar, Final

from .errors import ScheduleError
from .instant import rfc3339
from .interval import Every
from .schedule import COUNT_LIMIT, Moments, Schedule, note_on

MOST_PARTS: Final = 20
MOST_LEAPS: Final = 20_000
"""How many slots one search for a common one may look at: rarer coincidences are not found."""


class _Combined(Moments):
    """Some schedules as one."""

    __slots__ = ("parts",)

    kind: ClassVar[str]
    parts: tuple[Schedule, ...]

    def __init__(self, parts: Sequence[Schedule]) -> None:
        if not 2 <= len(parts) <= MOST_PARTS:
            raise ScheduleError(
                f"{self.kind}: {len(parts)} schedules, and it takes 2 to {MOST_PARTS}; change the list"
            )
        self.parts = tuple(parts)

    def notes(self, slot: int) -> str | None:
        """What the parts that have this slot say of it."""
        found = [note_on(part, slot) for part in self.parts if part.latest_before(slot) == slot]
        return "; ".join(dict.fromkeys(note for note in found if note is not None)) or None

    def __str__(self) -> str:
        return f"{self.kind} of ({'; '.join(map(str, self.parts))})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.parts)!r})"

    def __eq__(self, other: object) -> bool:
        same = type(other) is type(self) and isinstance(other, _Combined)
        return self.parts == other.parts if same and isinstance(other, _Combined) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self.parts))


class AnyOf(_Combined):
    """The slots of all `parts` (2 to 20 schedules); where some coincide that is one slot."""

    __slots__ = ()

    kind = "any"

    def slot_after(self, instant: int) -> int | None:
        """The first slot of any part strictly after `instant`; None when there is none."""
        return min(
            (slot for part in self.parts if (slot := part.slot_after(instant)) is not None), default=None
        )

    def latest_before(self, instant: int) -> int | None:
        """The last slot of any part *not after* `instant`; None when there is none."""
        return max(
            (slot for part in self.parts if (slot := part.latest_before(instant)) is not None), default=None
        )

    def count_between(self, first: int, last: int) -> int:
        """How many different slots lie in `first`..`last`, both included; never more than COUNT_LIMIT + 1."""
        if any(part.count_between(first, last) > COUNT_LIMIT for part in self.parts):
            return COUNT_LIMIT + 1
        slots: set[int] = set()
        for part in self.parts:
            slot = part.slot_after(first - 1)
            while slot is not None and slot <= last and len(slots) <= COUNT_LIMIT:
                slots.add(slot)
                slot = part.slot_after(slot)
        return len(slots)

    def words(self) -> str:
        """The schedules in plain words."""
        return "; or ".join(part.words() for part in self.parts)


class AllOf(_Combined):
    """The instants that are slots of every one of `parts` (2 to 20 schedules).

    A search looks at 20,000 slots at most. Raises ScheduleError where that finds none: they never coincide.
    """

    __slots__ = ("_searched",)

    kind = "all"

    def __init__(self, parts: Sequence[Schedule]) -> None:
        super().__init__(parts)
        self._searched = _merged(self.parts)
        if self.slot_after(-1) is None:
            raise ScheduleError(
                "all: these schedules never coincide, so it can never fire; correct one, or use `any`"
            )

    def slot_after(self, instant: int) -> int | None:
        """The first common slot strictly after `instant`; None when none is found."""
        wanted, agreed = instant + 1, 0
        for leap in range(MOST_LEAPS):
            slot = self._searched[leap % len(self._searched)].slot_after(wanted - 1)
            if slot is None:
                return None
            agreed = agreed + 1 if slot == wanted else 1
            wanted = slot
            if agreed >= len(self._searched):
                return slot
        return None

    def latest_before(self, instant: int) -> int | None:
        """The last common slot *not after* `instant`; None when none is found."""
        wanted, agreed = instant, 0
        for leap in range(MOST_LEAPS):
            slot = self._searched[leap % len(self._searched)].latest_before(wanted)
            if slot is None:
                return None
            agreed = agreed + 1 if slot == wanted else 1
            wanted = slot
            if agreed >= len(self._searched):
                return slot
        return None

    def count_between(self, first: int, last: int) -> int:
        """How many common slots lie in `first`..`last`, both included; COUNT_LIMIT + 1 where there are more.

        What is looked at is bounded, too: where every part has more than COUNT_LIMIT slots, the search for common ones
        ends after five times as many.
        """
        rarest = min(self._searched, key=lambda part: part.count_between(first, last))
        if rarest.count_between(first, last) > COUNT_LIMIT:
            return self._leaped(first, last)
        others = [part for part in self._searched if part is not rarest]
        total = 0
        slot = rarest.slot_after(first - 1)
        while slot is not None and slot <= last:
            total += all(part.latest_before(slot) == slot for part in others)
            slot = rarest.slot_after(slot)
        return total

    def _leaped(self, first: int, last: int) -> int:
        parts = len(self._searched)
        wanted, agreed, total = first, 0, 0
        for leap in range(5 * COUNT_LIMIT):
            slot = self._searched[leap % parts].slot_after(wanted - 1)
            if slot is None or slot > last or total > COUNT_LIMIT:
                break
            agreed = agreed + 1 if slot == wanted else 1
            wanted = slot
            if agreed >= parts:
                total += 1
                wanted, agreed = slot + 1, 0
        return total

    def words(self) -> str:
        """The schedules in plain words."""
        return "Only when all of these coincide: " + "; ".join(part.words() for part in self.parts)


def _merged(parts: tuple[Schedule, ...]) -> tuple[Schedule, ...]:
    """The parts with all plain intervals as one: when those coincide is known without a search."""
    intervals = [part for part in parts if isinstance(part, Every)]
    others = tuple(part for part in parts if not isinstance(part, Every))
    if len(intervals) < 2:
        return parts
    merged = intervals[0]
    for interval in intervals[1:]:
        merged = _meeting(merged, interval)
    return (merged, *others)


def _meeting(one: Every, other: Every) -> Every:
    """The interval of the instants that are slots of both."""
    shared = gcd(one.interval, other.interval)
    apart = other.anchor - one.anchor
    if apart % shared:
        raise ScheduleError(
            f"all: {one} and {other} from {rfc3339(one.anchor)} and {rfc3339(other.anchor)} never coincide,"
            " so it can never fire; correct one, or use `any`"
        )
    step = one.interval // shared * other.interval
    modulus = other.interval // shared
    times = apart // shared * pow(one.interval // shared, -1, modulus) % modulus if modulus > 1 else 0
    first = one.anchor + times * one.interval
    latest = max(one.anchor, other.anchor)
    return Every(step, first + max(0, -((first - latest) // step)) * step)
