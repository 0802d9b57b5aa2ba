"""Calendar interval: every n years, months, weeks or days at one time of day, whatever clocks do in between."""

from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, Unpack
from zoneinfo import ZoneInfo

from .errors import ScheduleError
from .even_walls import EvenWalls
from .instant import from_instant, to_instant
from .time_of_day import format_time_of_day, parse_time_of_day
from .trigger_text import calendar_interval_text
from .wall_schedule import Dst, Start, WallSchedule, start_in, wall_slots, zone_name
from .wall_slots import Walls
from .zone import DAY, HORIZON, find_zone

UNITS: Final = ("years", "months", "weeks", "days")
LAST: Final = "last"
MOST: Final = 1000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FIRST_MONDAY = 4
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


class Step(Dst, total=False):
    """Exactly one of the first four, a whole number from 1 to 1000; the rest says when on that day."""

    years: int
    months: int
    weeks: int
    days: int
    day: int | str
    """With years and months: 1 to 31, or `last`; else the day of `start_at`. A shorter month has it on its last day."""
    at: str
    """`HH:MM` or `HH:MM:SS`; else the time of `start_at`, else midnight."""


class CalendarInterval(WallSchedule):
    """The wall-clock times that lie whole years, months, weeks or days apart.

    They are counted from the local date of `start_at` (an aware datetime, or microseconds since the epoch), else from
    1970-01-01, weeks from Monday 1970-01-05. Raises ScheduleError for what makes no sense, ZoneError for an unknown zone.
    """

    __slots__ = ("_day", "_said", "_start", "_walls", "gap", "overlap", "start_at")

    def __init__(
        self,
        time_zone: str | ZoneInfo = "UTC",
        start_at: datetime | int | None = None,
        **said: Unpack[Step],
    ) -> None:
        self.time_zone = zone_name(time_zone)
        self.gap, self.overlap = said.pop("gap", "run_after"), said.pop("overlap", "once")
        self.start_at = to_instant(start_at) if isinstance(start_at, datetime) else start_at
        unit, step = _unit(said)
        self._said: Step = (
            {**said, "at": format_time_of_day(parse_time_of_day(said["at"]))} if "at" in said else said
        )
        start = start_in(find_zone(self.time_zone), start_at)
        self._start = start
        begin = Start(_FIRST_MONDAY if unit == "weeks" else 0, 0) if start is None else start
        at = parse_time_of_day(said["at"]) if "at" in said else begin.time
        self._day = _day(said, unit, begin.day)
        self._walls: Walls
        if unit in ("years", "months"):
            began = date.fromordinal(begin.day + _EPOCH_DAY)
            self._walls = _MonthWalls(
                began.year * 12 + began.month - 1, step * (12 if unit == "years" else 1), self._day, at
            )
        else:
            self._walls = EvenWalls(begin.day * DAY + at, step * (7 if unit == "weeks" else 1) * DAY)
        self._slots = wall_slots(self._walls, self.time_zone, self.gap, self.overlap)

    @property
    def said(self) -> dict[str, object]:
        """What a definition's `schedule` holds of it."""
        return {"calendar_interval": dict(self._said)}

    def notes(self, slot: int) -> str | None:
        """What a change of offset, or a month that is too short, does at `slot`; None on an ordinary slot."""
        found = super().notes(slot)
        if found is not None or self._day <= 28 or self._said.get("day") == LAST:
            return found
        local = from_instant(slot).astimezone(self._slots.zone.tz)
        if local.day == self._day or monthrange(local.year, local.month)[1] >= self._day:
            return None
        return f"{_MONTHS[local.month - 1]} has no day {self._day}: its last day"

    def words(self) -> str:
        """The schedule in plain words."""
        unit, step = _unit(self._said)
        every = f"Every {unit[:-1]}" if step == 1 else f"Every {step} {unit}"
        at = self._walls.after(0) or 0
        text = every + self._on(unit, at) + f" at {format_time_of_day(at % DAY)}"
        if step > 1 or unit == "years":
            began = self._start.day if self._start is not None else _FIRST_MONDAY if unit == "weeks" else 0
            text += f", counted from {date.fromordinal(began + _EPOCH_DAY)}"
        return text

    def _on(self, unit: str, wall: int) -> str:
        when = date.fromordinal(wall // DAY + _EPOCH_DAY)
        if unit == "weeks":
            return f" on {_WEEKDAYS[when.weekday()]}"
        if unit == "days":
            return ""
        day = "the last day" if self._said.get("day") == LAST else f"day {self._day}"
        if unit == "years":
            day += f" of {_MONTHS[when.month - 1]}"
        elif self._day > 28 and self._said.get("day") != LAST:
            day += " (or the month's last)"
        return f" on {day}"

    def _identity(self) -> tuple[object, ...]:
        slots = self._slots
        return (
            tuple(sorted(self._said.items())),
            self._start,
            self.time_zone,
            slots.runs_after_gap,
            slots.once,
        )

    def __str__(self) -> str:
        return calendar_interval_text(self._said)


def _unit(said: Step) -> tuple[str, int]:
    given: dict[str, object] = {**said}
    if unknown := sorted(given.keys() - Step.__annotations__.keys()):
        raise ScheduleError(
            f"calendar_interval: {unknown[0]!r} is not known; use {', '.join(UNITS)}, day, at"
        )
    units = [unit for unit in UNITS if unit in given]
    if len(units) != 1:
        had = f"{' and '.join(units)} are given" if units else "no unit is given"
        raise ScheduleError(f"calendar_interval: {had}; say one of years, months, weeks, days")
    step = given[units[0]]
    if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step <= MOST:
        raise ScheduleError(
            f"calendar_interval: {units[0]} {step!r} is not a whole number from 1 to {MOST}; change it"
        )
    return units[0], step


def _day(said: Step, unit: str, begin: int) -> int:
    """The day of the month; 31 stands for the last one, too."""
    if "day" not in said:
        return date.fromordinal(begin + _EPOCH_DAY).day
    day = said["day"]
    if unit not in ("years", "months"):
        raise ScheduleError(
            f"calendar_interval: `day` goes with years and months, not with {unit}; use start_at"
        )
    if day == LAST:
        return 31
    if isinstance(day, bool) or not isinstance(day, int) or not 1 <= day <= 31:
        raise ScheduleError(f"calendar_interval: day {day!r} is not 1 to 31; use a number, or last")
    return day


@dataclass(frozen=True, slots=True)
class _MonthWalls:
    """One wall in every `step`-th month (year × 12 + month, January = 0) from `first` on."""

    first: int
    step: int
    day: int
    time: int

    def _wall(self, index: int) -> int:
        year, month = divmod(self.first + index * self.step, 12)
        day = min(self.day, monthrange(year, month + 1)[1])
        return (date(year, month + 1, day).toordinal() - _EPOCH_DAY) * DAY + self.time

    def _index(self, wall: int) -> int:
        """Of the last wall that is not after `wall`; negative where there is none."""
        when = date.fromordinal(min(wall, HORIZON - 1) // DAY + _EPOCH_DAY)
        index = (when.year * 12 + when.month - 1 - self.first) // self.step
        return index if index < 0 or self._wall(index) <= wall else index - 1

    def after(self, wall: int) -> int | None:
        found = self._wall(max(0, self._index(wall - 1) + 1))
        return found if found < HORIZON else None

    def before(self, wall: int) -> int | None:
        index = self._index(wall)
        return None if index < 0 else self._wall(index)

    def count(self, first: int, last: int) -> int:
        last = min(last, HORIZON - 1)
        return max(0, max(-1, self._index(last)) - max(-1, self._index(first - 1))) if first <= last else 0
