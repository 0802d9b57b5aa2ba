"""The slots of a cron expression: its days and times, and a plan of each month for walking by dates."""

from datetime import datetime

from .cron_dates import FIRST_YEAR, SHAPES, Dates
from .cron_times import Times
from .dated_walls import DatedWalls
from .wall_slots import Slots
from .zone import DAY, Zone

_FIRST_MONTH = FIRST_YEAR * 12 + 1
_YEARS = len(SHAPES)


Plan = tuple[int, int, datetime | None]
"""A month, for walking by dates: the mask of its named days; the mask of the days that need a closer look, since
a change touches them; the first slot of the months after it, or None where that needs a closer look."""


class CronSlots(Slots):
    """The slots of an expression in a zone."""

    __slots__ = ("dates", "first", "plans", "times")

    def __init__(self, dates: Dates, times: Times, zone: Zone, runs_after_gap: bool, once: bool) -> None:
        super().__init__(DatedWalls(dates, times), zone, runs_after_gap, once)
        self.dates, self.times = dates, times
        self.first = (times.first // 3600, times.first // 60 % 60, times.first % 60)
        self.plans: dict[int, Plan] = {}

    def plan(self, number: int) -> Plan:
        """The plan of month `number` (year * 12 + month), kept in `plans`."""
        year, month = divmod(number - _FIRST_MONTH, 12)
        if not 0 <= year < _YEARS:
            return 0, -1, None
        dates, changes = self.dates, self.zone.changes
        after = None
        later = dates.after_month(year, month)
        if later is not None:
            there = later[0] * 12 + later[1] + _FIRST_MONTH
            if there >= changes.even_until:
                changes = self.zone.covering((there - _FIRST_MONTH + 2) * 31 * DAY)
            if not changes.uneven_months.get(there, 0) >> later[2] & 1:
                hour, minute, second = self.first
                after = datetime(
                    later[0] + FIRST_YEAR, later[1] + 1, later[2], hour, minute, second, 0, self.zone.tz
                )  # fmt: skip
        if number >= changes.even_until:
            changes = self.zone.covering((number - _FIRST_MONTH + 2) * 31 * DAY)
        plan = self.plans[number] = (
            dates.year(year).months[month],
            changes.uneven_months.get(number, 0),
            after,
        )
        return plan
