"""Walls at an even distance: whole days or weeks, hours, minutes, seconds."""

from dataclasses import dataclass

from .zone import HORIZON


@dataclass(frozen=True, slots=True)
class EvenWalls:
    """first + k × step, k ≥ 0, in seconds."""

    first: int
    step: int

    def after(self, wall: int) -> int | None:
        found = self.first + max(0, -((self.first - wall) // self.step)) * self.step
        return found if found < HORIZON else None

    def before(self, wall: int) -> int | None:
        wall = min(wall, HORIZON - 1)
        return None if wall < self.first else wall - (wall - self.first) % self.step

    def count(self, first: int, last: int) -> int:
        first, last = max(first, self.first), min(last, HORIZON - 1)
        return (
            (last - self.first) // self.step - (first - self.first - 1) // self.step if first <= last else 0
        )
