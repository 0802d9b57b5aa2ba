"""Every: slots at a fixed distance from an anchor in elapsed time, so that no change of offset moves one."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from .duration import format_duration, parse_duration
from .errors import ScheduleError
from .instant import rfc3339, to_instant
from .schedule import COUNT_LIMIT, Moments

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, init=False)
class Every(Moments):
    """The slots anchor + k × interval, k ≥ 0; both are microseconds once built.

    `interval` is a written duration (`10s`, `1h30m`), a timedelta, or microseconds; `anchor` an aware
    datetime or an instant, and the epoch where none is given.
    """

    interval: int
    anchor: int

    def __init__(self, interval: str | int | timedelta, anchor: datetime | int | None = None) -> None:
        object.__setattr__(self, "interval", _microseconds(interval))
        start = 0 if anchor is None else anchor
        object.__setattr__(self, "anchor", to_instant(start) if isinstance(start, datetime) else start)

    def slot_after(self, instant: int) -> int:
        """The first slot strictly after `instant`; there always is one."""
        if instant < self.anchor:
            return self.anchor
        return instant + self.interval - (instant - self.anchor) % self.interval

    def latest_before(self, instant: int) -> int | None:
        """The last slot *not after* `instant`; None before the anchor."""
        return None if instant < self.anchor else instant - (instant - self.anchor) % self.interval

    def count_between(self, first: int, last: int) -> int:
        """How many slots lie in `first`..`last`, both included; never more than COUNT_LIMIT + 1."""
        first = max(first, self.anchor)
        if first > last:
            return 0
        count = (last - self.anchor) // self.interval - (first - self.anchor - 1) // self.interval
        return min(count, COUNT_LIMIT + 1)

    def words(self) -> str:
        """The schedule in plain words."""
        counted = "" if self.anchor == 0 else f", counted from {rfc3339(self.anchor)}"
        return f"Every {_spoken(self.interval)}{counted}"

    def __str__(self) -> str:
        return f"every {format_duration(self.interval)}"


def _microseconds(interval: str | int | timedelta) -> int:
    if isinstance(interval, str):
        return parse_duration(interval)
    if isinstance(interval, timedelta):
        interval = interval // _MICROSECOND
    if isinstance(interval, bool) or not isinstance(interval, int):
        raise ScheduleError(
            f"every: {interval!r} is not a duration: write it with its unit, as in 30s or 1h30m"
        )
    if interval <= 0:
        raise ScheduleError(f"every: an interval must be greater than zero, and {interval} µs is not")
    return interval


_UNITS = {"d": "day", "h": "hour", "m": "minute", "s": "second", "ms": "millisecond", "us": "microsecond"}


def _spoken(interval: int) -> str:
    """`1h30m` as `1 hour 30 minutes`; a single unit of one as `minute`."""
    written, parts = format_duration(interval), []
    number = unit = ""
    for char in written + "0":
        if char.isdigit() and unit:
            parts.append((int(number), _UNITS[unit]))
            number = unit = ""
        if char.isdigit():
            number += char
        else:
            unit += char
    if len(parts) == 1 and parts[0][0] == 1:
        return parts[0][1]
    return " ".join(f"{count} {name}{'s' if count != 1 else ''}" for count, name in parts)
