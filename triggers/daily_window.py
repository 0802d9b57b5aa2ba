"""Daily window: every so often between two times of day, counted from the beginning of each day's window."""

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypedDict, Unpack
from zoneinfo import ZoneInfo

from .duration import format_duration
from .errors import ScheduleError
from .instant import DAY as DAY_US
from .instant import SECOND
from .interval import Every
from .schedule import COUNT_LIMIT, Moments
from .time_of_day import format_time_of_day, parse_time_of_day
from .trigger_text import daily_window_text
from .wall_schedule import zone_name
from .weekdays import WEEKDAYS, read_weekdays, weekday_words
from .zone import DAY, HORIZON, Zone, find_zone

MOST_REPEATS: Final = 100_000
_LAST_DAY = HORIZON // DAY


class Days(TypedDict, total=False):
    """On which days a window opens, and how often it runs in one of them."""

    days: tuple[str, ...] | list[str]
    """`mon` to `sun`, and ranges such as `mon-fri`; every day where none is named."""
    repeat: int
    """At most this many slots in each window."""


class _Window(NamedTuple):
    start: int
    """µs since the epoch"""
    slots: int


class DailyWindow(Moments):
    """From `from_time` to `to_time` (local, both included), every `every` in elapsed time from where the window begins.

    A window lasts from the first instant at which the clock has reached `from_time` to the last one at which it has not
    passed `to_time`: an hour more or less where clocks change within. One that ends earlier in the day than it begins
    ends on the next day, and `days` says where it begins. Raises ScheduleError or ZoneError.
    """

    __slots__ = ("_days", "_even", "_every", "_first", "_last", "_repeat", "_zone", "days", "time_zone")

    def __init__(
        self,
        every: str | int | timedelta,
        from_time: str,
        to_time: str,
        time_zone: str | ZoneInfo = "UTC",
        **said: Unpack[Days],
    ) -> None:
        self.time_zone = zone_name(time_zone)
        self._zone: Zone = find_zone(self.time_zone)
        self._every = Every(every).interval
        self._first, last = parse_time_of_day(from_time), parse_time_of_day(to_time)
        self._last = last + DAY if last < self._first else last
        self.days = read_weekdays(said["days"]) if "days" in said else WEEKDAYS
        self._days = frozenset(WEEKDAYS.index(day) for day in self.days)
        self._repeat = said.get("repeat")
        self._check(said)
        self._even = self._within((self._last - self._first) * SECOND)

    def _check(self, said: Days) -> None:
        if unknown := sorted(said.keys() - Days.__annotations__.keys()):
            raise ScheduleError(
                f"daily_window: {unknown[0]!r} is not known; use every, from, to, days, repeat"
            )
        if self._every > DAY_US:
            every = format_duration(self._every)
            raise ScheduleError(
                f"daily_window: every {every} is longer than a day; use calendar_interval, or a cron"
            )
        repeat = self._repeat
        if repeat is not None and (
            isinstance(repeat, bool) or not isinstance(repeat, int) or not 1 <= repeat <= MOST_REPEATS
        ):
            raise ScheduleError(
                f"daily_window: repeat {repeat!r} is not a whole number from 1 to {MOST_REPEATS}; change it"
            )

    @property
    def said(self) -> dict[str, object]:
        """What a definition's `schedule` holds of it."""
        window: dict[str, object] = {"every": self._every, "from": format_time_of_day(self._first)}
        window["to"] = format_time_of_day(self._last % DAY)
        if self.days != WEEKDAYS:
            window["days"] = list(self.days)
        if self._repeat is not None:
            window["repeat"] = self._repeat
        return {"daily_window": window}

    def _within(self, length: int) -> int:
        """How many slots a window of so many microseconds has."""
        slots = length // self._every + 1 if length >= 0 else 0
        return slots if self._repeat is None else min(slots, self._repeat)

    def _window(self, day: int) -> _Window:
        """The window that begins on local `day`; without slots where clocks leave all of it out."""
        wall = day * DAY
        changes = self._zone.covering(wall + 2 * DAY)
        if day not in changes.uneven and (self._last < DAY or day + 1 not in changes.uneven):
            first = wall + self._first
            return _Window(
                (first - changes.offsets[bisect_right(changes.floors, first) - 1]) * SECOND, self._even
            )
        start = self._reached(wall + self._first)
        end = min(self._left(wall + self._last), self._reached(wall + DAY + self._first) - 1)
        return _Window(start, self._within(end - start))

    def _reached(self, wall: int) -> int:
        """The first instant at which clocks show `wall` or later."""
        changes = self._zone.covering(wall)
        i = max(bisect_right(changes.floors, wall) - 1, 0)
        return max(wall - changes.offsets[i], changes.starts[i]) * SECOND

    def _left(self, wall: int) -> int:
        """The last instant at which clocks show `wall` or earlier."""
        changes = self._zone.covering(wall)
        i = max(bisect_right(changes.floors, wall) - 1, 0)
        if i + 1 < len(changes.starts) and changes.starts[i + 1] + changes.offsets[i + 1] <= wall:
            i += 1
        elif wall < changes.starts[i] + changes.offsets[i]:
            return changes.starts[i] * SECOND - 1
        return (wall - changes.offsets[i]) * SECOND

    def _day_of(self, instant: int) -> int:
        second = instant // SECOND
        return (second + self._zone.offset_at(second)) // DAY

    def slot_after(self, instant: int) -> int | None:
        """The first slot strictly after `instant`; None when there is none before the year 3000."""
        instant = max(instant, -1)
        if instant > HORIZON * SECOND:
            return None
        # A window of the day before may still be open (of two days before, where a day was left out).
        for day in range(self._day_of(instant) - 2, _LAST_DAY):
            if (day + 3) % 7 in self._days:
                start, slots = self._window(day)
                step = max(0, (instant - start) // self._every + 1)
                if step < slots:
                    return start + step * self._every
        return None

    def latest_before(self, instant: int) -> int | None:
        """The last slot *not after* `instant`; None when there is none from 1970 on."""
        if instant < 0:
            return None
        instant = min(instant, HORIZON * SECOND)
        for day in range(min(self._day_of(instant) + 1, _LAST_DAY - 1), -2, -1):
            if (day + 3) % 7 in self._days:
                start, slots = self._window(day)
                if slots and start <= instant:
                    slot = start + min((instant - start) // self._every, slots - 1) * self._every
                    return slot if slot >= 0 else None
        return None

    def count_between(self, first: int, last: int) -> int:
        """How many slots lie in `first`..`last`, both included; never more than COUNT_LIMIT + 1."""
        first, last = max(first, 0), min(last, HORIZON * SECOND)
        if first > last:
            return 0
        begin, end = self._day_of(first) - 2, min(self._day_of(last) + 1, _LAST_DAY - 1)
        low, high = begin + 4, end - 3  # windows of these days lie wholly between
        if low > high:
            low, high = end + 1, end
        edges = [*range(begin, min(low, end + 1)), *range(high + 1, end + 1)]
        total = sum(self._slots_between(day, first, last) for day in edges if (day + 3) % 7 in self._days)
        total += self._slots_of_days(low, high)
        return min(total, COUNT_LIMIT + 1)

    def _slots_between(self, day: int, first: int, last: int) -> int:
        """How many slots of one window lie in `first`..`last`."""
        start, slots = self._window(day)
        least = max(0, -((start - first) // self._every))
        most = min((last - start) // self._every, slots - 1)
        return max(0, most - least + 1)

    def _slots_of_days(self, low: int, high: int) -> int:
        """How many slots the windows of `low`..`high` have."""
        if low > high:
            return 0
        weeks, rest = divmod(high - low + 1, 7)
        days = weeks * len(self._days) + sum((low + i + 3) % 7 in self._days for i in range(rest))
        total = days * self._even
        if total > 2 * COUNT_LIMIT:
            return total  # what clocks leave out and repeat cannot bring this below the limit
        uneven = self._zone.covering((high + 2) * DAY).uneven
        touched = {day - late for day in uneven for late in (0, 1) if low <= day - late <= high}
        return total + sum(
            self._window(day).slots - self._even for day in touched if (day + 3) % 7 in self._days
        )

    def notes(self, slot: int) -> str | None:
        """What a change of offset does to the window of `slot`, in words for previews; None on an ordinary one."""
        day = next(
            day for day in range(self._day_of(slot) + 1, -3, -1)
            if (day + 3) % 7 in self._days and self._window(day).slots and self._window(day).start <= slot
        )  # fmt: skip
        start, slots = self._window(day)
        if slot != start:
            return self._repeated(slot)
        before = next((day - back for back in range(1, 8) if (day - back + 3) % 7 in self._days), day)
        if before != day and not self._window(before).slots:
            return f"the window of {_date(before)} does not exist and is left out"
        on_time = self._wall(start) == day * DAY + self._first
        parts = [] if on_time else [
            f"{format_time_of_day(self._first)} does not exist on this day: the window begins when the gap ends"
        ]  # fmt: skip
        if slots != self._even:
            many = "1 slot" if slots == 1 else f"{slots} slots"
            parts.append(f"clocks change within: {many} in place of {self._even}")
        return "; ".join(parts) or self._repeated(slot)

    def _wall(self, instant: int) -> int:
        second = instant // SECOND
        return second + self._zone.offset_at(second)

    def _repeated(self, slot: int) -> str | None:
        """A note where clocks show the time of `slot` for the second time."""
        wall = self._wall(slot)
        if self._reached(wall) // SECOND >= slot // SECOND:
            return None
        return f"second {format_time_of_day(wall % DAY)} of this day: clocks went back"

    def words(self) -> str:
        """The schedule in plain words."""
        often = Every(self._every).words()
        over = " of the next day" if self._last >= DAY else ""
        text = (
            f"{often} from {format_time_of_day(self._first)} to {format_time_of_day(self._last % DAY)}{over}"
        )
        if self._repeat is not None:
            text += f", at most {self._repeat} {'time' if self._repeat == 1 else 'times'}"
        return text + (", every day" if self.days == WEEKDAYS else f", on {weekday_words(self.days)}")

    def _identity(self) -> tuple[object, ...]:
        return (self._every, self._first, self._last, self.days, self._repeat, self.time_zone)

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, DailyWindow) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    def __str__(self) -> str:
        window = self.said["daily_window"]
        return daily_window_text(window if isinstance(window, dict) else {})

    def __repr__(self) -> str:
        return f"<DailyWindow {self} in {self.time_zone}>"


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY, UTC).strftime("%Y-%m-%d")
