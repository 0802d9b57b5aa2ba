"""The text of a recurrence: `RRULE` and the lines that may stand beside it, read strictly (RFC 5545)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from textwrap import dedent
from typing import Final

from .errors import ScheduleError
from .instant import SECOND, to_instant
from .zone import Zone, find_zone

FREQUENCIES: Final = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MOST_COUNT: Final = 10_000
_MOST_DATES = 1000
_MOST_INTERVAL = 1_000_000
_LONGEST = 20_000
_TIME = re.compile(r"(\d{4})(\d{2})(\d{2})(?:T(\d{2})(\d{2})(\d{2})(Z)?)?\Z", re.ASCII)
_WEEKDAY = re.compile(r"(?:([+-]?\d{1,2}))?(MO|TU|WE|TH|FR|SA|SU)\Z", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,7}\Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1)

_LISTS: Mapping[str, tuple[int, int, bool]] = {
    "BYSECOND": (0, 59, False),
    "BYMINUTE": (0, 59, False),
    "BYHOUR": (0, 23, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, 53, True),
    "BYMONTH": (1, 12, False),
    "BYSETPOS": (1, 366, True),
}
"""{part: (least, most, whether it may count from the end)}"""
_KNOWN = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_LISTS)
_NOT_WITH: Mapping[str, tuple[str, ...]] = {
    "BYWEEKNO": FREQUENCIES[1:],
    "BYYEARDAY": ("DAILY", "WEEKLY", "MONTHLY"),
    "BYMONTHDAY": ("WEEKLY",),
}


@dataclass(frozen=True, slots=True)
class Recurring:
    """What a text says; walls are seconds since 1970-01-01T00:00 on a calendar without zones."""

    freq: str
    interval: int
    parts: Mapping[str, str]
    """The BY… parts and WKST, as they were written."""
    count: int | None
    until_wall: int | None
    until: int | None
    """An instant (µs), where UNTIL is in UTC."""
    start: int | None
    """The wall of DTSTART."""
    added: tuple[int, ...]
    left_out: frozenset[int]

    def numbers(self, part: str) -> list[int]:
        """The numbers of a BY… part; none where it is not given."""
        return [int(number) for number in self.parts[part].split(",")] if part in self.parts else []


def read_recurring(text: str, zone: Zone) -> Recurring:
    """Read the lines of `text`; times without Z are walls of `zone`. Raises ScheduleError with one next step."""
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
        raise ScheduleError(
            f"rrule: expected a text of 1 to {_LONGEST} characters; write FREQ=WEEKLY;BYDAY=MO"
        )
    rules, start = [], None
    added: list[int] = []
    left_out: list[int] = []
    for line in re.sub(r"\r?\n[ \t]", "", dedent(text.strip("\r\n")).strip()).splitlines():
        name, parameters, value = _line(line.strip())
        if name == "RRULE":
            rules.append(value)
        elif name == "DTSTART":
            start = _walls(name, parameters, value, zone)[0]
        elif name in ("RDATE", "EXDATE"):
            (added if name == "RDATE" else left_out).extend(_walls(name, parameters, value, zone))
        elif name:
            raise ScheduleError(f"rrule: a line {name!r} is not known; use RRULE, DTSTART, RDATE, EXDATE")
    if len(rules) != 1:
        raise ScheduleError(f"rrule: {len(rules)} RRULE lines, and one is needed; combine rules by `any`")
    if len(added) + len(left_out) > _MOST_DATES:
        raise ScheduleError(f"rrule: more than {_MOST_DATES} dates; leave time out by a calendar")
    parts = _parts(rules[0])
    _check(parts)
    until_wall, until = _until(parts)
    return Recurring(
        freq=parts["FREQ"],
        interval=int(parts.get("INTERVAL", 1)),
        parts={name: value for name, value in parts.items() if name.startswith("BY") or name == "WKST"},
        count=int(parts["COUNT"]) if "COUNT" in parts else None,
        until_wall=until_wall,
        until=until,
        start=start,
        added=tuple(sorted(set(added))),
        left_out=frozenset(left_out),
    )


def _line(line: str) -> tuple[str, list[str], str]:
    """(name, parameters, value); a line without a name is a rule."""
    head, colon, value = line.partition(":")
    if not colon:
        return ("RRULE" if line else ""), [], line
    name, *parameters = head.upper().split(";") if "TZID" not in head.upper() else head.split(";")
    return name.upper(), parameters, value.strip()


def _walls(name: str, parameters: list[str], value: str, zone: Zone) -> list[int]:
    for parameter in parameters:
        key, _, given = parameter.partition("=")
        if key.upper() == "TZID" and find_zone(given).key != zone.key:
            raise ScheduleError(
                f"rrule: {name} is in {given} and the trigger in {zone.key}; set time_zone: {given}"
            )
        if key.upper() not in ("TZID", "VALUE"):
            raise ScheduleError(f"rrule: {name} has {parameter!r}, which is not known; remove it")
    return [_wall(name, text, zone) for text in value.split(",")]


def _wall(name: str, text: str, zone: Zone) -> int:
    moment, utc, _ = _moment(name, text)
    if utc:
        moment = moment.replace(tzinfo=UTC).astimezone(zone.tz).replace(tzinfo=None)
    spent = moment - _EPOCH
    return spent.days * 86_400 + spent.seconds


def _moment(name: str, text: str) -> tuple[datetime, bool, bool]:
    """(as written, whether in UTC, whether a date only)"""
    found = _TIME.match(text.strip().upper())
    try:
        if found is None or not 1970 <= int(found[1]) <= 2999:
            raise ValueError(text)
        year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
        return datetime(year, month, day, hour, minute, second), bool(found[7]), found[4] is None
    except ValueError as error:
        hint = "write it as in 20270131T090000, with a Z for UTC, from 1970 to 2999"
        raise ScheduleError(f"rrule: {name} {text[:40]!r} is no time; {hint}") from error


def _until(parts: Mapping[str, str]) -> tuple[int | None, int | None]:
    """(the last wall, the last instant): one of them where there is UNTIL; a date alone means all of that day."""
    if "UNTIL" not in parts:
        return None, None
    moment, utc, date_only = _moment("UNTIL", parts["UNTIL"])
    if utc:
        return None, to_instant(moment.replace(tzinfo=UTC)) // SECOND * SECOND
    spent = moment - _EPOCH
    return spent.days * 86_400 + (86_399 if date_only else spent.seconds), None


def _parts(rule: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in rule.upper().strip().strip(";").split(";"):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise ScheduleError(
                f"rrule: {part[:40]!r} is no NAME=VALUE; write it as in FREQ=WEEKLY;BYDAY=MO,WE"
            )
        if name not in _KNOWN:
            raise ScheduleError(f"rrule: {name!r} is not known; {_meant(name)}")
        if name in parts:
            raise ScheduleError(f"rrule: {name} is given twice; keep one, with a list as its value")
        parts[name] = value.replace(" ", "")
    return parts


def _meant(name: str) -> str:
    from difflib import get_close_matches  # only where something is wrong

    close = get_close_matches(name, _KNOWN, 1, 0.7)
    return f"did you mean {close[0]}?" if close else f"use {', '.join(_KNOWN)}"


def _check(parts: Mapping[str, str]) -> None:
    freq = parts.get("FREQ")
    if freq not in FREQUENCIES:
        had = f"FREQ={freq} is not known" if freq else "FREQ is missing"
        raise ScheduleError(f"rrule: {had}; use one of {', '.join(FREQUENCIES)}")
    _whole("INTERVAL", parts, _MOST_INTERVAL)
    _whole("COUNT", parts, MOST_COUNT)
    if "COUNT" in parts and "UNTIL" in parts:
        raise ScheduleError("rrule: COUNT and UNTIL are both given; keep one")
    if parts.get("WKST", "MO") not in WEEKDAYS:
        raise ScheduleError(f"rrule: WKST={parts['WKST']} is no weekday; use {', '.join(WEEKDAYS)}")
    for name in parts.keys() & _LISTS.keys():
        _numbers(name, parts[name])
    for name, frequencies in _NOT_WITH.items():
        if name in parts and freq in frequencies:
            raise ScheduleError(
                f"rrule: {name} has no meaning with FREQ={freq}; use another FREQ, or remove it"
            )
    if "BYSETPOS" in parts and not any(name.startswith("BY") and name != "BYSETPOS" for name in parts):
        raise ScheduleError("rrule: BYSETPOS picks from what another BY… part names; add one, or remove it")
    _weekdays(parts, freq)


def _whole(name: str, parts: Mapping[str, str], most: int) -> None:
    value = parts.get(name, "1")
    if not value.isascii() or not value.isdigit() or not 1 <= int(value[:9]) <= most or len(value) > 9:
        raise ScheduleError(f"rrule: {name}={value[:20]} is not a whole number from 1 to {most}; change it")


def _numbers(name: str, value: str) -> None:
    least, most, from_end = _LISTS[name]
    for text in value.split(","):
        number = int(text) if _NUMBER.match(text) else None
        if number is None or not least <= (abs(number) if from_end else number) <= most:
            also = f", or -{most} to -{least} from the end" if from_end else ""
            raise ScheduleError(
                f"rrule: {name} {text[:20]!r} is no number from {least} to {most}{also}; correct it"
            )


def _weekdays(parts: Mapping[str, str], freq: str) -> None:
    for text in parts["BYDAY"].split(",") if "BYDAY" in parts else ():
        found = _WEEKDAY.match(text)
        if found is None or (found[1] is not None and not 1 <= abs(int(found[1])) <= 53):
            raise ScheduleError(
                f"rrule: BYDAY {text[:20]!r} is no weekday; use MO to SU, or as in 1MO and -1FR"
            )
        if found[1] is not None and (freq not in ("YEARLY", "MONTHLY") or "BYWEEKNO" in parts):
            where = "BYWEEKNO" if "BYWEEKNO" in parts else f"FREQ={freq}"
            raise ScheduleError(
                f"rrule: BYDAY {text!r} counts in a month or year, which {where} has not; write {found[2]}"
            )
