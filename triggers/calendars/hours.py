"""A calendar of times of the day, left out every day: from 22:00 to 06:00, as the zone's clocks show them."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ..instant import SECOND
from ..zone import DAY, Zone


@dataclass(frozen=True, slots=True)
class HourCalendar:
    """Leaves out the ranges `begins[i]` (included) to `ends[i]` (not) of each day, in seconds of the day; sorted, apart."""

    begins: Sequence[int]
    ends: Sequence[int]
    zone: Zone

    @classmethod
    def of(cls, ranges: Sequence[tuple[int, int]], zone: Zone) -> "HourCalendar":
        """Of ranges in any order; one that ends before it begins, or then, goes over midnight."""
        parts: list[tuple[int, int]] = []
        for begin, end in ranges:
            parts += [(begin, end)] if begin < end else [(begin, DAY), (0, end)]
        begins: list[int] = []
        ends: list[int] = []
        for begin, end in sorted(part for part in parts if part[0] < part[1]):
            if ends and begin <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                begins.append(begin)
                ends.append(end)
        return cls(tuple(begins), tuple(ends), zone)

    def excludes(self, instant: int) -> bool:
        time = self.zone.wall_at(instant // SECOND) % DAY
        at = bisect_right(self.begins, time) - 1
        return at >= 0 and time < self.ends[at]

    def changes_after(self, instant: int) -> int | None:
        """At the next edge of a range, or where the clocks are changed before it."""
        second = instant // SECOND
        time = self.zone.wall_at(second) % DAY
        edges = sorted({*self.begins, *self.ends, DAY})
        found = second + edges[bisect_right(edges, time)] - time
        changes = self.zone.covering(second + 2 * DAY)
        i = bisect_right(changes.starts, second)
        if i < len(changes.starts):
            found = min(found, changes.starts[i])
        return found * SECOND

    def changes_before(self, instant: int) -> int | None:
        second = instant // SECOND
        time = self.zone.wall_at(second) % DAY
        edges = sorted({0, *self.begins, *self.ends})
        found = second - (time - edges[bisect_right(edges, time) - 1])
        changes = self.zone.covering(second)
        start = changes.starts[bisect_right(changes.starts, second) - 1]
        return None if found <= 0 else max(found, start) * SECOND
