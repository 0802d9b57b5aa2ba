"""Times and durations as people read them, and as they write them on a command line."""

from datetime import datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING

import click

from ..triggers.duration import parse_duration
from ..triggers.errors import TriggerError
from ..triggers.instant import DAY, HOUR, MINUTE, SECOND, from_instant, to_instant

if TYPE_CHECKING:  # newer clicks have a generic ParamType, older ones a plain class
    IntType = click.ParamType[int]
    PairType = click.ParamType[tuple[str, int]]
else:
    IntType = PairType = click.ParamType

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def when(instant: int | None, zone: tzinfo, now: int) -> str:
    """`Sun 22 Dec 02:00:00`, with the year where it is not this one; `-` for never. In English everywhere."""
    if instant is None:
        return "-"
    moment = from_instant(instant).astimezone(zone)
    year = "" if moment.year == _year(now, zone) else f" {moment.year}"
    day = f"{WEEKDAYS[moment.weekday()][:3]} {moment.day:2d} {_MONTHS[moment.month - 1]}{year}"
    return f"{day} {moment.hour:02}:{moment.minute:02}:{moment.second:02}"  # strftime takes as long as all the rest


@lru_cache(maxsize=8)
def _year(now: int, zone: tzinfo) -> int:
    """The year that it is: one list asks for each of its cells."""
    return from_instant(now).astimezone(zone).year


def exact(instant: int, zone: tzinfo) -> str:
    """`2026-12-22 02:00:00.004 UTC`: to the millisecond, and with its zone."""
    moment = from_instant(instant).astimezone(zone)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} {abbreviation(instant, zone)}"


def abbreviation(instant: int, zone: tzinfo) -> str:
    """`UTC`, `CEST`, `+03`: which offset a wall time is in."""
    return from_instant(instant).astimezone(zone).strftime("%Z")


def span(duration: int | None) -> str:
    """A duration in at most two units: `0.3s`, `41s`, `3m02s`, `1h53m`, `4d 3h`; `-` for none."""
    if duration is None:
        return "-"
    sign, left = ("-", -duration) if duration < 0 else ("", duration)
    if left < 10 * SECOND:
        return f"{sign}{left / SECOND:.1f}s" if left else "0s"
    if left < MINUTE:
        return f"{sign}{left // SECOND}s"
    if left < HOUR:
        return f"{sign}{left // MINUTE}m{left % MINUTE // SECOND:02d}s"
    if left < DAY:
        return f"{sign}{left // HOUR}h{left % HOUR // MINUTE:02d}m"
    return f"{sign}{left // DAY}d{left % DAY // HOUR:02d}h"


def relative(instant: int | None, now: int) -> str:
    """`in 3h17m`, `20h04m ago`, `now`; `-` for never."""
    if instant is None:
        return "-"
    if abs(instant - now) < SECOND:
        return "now"
    return f"in {span(instant - now)}" if instant > now else f"{span(now - instant)} ago"


class InstantType(IntType):
    """An instant with its zone, as in 2026-12-23T10:00:00Z; a naive one is refused."""

    name = "INSTANT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is not an instant: write it as 2026-12-23T10:00:00Z", param, ctx)
        if moment.tzinfo is None:
            full = text if len(text) > len("2026-12-23") else f"{text}T00:00:00"
            self.fail(
                f"{text!r} has no zone: write {full}Z for UTC, or an offset as in {full}+01:00", param, ctx
            )
        return to_instant(moment)


class SinceType(PairType):
    """How far back: a duration (2h, 7d); or the instant itself."""

    name = "DURATION"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        text = str(value)
        if text[:1].isdigit() and "-" in text:
            return "instant", InstantType().convert(text, param, ctx)
        return "duration", DurationType().convert(text, param, ctx)


class DurationType(IntType):
    """A duration with its unit: 2s, 5m, 1h30m, 7d."""

    name = "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_duration(str(value))
        except TriggerError as error:
            self.fail(str(error), param, ctx)
