"""A cron expression in plain words, with the names of weekdays and months, so that nobody counts from 0 or 1."""

from itertools import pairwise

from .cron_dates import EVERY_DAY, EVERY_MONTH, EVERY_WEEKDAY, DateRule
from .cron_fields import Reading

WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_EVERY_MINUTE, _EVERY_HOUR = (1 << 60) - 1, (1 << 24) - 1
_FEW_TIMES = 6


def cron_words(reading: Reading) -> str:
    """The expression in one sentence: times, days, months, years."""
    times, daily = _times(reading)
    rule = reading.dates
    days = _days(rule)
    if not days and daily and rule.months == EVERY_MONTH and rule.years is None:
        days = "every day"
    parts = [times, days]
    if rule.months != EVERY_MONTH:
        parts.append(
            "in " + _listed([MONTHS[month - 1] for month in _values(rule.months)], _values(rule.months))
        )
    if rule.years is not None:
        years = sorted(rule.years)
        parts.append("in " + _listed([str(year) for year in years], years))
    return ", ".join(part for part in parts if part)


def _times(reading: Reading) -> tuple[str, bool]:
    """The times of day, and whether they read like a list of times (so that "every day" should follow)."""
    hours, minutes, seconds = (_values(mask) for mask in (reading.hours, reading.minutes, reading.seconds))
    if len(hours) * len(minutes) * len(seconds) <= _FEW_TIMES:
        clocks = [(h, m, s) for h in hours for m in minutes for s in seconds]
        return "At " + _joined([_clock(*clock) for clock in clocks]), True
    by_minute = _unit(reading.minutes, minutes, "minute")
    if seconds == [0]:
        step = _even_step(hours, 24) if len(minutes) == 1 else 0
        if step == 1:
            return "Every hour, on the hour" if minutes == [0] else f"{by_minute} of every hour", False
        if step > 1:
            return f"{by_minute} of every {_nth(step)} hour, from 0 on", False
        text = by_minute
    else:
        text = _unit(reading.seconds, seconds, "second")
        if reading.minutes != _EVERY_MINUTE:
            text += ", " + by_minute.replace("At", "in").replace("Every", "in every")
        elif not _even_step(seconds, 60):
            text += " of every minute"
    if reading.hours == _EVERY_HOUR:
        return text + ("" if _even_step(minutes, 60) else " of every hour"), False
    whole = _hours(hours, seconds == [0] and len(minutes) == 1)
    return text + (" " if whole.startswith("of") else ", ") + whole, False


def _unit(mask: int, values: list[int], name: str) -> str:
    if mask == _EVERY_MINUTE:
        return f"Every {name}"
    step = _even_step(values, 60)
    if step:
        return f"Every {step} {name}s"
    plural = "s" if len(values) > 1 else ""
    return f"At {name}{plural} {_listed([str(value) for value in values], values)}"


def _hours(hours: list[int], on_one_minute: bool) -> str:
    if len(hours) > 1 and hours == list(range(hours[0], hours[-1] + 1)):
        if on_one_minute:
            return f"of the hours {hours[0]} to {hours[-1]}"
        return f"from {hours[0]:02}:00 to {hours[-1]:02}:59"
    if len(hours) == 1:
        return f"from {hours[0]:02}:00 to {hours[0]:02}:59"
    step = _even_step(hours, 24)
    if step:
        return f"in every {_nth(step)} hour, from 0 on"
    return f"in the hours {_listed([str(hour) for hour in hours], hours)}"


def _days(rule: DateRule) -> str:
    of_month, of_week = _by_day(rule), _by_weekday(rule)
    if not of_month or not of_week:
        return of_month or of_week
    if rule.either:
        return f"{of_month} or {of_week.removeprefix('only ')} (either is enough)"
    return f"{of_month}, if that is {_weekday_names(rule)}"


def _by_day(rule: DateRule) -> str:
    special = [_from_last(before, "day") for before in rule.before_last]
    special += [f"the working day nearest to day {day}" for day in rule.workday_near]
    special += [_from_last(before, "working day") for before in rule.workday_before_last]
    days = _values(rule.days & EVERY_DAY)
    if len(days) == 31 and not special:
        return ""
    parts = special
    if days:
        plural = "s" if len(days) > 1 else ""
        parts = [f"day{plural} {_listed([str(day) for day in days], days)}", *special]
    note = (
        " (where a month has it)" if len(days) == 1 and not special and _missed(days[0], rule.months) else ""
    )
    return f"on {_joined(parts)} of the month{note}"


def _missed(day: int, months: int) -> bool:
    """Whether one of the months is, in some year, too short for `day`."""
    short = sum(1 << month for month in ((2,) if day == 29 else (2, 4, 6, 9, 11) if day == 31 else (2,)))
    return day > 28 and bool(months & short)


def _from_last(before: int, what: str) -> str:
    if before == 0:
        return f"the last {what}"
    ago = f"{before} day{'s' if before > 1 else ''} before the last day"
    return f"the day {ago}" if what == "day" else f"the {what} nearest to {ago}"


def _by_weekday(rule: DateRule) -> str:
    names = _weekday_names(rule)
    if not names:
        return ""
    special = rule.nth_weekdays or rule.last_weekdays
    return f"on {names} of the month" if special and not rule.weekdays else f"only on {names}"


def _weekday_names(rule: DateRule) -> str:
    plain = _values(rule.weekdays)
    if rule.weekdays == EVERY_WEEKDAY:
        return ""
    if rule.weekdays & 1 and not rule.weekdays & 2:
        plain = [*plain[1:], 7]  # Friday to Sunday is one run
    named = [f"the {_ORDINALS[nth - 1]} {WEEKDAYS[weekday]}" for weekday, nth in rule.nth_weekdays]
    named += [f"the last {WEEKDAYS[weekday]}" for weekday in _values(rule.last_weekdays)]
    if not plain:
        return _joined(named)
    listed = _listed([WEEKDAYS[weekday % 7] for weekday in plain], plain)
    return _joined([listed, *named]) if named else listed


def _values(mask: int) -> list[int]:
    return [value for value in range(mask.bit_length()) if mask >> value & 1]


def _even_step(values: list[int], size: int) -> int:
    """n where the values are every n-th of the field from 0 on, all round it; else 0."""
    if len(values) < 2 or values[0] != 0 or size % values[1]:
        return 0
    return values[1] if values == list(range(0, size, values[1])) else 0


def _listed(texts: list[str], values: list[int]) -> str:
    """The texts with runs of neighbours as `a to b`, and long even steps shortened."""
    if len(values) > 4 and len({after - before for before, after in pairwise(values)}) == 1:
        step = values[1] - values[0]
        return f"{texts[0]} to {texts[-1]}" if step == 1 else f"{texts[0]}, {texts[1]}, … {texts[-1]}"
    parts: list[str] = []
    start = 0
    for at in range(1, len(values) + 1):
        if at < len(values) and values[at] == values[at - 1] + 1:
            continue
        run = texts[start:at]
        parts.extend([f"{run[0]} to {run[-1]}"] if len(run) > 2 else run)
        start = at
    return _joined(parts)


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def _nth(number: int) -> str:
    return {2: "2nd", 3: "3rd"}.get(number, f"{number}th")
