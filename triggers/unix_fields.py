"""The Unix dialect: five fields or a nickname; 0 and 7 are Sunday; two restricted day fields mean either."""

import re

from .cron_dates import EVERY_WEEKDAY, DateRule
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
from .quartz_fields import as_quartz

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

MINUTE = FieldSpec("minute", 0, 59)
HOUR = FieldSpec("hour", 0, 23)
DAY_OF_MONTH = FieldSpec("day-of-month", 1, 31)
MONTH = FieldSpec("month", 1, 12, {name: n for n, name in enumerate(MONTHS, 1)})
DAY_OF_WEEK = FieldSpec("day-of-week", 0, 7, {name: n for n, name in enumerate(WEEKDAYS)})

FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
_QUARTZ_DAY = re.compile(r"(?:[0-9]*W|LW|WL|L-[0-9]*W?)\Z")


def read_unix(expr: str, key: str | None = None) -> Reading:
    """What a Unix expression means; raises CronError naming the field, the value and a hint."""
    try:
        fields = split_fields(expr, FIELDS)
        if fields and fields[0].startswith("@"):
            fields = _nickname(expr.strip()).split()
        if len(fields) != 5:
            raise FieldError(
                "expression", expr.strip()[:80], f"has {len(fields)} fields, not 5", _count_hint(fields)
            )
        return _read(fields, key)
    except FieldError as error:
        raise refusal("cron", expr, error) from None


def _read(fields: list[str], key: str | None) -> Reading:
    minute, hour, day, month, weekday = fields
    remarks: list[str] = []
    for spec, text in ((MINUTE, minute), (HOUR, hour), (MONTH, month)):
        if "?" in text:
            raise FieldError(spec.name, text, "cannot hold ?", "write * for every value")
    minutes = read_list(MINUTE, minute, key, remarks)
    hours = read_list(HOUR, hour, key, remarks)
    days, last_day = _days(day, key, remarks)
    months = read_list(MONTH, month, key, remarks)
    weekdays, nth, last_weekdays = _weekdays(weekday, key, remarks)
    either = not day.startswith("*") and not weekday.startswith("*")
    dates = DateRule(
        days=days,
        months=months,
        weekdays=weekdays,
        before_last=(0,) if last_day else (),
        nth_weekdays=nth,
        last_weekdays=last_weekdays,
        either=either,
    )
    if either:
        remarks.append("day-of-month and day-of-week are both given: a day that matches either of them runs")
    return Reading(
        dialect="unix",
        fields=tuple(fields),
        seconds=1,
        minutes=minutes,
        hours=hours,
        dates=dates,
        interval=minute.startswith("*") or hour.startswith("*"),
        remarks=tuple(remarks),
    )


def _days(text: str, key: str | None, remarks: list[str]) -> tuple[int, bool]:
    mask, last_day = 0, False
    for element in elements(DAY_OF_MONTH, text):
        if element in ("L", "l"):
            last_day = True
        elif "?" in element or _QUARTZ_DAY.match(element.upper()):
            hint = "write *" if "?" in element else f'write it as quartz: "0 0 0 {element.upper()} * ?"'
            raise FieldError("day-of-month", text, "belongs to the quartz dialect", hint)
        else:
            mask |= read_element(DAY_OF_MONTH, element, key, remarks)
    return mask, last_day


def _weekdays(text: str, key: str | None, remarks: list[str]) -> tuple[int, tuple[tuple[int, int], ...], int]:
    mask, last = 0, 0
    nth: list[tuple[int, int]] = []
    for element in elements(DAY_OF_WEEK, text):
        if "?" in element:
            raise FieldError("day-of-week", text, "belongs to the quartz dialect", "write *")
        if "#" in element:
            nth.append(read_nth(DAY_OF_WEEK, element))
        elif element.endswith(("L", "l")):
            last |= 1 << read_last_weekday(DAY_OF_WEEK, element)
        else:
            mask |= read_element(DAY_OF_WEEK, element, key, remarks)
    return (mask | mask >> 7) & EVERY_WEEKDAY, tuple(nth), last


def _nickname(expr: str) -> str:
    found = NICKNAMES.get(expr.lower())
    if found is not None:
        return found
    word = expr.lower().split()[0]
    if word == "@every":
        hint = "intervals have their own key: every: 5m"
    elif word == "@reboot":
        hint = "it names no time; start such work with the application, or use at: or every:"
    elif word in NICKNAMES:
        hint = f"a nickname stands alone: write {word}"
    else:
        hint = "use one of " + ", ".join(NICKNAMES)
    raise FieldError("nickname", expr, "is not one qsched knows", hint)


def _count_hint(fields: list[str]) -> str:
    if len(fields) in (6, 7):
        quartz = as_quartz(fields)
        if quartz is not None:
            return f'with seconds first it is quartz: "{quartz}"; without them, drop the first field'
        return "a line of five fields holds no seconds, no command and no comment; with seconds, use quartz:"
    return "write " + " ".join(FIELDS) + ", as in 15 2 * * *"
