"""A recurrence in plain words."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from .explain import MONTHS
from .instant import rfc3339
from .recurrence_text import WEEKDAYS, Recurring
from .time_of_day import format_time_of_day
from .weekdays import NAMES

_UNITS = {
    "YEARLY": "year",
    "MONTHLY": "month",
    "WEEKLY": "week",
    "DAILY": "day",
    "HOURLY": "hour",
    "MINUTELY": "minute",
    "SECONDLY": "second",
}
_MOST_TIMES = 6
_DAY = 86_400


def recurrence_words(recurring: Recurring, first: int) -> str:
    """One sentence; what a rule leaves open is told from `first`, its first wall."""
    unit, step = _UNITS[recurring.freq], recurring.interval
    parts = [
        f"Every {unit}" if step == 1 else f"Every {step} {unit}s",
        *_days(recurring, first),
        *_times(recurring, first),
    ]
    if positions := recurring.numbers("BYSETPOS"):
        parts.append(f"only the {_listed(_nth(n) for n in positions)} of those in each {unit}")
    if recurring.count is not None:
        parts.append("once" if recurring.count == 1 else f"{recurring.count} times")
    if recurring.until_wall is not None:
        parts.append(f"until {datetime(1970, 1, 1) + timedelta(seconds=recurring.until_wall)}")
    if recurring.until is not None:
        parts.append(f"until {rfc3339(recurring.until)}")
    if recurring.added:
        parts.append(f"and {_dates(len(recurring.added))} more")
    if recurring.left_out:
        parts.append(f"without {_dates(len(recurring.left_out))}")
    return ", ".join(parts)


def _dates(count: int) -> str:
    return "one date" if count == 1 else f"{count} dates"


def _days(recurring: Recurring, first: int) -> list[str]:
    when, parts = datetime(1970, 1, 1) + timedelta(seconds=first), []
    if "BYDAY" in recurring.parts:
        parts.append("on " + _listed(map(_weekday, recurring.parts["BYDAY"].split(","))))
    if days := recurring.numbers("BYMONTHDAY"):
        parts.append("on " + _listed(_from_end(n, "day") for n in days))
    if days := recurring.numbers("BYYEARDAY"):
        parts.append("on " + _listed(_from_end(n, "day") for n in days) + " of the year")
    if weeks := recurring.numbers("BYWEEKNO"):
        parts.append("in " + _listed(_from_end(n, "week") for n in weeks))
    said = bool(parts)
    if months := recurring.numbers("BYMONTH"):
        parts.append("in " + _listed(MONTHS[n - 1] for n in months))
    if not said and recurring.freq in ("YEARLY", "MONTHLY"):
        of = f" of {MONTHS[when.month - 1]}" if recurring.freq == "YEARLY" and not parts else ""
        parts.insert(0, f"on day {when.day}{of}")
    if not said and recurring.freq == "WEEKLY":
        parts.insert(0, f"on {NAMES[when.weekday()]}")
    return parts


def _weekday(text: str) -> str:
    name = NAMES[WEEKDAYS.index(text[-2:])]
    return f"the {_nth(int(text[:-2]))} {name}" if text[:-2] else name


def _from_end(number: int, unit: str) -> str:
    return f"{unit} {number}" if number > 0 else f"the {_nth(number)} {unit}"


def _nth(number: int) -> str:
    if number < 0:
        return "last" if number == -1 else f"{_nth(-number)} to last"
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _times(recurring: Recurring, first: int) -> list[str]:
    hours, minutes, seconds = (recurring.numbers(f"BY{unit}") for unit in ("HOUR", "MINUTE", "SECOND"))
    if recurring.freq in ("HOURLY", "MINUTELY", "SECONDLY"):
        said = (("hour", hours), ("minute", minutes), ("second", seconds))
        return [f"at {unit} {_listed(map(str, numbers))}" for unit, numbers in said if numbers]
    time = first % _DAY
    hours, minutes, seconds = hours or [time // 3600], minutes or [time // 60 % 60], seconds or [time % 60]
    if len(hours) * len(minutes) * len(seconds) <= _MOST_TIMES:
        clocks = sorted(h * 3600 + m * 60 + s for h in hours for m in minutes for s in seconds)
        return ["at " + _listed(map(format_time_of_day, clocks))]
    return [f"at {len(hours) * len(minutes) * len(seconds)} times a day"]


def _listed(texts: Iterable[str]) -> str:
    items = list(texts)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
