"""Weekdays by name: `mon` to `sun`, and ranges of them such as `mon-fri`."""

from collections.abc import Iterable
from typing import Final

from .errors import ScheduleError

WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
NAMES: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def read_weekdays(said: Iterable[str]) -> tuple[str, ...]:
    """The weekdays that are named, from Monday on, each once; raises ScheduleError for what is none."""
    found: set[int] = set()
    for text in said:
        first, dash, last = text.partition("-")
        begin = _number(first, text)
        end = _number(last, text) if dash else begin
        found.update((begin + i) % 7 for i in range((end - begin) % 7 + 1))
    if not found:
        raise ScheduleError("no day of the week is named; leave `days` out for every day")
    return tuple(WEEKDAYS[number] for number in sorted(found))


def _number(word: str, text: str) -> int:
    folded = word.strip().casefold()
    for number, name in enumerate(NAMES):
        if folded == WEEKDAYS[number] or folded == name.casefold():
            return number
    raise ScheduleError(
        f"{text!r} is no day of the week; use {', '.join(WEEKDAYS)}, or a range as in mon-fri"
    )


def weekday_words(days: Iterable[str]) -> str:
    """`Monday to Friday`, `Monday and Thursday`."""
    numbers = [WEEKDAYS.index(day) for day in days]
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{NAMES[numbers[0]]} to {NAMES[numbers[-1]]}"
    names = [NAMES[number] for number in numbers]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
