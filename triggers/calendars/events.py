"""Events of a calendar file: spans of time, once or by a recurrence rule (RFC 5545, through dateutil)."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ..errors import ScheduleError
from ..instant import SECOND
from ..zone import DAY, Zone

_EPOCH = datetime(1970, 1, 1)
_AHEAD = timedelta(days=5 * 366)
_END = datetime(3000, 1, 1)
_MOST = 200_000
"""Occurrences of one rule that are ever looked at."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Leaves out `begins[i]` (included) to `ends[i]` (not), instants; sorted, apart."""

    begins: Sequence[int]
    ends: Sequence[int]

    @classmethod
    def of(cls, spans: Sequence[tuple[int, int]]) -> "Spans":
        """Of spans in any order, which may overlap."""
        begins: list[int] = []
        ends: list[int] = []
        for begin, end in sorted(span for span in spans if span[0] < span[1]):
            if ends and begin <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                begins.append(begin)
                ends.append(end)
        return cls(tuple(begins), tuple(ends))

    def excludes(self, instant: int) -> bool:
        at = bisect_right(self.begins, instant) - 1
        return at >= 0 and instant < self.ends[at]

    def changes_after(self, instant: int) -> int | None:
        at = bisect_right(self.begins, instant) - 1
        if at >= 0 and instant < self.ends[at]:
            return self.ends[at]
        return self.begins[at + 1] if at + 1 < len(self.begins) else None

    def changes_before(self, instant: int) -> int | None:
        at = bisect_right(self.begins, instant) - 1
        if at < 0:
            return None
        return self.begins[at] if instant < self.ends[at] else self.ends[at]


@dataclass(slots=True)
class Occurrences:
    """The walls at which a recurrence rule names something, in seconds on the wall; read as far as they were asked for."""

    rule: str
    start: datetime
    """Naive: the first, and what the rule counts from."""
    left_out: frozenset[datetime] = frozenset()
    _walls: list[int] = field(default_factory=list)
    _until: datetime | None = None
    _left: Any = None

    def __post_init__(self) -> None:
        self._left = iter(self._rule())

    def _rule(self) -> Any:
        from dateutil.rrule import rrulestr  # few calendars have rules

        try:
            return rrulestr(self.rule, dtstart=self.start, ignoretz=True)
        except (ValueError, TypeError, KeyError) as error:
            raise ScheduleError(f"the recurrence rule {self.rule!r} cannot be read: {error}") from error

    def walls(self, until: int) -> list[int]:
        """All of them up to the wall `until` at least."""
        wanted = min(_EPOCH + timedelta(seconds=until), _END)
        if self._left is None or (self._until is not None and wanted <= self._until):
            return self._walls
        self._until = wanted + _AHEAD if wanted < _END - _AHEAD else _END
        for each in self._left:
            if each not in self.left_out:
                self._walls.append(int((each - _EPOCH).total_seconds()))
            if len(self._walls) >= _MOST:
                break
            if each > self._until:
                return self._walls
        self._left = None
        return self._walls


@dataclass(frozen=True, slots=True)
class RecurringDays:
    """Whole days: each occurrence, and those behind it."""

    occurrences: Occurrences
    length: int
    """Days."""

    def __contains__(self, day: int) -> bool:
        walls = self.occurrences.walls((day + 1) * DAY)
        at = bisect_right(walls, day * DAY + DAY - 1) - 1
        return at >= 0 and day < walls[at] // DAY + self.length


@dataclass(frozen=True, slots=True)
class RecurringSpans:
    """Leaves out so many seconds from each occurrence on, which is a wall in `zone`."""

    occurrences: Occurrences
    length: int
    zone: Zone

    def _around(self, instant: int) -> tuple[int | None, int | None]:
        """The instants of the last occurrence that is not after `instant`, and of the next."""
        second = instant // SECOND
        walls = self.occurrences.walls(self.zone.wall_at(second) + 2 * DAY)
        at = bisect_right(walls, second, key=self.zone.second_of) - 1
        before = self.zone.second_of(walls[at]) * SECOND if at >= 0 else None
        after = self.zone.second_of(walls[at + 1]) * SECOND if at + 1 < len(walls) else None
        return before, after

    def excludes(self, instant: int) -> bool:
        before, _ = self._around(instant)
        return before is not None and instant < before + self.length * SECOND

    def changes_after(self, instant: int) -> int | None:
        before, after = self._around(instant)
        if before is not None and instant < before + self.length * SECOND:
            return before + self.length * SECOND
        return after

    def changes_before(self, instant: int) -> int | None:
        before, _ = self._around(instant)
        if before is None:
            return None
        end = before + self.length * SECOND
        return before if instant < end else end
