"""A calendar of a cron expression: the minutes (in the quartz dialect the seconds) that match are left out."""

from dataclasses import dataclass

from ..cron import Cron
from ..instant import MINUTE, SECOND
from ..schedule import COUNT_LIMIT


@dataclass(frozen=True, slots=True)
class CronCalendar:
    """Leaves out each minute, or second, that begins with a slot of `cron`."""

    cron: Cron

    @property
    def step(self) -> int:
        return MINUTE if self.cron.dialect == "unix" else SECOND

    def excludes(self, instant: int) -> bool:
        begin = instant - instant % self.step
        return self.cron.latest_before(instant) == begin

    def changes_after(self, instant: int) -> int | None:
        begin = instant - instant % self.step
        if self.cron.latest_before(instant) != begin:
            return self.cron.slot_after(instant)
        return begin + self._run(begin, 1) * self.step

    def changes_before(self, instant: int) -> int | None:
        begin = instant - instant % self.step
        latest = self.cron.latest_before(instant)
        if latest is None:
            return None
        if latest != begin:
            return latest + self.step
        return begin - (self._run(begin, -1) - 1) * self.step

    def _run(self, begin: int, way: int) -> int:
        """How many steps from `begin` on, in one direction, are left out without a hole: by leaps, then by halves."""
        known, leap = 1, 1
        while self._whole(begin, way, known + leap):
            known += leap
            leap *= 2
            if known > _LONGEST:
                return known
        while leap > 1:
            leap //= 2
            if self._whole(begin, way, known + leap):
                known += leap
        return known

    def _whole(self, begin: int, way: int, count: int) -> bool:
        """Whether all of `count` steps from `begin` on, in one direction, are left out."""
        far = begin + way * (count - 1) * self.step
        return self._all(min(begin, far), max(begin, far))

    def _all(self, first: int, last: int) -> bool:
        count = (last - first) // self.step + 1
        if count <= COUNT_LIMIT:
            return self.cron.count_between(first, last) == count
        middle = first + count // 2 * self.step
        return self._all(first, middle - self.step) and self._all(middle, last)


_LONGEST = 1_000_000
"""Steps after which a run is no longer followed: the answer may be another behind them."""
