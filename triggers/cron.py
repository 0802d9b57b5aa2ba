"""Cron: a Unix or Quartz expression in a time zone, compiled to bit masks and tables (DESIGN §6)."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, Unpack
from zoneinfo import ZoneInfo

from .cron_dates import dates_of, ever_matches
from .cron_fields import Reading, refusal
from .cron_slots import CronSlots
from .cron_times import NONE, times_of
from .errors import CronError
from .instant import SECOND, to_instant
from .quartz_fields import read_quartz
from .unix_fields import read_unix
from .wall_schedule import Dst, WallSchedule
from .zone import find_zone

Dialect = Literal["unix", "quartz"]


class Cron(WallSchedule):
    """The slots of a cron expression. `key` is what `H` fields are hashed from (a trigger's key).

    `gap` and `overlap` say what becomes of a fixed wall-clock time that a change of offset skips or repeats;
    an expression whose minute or hour begins with `*` follows the clock instead, whatever they say.
    """

    __slots__ = (
        "_bound",
        "_first",
        "_plans",
        "_reading",
        "_times",
        "_twin",
        "_tz",
        "dialect",
        "expr",
        "gap",
        "key",
        "overlap",
    )

    _slots: CronSlots

    def __init__(
        self,
        expr: str,
        dialect: Dialect = "unix",
        time_zone: str | ZoneInfo = "UTC",
        *,
        key: str | None = None,
        **dst: Unpack[Dst],
    ) -> None:
        self.expr, self.dialect, self.key = expr, dialect, key
        self.gap, self.overlap = _dst(**dst)
        self.time_zone = time_zone.key if isinstance(time_zone, ZoneInfo) else time_zone
        self._reading, self._slots = _compiled(
            expr, dialect, self.time_zone, _hash_key(expr, key), (self.gap, self.overlap)
        )
        self._plans = self._slots.plans
        self._times = self._slots.times
        self._tz = self._slots.zone.tz
        self._twin = UTC if self.time_zone in ("UTC", "Etc/UTC") else self._tz
        # From this minute of the day on nothing is left (with seconds, the last minute needs a look).
        self._bound = self._times.last // 60 + (self._times.last % 60 > 0)
        self._first = self._slots.first

    def next_after(self, moment: datetime) -> datetime | None:
        """The first slot strictly after the aware `moment`, in the schedule's zone; None when there is none.

        Raises TriggerError for a naive `moment`.
        """
        tz = self._tz
        zone = moment.tzinfo
        if zone is tz or zone is self._twin:
            year, month, day = moment.year, moment.month, moment.day
            try:
                named, uneven, later = self._plans[year * 12 + month]
            except KeyError:
                named, uneven, later = self._slots.plan(year * 12 + month)
            if not uneven >> day & 1:
                named >>= day
                if named & 1:
                    hour, minute = moment.hour, moment.minute
                    if hour * 60 + minute < self._bound:
                        found = self._later_that_day(moment, hour, minute)
                        if found is not None:
                            return found
                named >>= 1
                if named:
                    day += (named & -named).bit_length()
                    if not uneven >> day & 1:
                        hour, minute, second = self._first
                        return datetime(year, month, day, hour, minute, second, 0, tz)
                elif later is not None:
                    return later
        slot = self._slots.after(to_instant(moment) // SECOND + 1)
        return None if slot is None else datetime.fromtimestamp(slot, tz)

    def _later_that_day(self, moment: datetime, hour: int, minute: int) -> datetime | None:
        """The first slot after `moment` on its own (named, even) day."""
        times = self._times
        next_m = times.next_m
        second = times.next_s[0]
        if times.next_h[hour] == hour:
            if next_m[minute] == minute:
                then = times.next_s[moment.second + 1]
                if then != NONE:
                    return datetime(moment.year, moment.month, moment.day, hour, minute, then, 0, self._tz)
            minute = next_m[minute + 1]
            if minute != NONE:
                return datetime(moment.year, moment.month, moment.day, hour, minute, second, 0, self._tz)
        hour = times.next_h[hour + 1]
        if hour == NONE:
            return None
        return datetime(moment.year, moment.month, moment.day, hour, next_m[0], second, 0, self._tz)

    def words(self) -> str:
        """The schedule in plain words, with weekday names."""
        from .explain import cron_words

        return cron_words(self._reading)

    @property
    def is_interval(self) -> bool:
        """It follows the clock around a change of offset: minute or hour begins with `*` (quartz: `0/`)."""
        return self._reading.interval

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader of this expression may misread: `5/15`, two day fields."""
        return self._reading.remarks

    def __str__(self) -> str:
        return self.expr

    def __repr__(self) -> str:
        return f"Cron({self.expr!r}, {self.dialect!r}, {self.time_zone!r})"

    def _identity(self) -> tuple[object, ...]:
        return (self.expr, self.dialect, self.time_zone, self.key, self.gap, self.overlap)


def _dst(gap: str = "run_after", overlap: str = "once") -> tuple[str, str]:
    if gap not in ("run_after", "skip"):
        raise CronError(f"dst gap {gap!r} is not known; use 'run_after' or 'skip'")
    if overlap not in ("once", "twice"):
        raise CronError(f"dst overlap {overlap!r} is not known; use 'once' or 'twice'")
    return gap, overlap


def _hash_key(expr: str, key: str | None) -> str | None:
    """The key where the expression is hashed from it, so that others are compiled once for all triggers."""
    return key if isinstance(expr, str) and ("H" in expr or "h" in expr) else None


@lru_cache(maxsize=8192)
def _compiled(
    expr: str, dialect: str, zone_name: str, key: str | None, dst: tuple[str, str]
) -> tuple[Reading, CronSlots]:
    """Read and compile an expression; raises CronError or ZoneError."""
    gap, overlap = dst
    if not isinstance(expr, str):
        raise CronError(f"a cron expression is a text, and {expr!r} is not; quote it")
    if dialect not in ("unix", "quartz"):
        raise CronError(f"cron dialect {dialect!r} is not known; use 'unix' or 'quartz'")
    reading = _read(expr, dialect, key)
    follows_clock = reading.interval
    slots = CronSlots(
        dates_of(reading.dates),
        times_of(reading.seconds, reading.minutes, reading.hours),
        find_zone(zone_name),
        runs_after_gap=gap == "run_after" and not follows_clock,
        once=overlap == "once" and not follows_clock,
    )
    if reading.dates.years is not None and slots.after(0) is None:
        raise refusal(_label(dialect), expr, _never(reading))
    return reading, slots


@lru_cache(maxsize=8192)
def _read(expr: str, dialect: str, key: str | None) -> Reading:
    reading = read_unix(expr, key) if dialect == "unix" else read_quartz(expr, key)
    if not ever_matches(reading.dates):
        raise refusal(_label(dialect), expr, _never(reading))
    return reading


def _label(dialect: str) -> str:
    return "cron" if dialect == "unix" else "quartz"


def _never(reading: Reading) -> str:
    """Why an expression can never fire, with the fields to change."""
    at = 2 if reading.dialect == "unix" else 3
    names = ("day-of-month", "month", "day-of-week", "year")
    given = [
        f"{name} {text!r}" for name, text in zip(names, reading.fields[at:], strict=False) if text not in "*?"
    ]
    return (
        ", ".join(given) + ": no such date exists, so it can never fire; choose days that these months have"
    )
