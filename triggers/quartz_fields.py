"""The Quartz dialect: six or seven fields, seconds first, 1 is Sunday, one `?`, L, W, #, ranges that wrap."""

import re

from .cron_dates import EVERY_DAY, EVERY_WEEKDAY, DateRule
from .cron_fields import (
    MONTHS,
    WEEKDAYS,
    FieldError,
    FieldSpec,
    Reading,
    elements,
    read_element,
    read_last_weekday,
    read_list,
    read_nth,
    refusal,
    split_fields,
)
from .errors import CronError

SECOND = FieldSpec("second", 0, 59, wraps=True)
MINUTE = FieldSpec("minute", 0, 59, wraps=True)
HOUR = FieldSpec("hour", 0, 23, wraps=True)
DAY_OF_MONTH = FieldSpec("day-of-month", 1, 31, wraps=True)
MONTH = FieldSpec("month", 1, 12, {name: n for n, name in enumerate(MONTHS, 1)}, wraps=True)
DAY_OF_WEEK = FieldSpec(
    "day-of-week", 1, 7, {name: n for n, name in enumerate(WEEKDAYS, 1)}, wraps=True, sunday=1
)
YEAR = FieldSpec("year", 1970, 2199, wraps=True)

FIELDS = ("second", "minute", "hour", "day-of-month", "month", "day-of-week", "year")
_FROM_LAST = re.compile(r"L(?:-([0-9]{1,2}))?(W?)\Z")
_NEAR = re.compile(r"([0-9]{1,2})W\Z")
_FROM_ZERO = re.compile(r"0*/")


def read_quartz(expr: str, key: str | None = None) -> Reading:
    """What a Quartz expression means; raises CronError naming the field, the value and a hint."""
    try:
        fields = split_fields(expr, FIELDS)
        if len(fields) not in (6, 7):
            raise FieldError(
                "expression", expr.strip()[:80], f"has {len(fields)} fields, not 6 or 7", _count_hint(fields)
            )
        return _read(fields, key)
    except FieldError as error:
        raise refusal("quartz", expr, error) from None


def _read(fields: list[str], key: str | None) -> Reading:
    second, minute, hour, day, _, weekday = fields[:6]
    for name, text in zip(FIELDS, fields, strict=False):
        if "?" in text and (text != "?" or not name.startswith("day")):
            raise FieldError(name, text, "cannot hold ?", "? stands alone in day-of-month or in day-of-week")
    if (day == "?") == (weekday == "?"):
        problem = "both name no day" if day == "?" else "both name days"
        raise FieldError(
            "day-of-month and day-of-week", f"{day} {weekday}", problem, "write ? in exactly one of them"
        )
    return Reading(
        dialect="quartz",
        fields=tuple(fields),
        seconds=read_list(SECOND, second, key),
        minutes=read_list(MINUTE, minute, key),
        hours=read_list(HOUR, hour, key),
        dates=_dates(fields, key),
        interval=any(text.startswith("*") or _FROM_ZERO.match(text) is not None for text in (minute, hour)),
    )


def _dates(fields: list[str], key: str | None) -> DateRule:
    day, month, weekday = fields[3:6]
    years = None
    if len(fields) == 7 and fields[6] != "*":
        mask = read_list(YEAR, fields[6], key)
        years = frozenset(year for year in range(YEAR.low, YEAR.high + 1) if mask >> year & 1)
    months = read_list(MONTH, month, key)
    if weekday != "?":
        weekdays, nth, last = _weekdays(weekday, key)
        return DateRule(months=months, weekdays=weekdays, nth_weekdays=nth, last_weekdays=last, years=years)
    mask, before_last, near, near_last = 0, set[int](), set[int](), set[int]()
    for element in elements(DAY_OF_MONTH, day):
        if set(element) & set("LWlw"):
            _special_day(element, before_last, near, near_last)
        else:
            mask |= read_element(DAY_OF_MONTH, element, key)
    return DateRule(
        days=mask & EVERY_DAY,
        months=months,
        before_last=tuple(sorted(before_last)),
        workday_near=tuple(sorted(near)),
        workday_before_last=tuple(sorted(near_last)),
        years=years,
    )


def _special_day(element: str, before_last: set[int], near: set[int], near_last: set[int]) -> None:
    name = DAY_OF_MONTH.name
    found = _FROM_LAST.match(element.upper())
    if found is not None:
        days = int(found[1] or 0)
        if found[1] and not 1 <= days <= 30:
            raise FieldError(name, element, "counts back further than a month", "use L-1 to L-30")
        (near_last if found[2] else before_last).add(days)
        return
    found = _NEAR.match(element.upper())
    if found is not None and 1 <= int(found[1]) <= 31:
        near.add(int(found[1]))
        return
    if "W" in element.upper():
        raise FieldError(
            name, element, "is not a day and its W", "write 15W (a single day from 1 to 31), LW or L-3W"
        )
    raise FieldError(name, element, "is not a way to count from the last day", "write L, L-3, LW or L-3W")


def _weekdays(text: str, key: str | None) -> tuple[int, tuple[tuple[int, int], ...], int]:
    upper, name = text.upper(), DAY_OF_WEEK.name
    if "," in text and ("#" in text or "L" in upper):
        raise FieldError(
            name, text, "mixes L or # with other days", "use one trigger for each, or any: of two schedules"
        )
    if "#" in text:
        return 0, (read_nth(DAY_OF_WEEK, text),), 0
    if upper == "L":
        return 1 << 6, (), 0  # the last day of the week
    if upper.endswith("L"):
        return 0, (), 1 << read_last_weekday(DAY_OF_WEEK, text)
    if "W" in upper and upper not in DAY_OF_WEEK.names and "WED" not in upper:
        raise FieldError(name, text, "has no nearest weekday", "W belongs to day-of-month")
    return read_list(DAY_OF_WEEK, text, key) >> 1 & EVERY_WEEKDAY, (), 0


def _count_hint(fields: list[str]) -> str:
    if len(fields) == 5:
        return 'five fields are Unix: write it under cron:, or add seconds in front and a ? ("0 0 12 * * ?")'
    if fields and fields[0].startswith("@"):
        return "nicknames belong to cron:"
    return "write second minute hour day-of-month month day-of-week [year]"


def as_quartz(fields: list[str]) -> str | None:
    """Six or seven fields as a valid Quartz expression, with the `?` it needs; None where that fails."""
    candidates = [fields]
    if "?" not in fields:
        candidates = [[*fields[:at], "?", *fields[at + 1 :]] for at in (5, 3) if fields[at] == "*"]
    for candidate in candidates:
        expr = " ".join(candidate)
        try:
            read_quartz(expr)
        except CronError:
            continue
        return expr
    return None
