"""Dates and times as declared: with an offset an instant, without one a wall time of the trigger's zone."""

import re
from bisect import bisect_right
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from .errors import TriggerError
from .instant import SECOND, to_instant
from .zone import find_zone

_MOMENT = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:(?:[Tt]|[ \t]+)(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?"
    r"(?:[ \t]*(?:([Zz])|([+-]\d{2}):?(\d{2})?))?)?\Z",
    re.ASCII,
)
_BARE_TIME = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?\Z", re.ASCII)
_EARLIEST, _LATEST = 1970, 2999
_HELP = 'write "2027-01-01", "2027-01-01 12:00" or "2027-01-01T12:00:00Z"'


class Moment(NamedTuple):
    """A date or time as written: aware where an offset was given, else naive."""

    written: datetime

    def instant(self, zone: str) -> int:
        """The instant that is meant; a naive one is read in `zone`.

        A wall time that a zone change skips means the first instant after the gap; of one that comes twice,
        the first is meant.
        """
        if self.written.tzinfo is not None:
            return to_instant(self.written)
        found = find_zone(zone)
        aware = self.written.replace(tzinfo=found.tz)
        instant = to_instant(aware)
        if aware.astimezone(UTC).astimezone(found.tz).replace(tzinfo=None) == self.written:
            return instant
        second = instant // SECOND
        starts = found.covering(second).starts
        return starts[bisect_right(starts, second) - 1] * SECOND


def parse_moment(text: str) -> Moment:
    """Read a date, or a date and time, with or without an offset; raises TriggerError for anything else."""
    if _BARE_TIME.match(text):
        raise TriggerError(f"{text!r} is a time without a date; {_HELP}, or a cron for every day")
    found = _MOMENT.match(text)
    if found is None:
        raise TriggerError(f"{text!r} is not a date or a time; {_HELP}")
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    micros = int((found[7] or "").ljust(6, "0"))
    try:
        zone = UTC if found[8] else None if found[9] is None else _offset(found[9], found[10])
        moment = datetime(year, month, day, hour, minute, second, micros, zone)
    except ValueError as error:
        raise TriggerError(f"{text!r} does not exist: {error}; {_HELP}") from error
    if not _EARLIEST <= year <= _LATEST:
        raise TriggerError(f"{text!r} is not between the years {_EARLIEST} and {_LATEST}; {_HELP}")
    return Moment(moment)


def _offset(hours: str, minutes: str | None) -> timezone:
    if int(minutes or 0) > 59:
        raise ValueError("an offset has less than 60 minutes")
    size = timedelta(hours=int(hours[1:]), minutes=int(minutes or 0))
    return timezone(-size if hours[0] == "-" else size)
