"""How the values of a calendar are read: dates and ranges of them, days of the week, hours, countries."""

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

from pydantic_core import PydanticCustomError

from .declaration_fields import Wrong, nearest, refused, scalar, wrongs_of
from .errors import ScheduleError
from .weekdays import NAMES, WEEKDAYS
from .weekdays import read_weekdays as named_weekdays

_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\Z", re.ASCII)
_YEARLY = re.compile(r"(\d{2})-(\d{2})\Z", re.ASCII)
_ANY_YEAR = 2024  # a leap year: 02-29 is a day
_FIRST, _LAST = date(1970, 1, 1), date(2999, 12, 31)
_DATES = "write 2026-12-24, 2026-12-24..2027-01-02, or 12-25 for every year"


def read_dates(value: object) -> dict[str, list[list[str]]]:
    """Dates as {dates: ranges, yearly: ranges}: `2026-12-24`, `2026-12-24..2027-01-02`, `12-25`, `12-24..01-02`."""
    found: dict[str, list[list[str]]] = {}
    for kind, first, last in each(_range_of_dates, value):
        found.setdefault(kind, []).append([first, last])
    return {kind: sorted(ranges) for kind, ranges in sorted(found.items())}


def _range_of_dates(item: object) -> tuple[str, str, str]:
    text = scalar(item, "a date, or a range of dates")
    first, dots, last = (part.strip() for part in text.partition(".."))
    last = last if dots else first
    if _YEARLY.match(first) and _YEARLY.match(last):
        return ("yearly", _of_every_year(first, text), _of_every_year(last, text))
    begin, end = _date(first, text), _date(last, text)
    if begin > end:
        raise refused(Wrong("E010", f"`{text}` ends before it begins", "swap the two dates"))
    return "dates", str(begin), str(end)


def _of_every_year(text: str, whole: str) -> str:
    try:
        date.fromisoformat(f"{_ANY_YEAR}-{text}")
    except ValueError as error:
        raise refused(Wrong("E010", f"`{whole}`: {error}", _DATES)) from error
    return text


def _date(text: str, whole: str) -> date:
    try:
        if len(text) != 10:
            raise ValueError("not a date")
        found = date.fromisoformat(text)
    except ValueError as error:
        raise refused(Wrong("E010", f"`{whole}` is not a date or a range of dates", _DATES)) from error
    if not _FIRST <= found <= _LAST:
        raise refused(Wrong("E010", f"`{whole}` is not between 1970 and 2999", _DATES))
    return found


def read_weekdays(value: object) -> list[str]:
    """Days of the week by name, in their order: `[sat, sun]`, `mon-fri`."""
    found = {day for days in each(_weekdays, value) for day in days}
    return [day for day in WEEKDAYS if day in found]


def _weekdays(item: object) -> tuple[str, ...]:
    text = scalar(item, "a day of the week")
    try:
        return named_weekdays([text])
    except ScheduleError:
        wrong = next((part for part in text.split("-") if not _is_weekday(part)), text)
        meant = nearest(wrong.strip(), (*WEEKDAYS, *(name.casefold() for name in NAMES)))
        hint = (
            f"did you mean `{meant}`?" if meant else "write mon, tue, wed, thu, fri, sat or sun, or mon-fri"
        )
        raise refused(Wrong("E014", f"`{text.casefold()}` is not a day of the week", hint)) from None


def _is_weekday(word: str) -> bool:
    folded = word.strip().casefold()
    return folded in WEEKDAYS or folded in (name.casefold() for name in NAMES)


def read_hours(value: object) -> list[list[str]]:
    """Ranges of times of the day: `22:00-06:00`, the end not included."""
    return sorted(each(_range_of_hours, value))


def _range_of_hours(item: object) -> list[str]:
    text = scalar(item, "a range of hours")
    first, dash, last = (part.strip() for part in text.partition("-"))
    hint = "write 22:00-06:00; 24:00 is the end of a day"
    begin, end = _time(first), _time(last)
    if not dash or begin is None or end is None or begin == "24:00":
        raise refused(Wrong("E010", f"`{text}` is not a range of hours", hint))
    if begin == end:
        raise refused(Wrong("E010", f"`{text}` ends when it begins", "write 00:00-24:00 for a whole day"))
    return [begin, end]


def _time(text: str) -> str | None:
    """`HH:MM[:SS]` of a time of the day, 24:00 included; None of anything else."""
    found = _TIME.match(text)
    if found is None:
        return None
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    if minute > 59 or second > 59 or hour * 3600 + minute * 60 + second > 86_400:
        return None
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def read_country(value: object) -> str:
    """The code of a country or subdivision, as written."""
    return scalar(value, "a country, as in TR").upper()


def each(read: Callable[[object], Any], value: object) -> list[Any]:
    """Every item of a list read, or the one that stands for a list; all that is wrong with them is told together."""
    items: Sequence[object] = value if isinstance(value, list) else [value]
    done: list[Any] = []
    wrongs: list[Wrong] = []
    for index, item in enumerate(items):
        try:
            done.append(read(item))
        except PydanticCustomError as error:
            at = (index,) if isinstance(value, list) else ()
            wrongs += [wrong._replace(at=(*at, *wrong.at)) for wrong in wrongs_of(error)]
    if not items:
        wrongs = [Wrong("E010", "this list is empty", "give it an item, or leave the key out")]
    if wrongs:
        raise refused(*wrongs)
    return done
