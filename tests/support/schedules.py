"""Schedules as simple as can be, for tests of what is decided over them."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from qsched.triggers.schedule import COUNT_LIMIT


@dataclass(frozen=True)
class Grid:
    """A slot every `gap`, from the epoch."""

    gap: int

    def slot_after(self, instant: int) -> int | None:
        return (instant // self.gap + 1) * self.gap

    def latest_before(self, instant: int) -> int | None:
        return instant // self.gap * self.gap

    def count_between(self, first: int, last: int) -> int:
        return min(max(last // self.gap - (first - 1) // self.gap, 0), COUNT_LIMIT + 1)

    def words(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Listed:
    """Exactly these slots, in order."""

    slots: tuple[int, ...]

    def slot_after(self, instant: int) -> int | None:
        at = bisect_right(self.slots, instant)
        return self.slots[at] if at < len(self.slots) else None

    def latest_before(self, instant: int) -> int | None:
        at = bisect_right(self.slots, instant)
        return self.slots[at - 1] if at else None

    def count_between(self, first: int, last: int) -> int:
        return max(bisect_right(self.slots, last) - bisect_left(self.slots, first), 0)

    def words(self) -> str:
        return str(self)
