"""The grammar that both dialects share: lists, ranges, steps, names and hashed values of one field."""

import re
from dataclasses import dataclass, field

from .cron_dates import DateRule
from .errors import CronError

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_DIGITS = re.compile(r"[0-9]+\Z", re.ASCII)
_HASH = re.compile(r"H(?:\(([0-9]{1,4})-([0-9]{1,4})\))?\Z")
_LONGEST = 2000


class FieldError(Exception):
    """What is wrong with one field; the dialect's reader adds the expression and raises CronError."""

    def __init__(self, name: str, value: str, problem: str, hint: str) -> None:
        super().__init__(f"{name} {value!r} {problem}; {hint}")


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """What one field may hold."""

    name: str
    low: int
    high: int
    names: dict[str, int] = field(default_factory=dict)
    wraps: bool = False
    """Ranges may run over the end of the field (quartz)."""
    sunday: int = 0
    """The number of Sunday, in a day-of-week field."""

    @property
    def last(self) -> int:
        """The greatest value that is not a second name of another (in Unix 7 is Sunday again)."""
        return 6 if self.high == 7 and self.low == 0 else self.high

    @property
    def hashed_last(self) -> int:
        """The greatest value `H` may choose: one that every month has."""
        return 28 if self.high == 31 else self.last


@dataclass(frozen=True, slots=True)
class Reading:
    """An expression that was understood: its fields as written, and the values they name."""

    dialect: str
    fields: tuple[str, ...]
    seconds: int
    minutes: int
    hours: int
    dates: DateRule
    interval: bool
    """It follows the clock around a change of offset: the minute or the hour field begins with `*`."""
    remarks: tuple[str, ...] = ()


def split_fields(expr: str, names: tuple[str, ...]) -> list[str]:
    """The blank-separated fields of `expr`; raises FieldError for all but printable ASCII."""
    if len(expr) > _LONGEST:
        raise FieldError(
            "expression", expr[:20] + "…", f"is {len(expr)} characters long", "use ranges and steps"
        )
    fields = expr.split(None) if expr.isascii() else re.split("[ \t\r\n]+", expr.strip(" \t\r\n"))
    for index, text in enumerate(fields):
        for char in text:
            if not (char.isascii() and char.isprintable()):
                raise FieldError(
                    names[min(index, len(names) - 1)],
                    text,
                    f"holds {char!r} (U+{ord(char):04X}), not plain ASCII",
                    "retype it with plain digits and blanks",
                )  # fmt: skip
    return fields


def read_list(spec: FieldSpec, text: str, key: str | None, remarks: list[str] | None = None) -> int:
    """The mask of a whole field (bit n for value n)."""
    mask = 0
    for element in elements(spec, text):
        mask |= read_element(spec, element, key, remarks)
    return mask


def elements(spec: FieldSpec, text: str) -> list[str]:
    """The comma-separated parts of a field, none of them empty."""
    parts = text.split(",")
    if "" in parts:
        raise FieldError(spec.name, text, "has an empty list element", "remove the stray comma")
    return parts


def read_element(spec: FieldSpec, element: str, key: str | None, remarks: list[str] | None = None) -> int:
    """The mask of one list element: a value, a range, `*`, each with or without a step, or `H`."""
    written, slash, step_text = element.upper().partition("/")
    step = _step(spec, element, step_text) if slash else 1
    if written == "*" or (not written and slash and spec.wraps):
        return _span(spec, spec.low, spec.high, step)
    if written[:1] in ("H", "R"):
        return _hashed(spec, element, written, step if slash else None, key)
    if not written:
        raise FieldError(spec.name, element, "has nothing before its step", f"write */{step} or a range")
    if "-" in written:
        first, last = _range(spec, element, written)
        return _span(spec, first, last, step)
    value = read_value(spec, written, element)
    if not slash:
        return 1 << value
    last = max(value, spec.last)
    if remarks is not None:
        remarks.append(f"{spec.name} {element} is read as {value}-{last}/{step}; write the range")
    return _span(spec, value, last, step)


def _step(spec: FieldSpec, element: str, text: str) -> int:
    if not _DIGITS.match(text) or int(text) == 0:
        raise FieldError(
            spec.name, element, "needs a whole number above 0 as its step", "write for example */5"
        )
    limit = spec.high - spec.low if spec.name == "year" else spec.high
    if int(text) > limit:
        raise FieldError(
            spec.name, element, f"steps further than the field reaches ({spec.low}-{spec.high})",
            f"use a step of at most {limit}, or name the value",
        )  # fmt: skip
    return int(text)


def _span(spec: FieldSpec, first: int, last: int, step: int) -> int:
    size = spec.high - spec.low + 1
    mask = 0
    for value in range(first, (last if last >= first else last + size) + 1, step):
        mask |= 1 << (value if value <= spec.high else value - size)
    return mask


def _range(spec: FieldSpec, element: str, written: str) -> tuple[int, int]:
    first_text, _, last_text = written.partition("-")
    if not first_text or not last_text or "-" in last_text:
        raise FieldError(spec.name, element, "is not a range", f"write it as {spec.low}-{spec.high}")
    first, last = read_value(spec, first_text, element), read_value(spec, last_text, element)
    if last_text == "SUN" and spec.low == 0 and first > 0:
        last = 7  # a week that ends on Sunday
    if first > last and not (spec.wraps and spec.name != "year"):
        where = "years do not come round" if spec.name == "year" else "only quartz ranges run over the end"
        hint = f"write {last}-{first}" if spec.name == "year" else f"write {_unwrapped(spec, first, last)}"
        raise FieldError(spec.name, element, f"runs backwards ({where})", hint)
    return first, last


def _unwrapped(spec: FieldSpec, first: int, last: int) -> str:
    high = spec.last
    upper = str(first) if first >= high else f"{first}-{high}"
    lower = str(last) if last == spec.low else f"{spec.low}-{last}"
    return f"{upper},{lower}"


def read_value(spec: FieldSpec, text: str, element: str) -> int:
    """The number of one value or name (`text` in upper case, within `element`)."""
    if _DIGITS.match(text):
        value = int(text)
        if not spec.low <= value <= spec.high:
            raise FieldError(
                spec.name, element, f"is outside {spec.low}-{spec.high}", _range_hint(spec, value)
            )
        return value
    if text in spec.names:
        return spec.names[text]
    if spec.names:
        from difflib import get_close_matches  # only where something is wrong

        near = get_close_matches(text, spec.names, 1, 0.5)
        known = ", ".join(list(spec.names)[:3]) + ", …"
        hint = f"did you mean {near[0]}? " if near else ""
        raise FieldError(spec.name, element, "is not a known name or number", f"{hint}use {known} or numbers")
    raise FieldError(
        spec.name, element, f"is not a number from {spec.low} to {spec.high}",
        _number_hint(text),
    )  # fmt: skip


def _number_hint(text: str) -> str:
    if text.isalpha() or "#" in text:
        return "names are for months and weekdays, L, W and # for the day fields"
    if text.startswith("*") and text[1:].isdigit():
        return f"write */{text[1:]}"
    return "remove the quotes inside the expression" if text[0] in "\"'" else "use plain digits"


def _range_hint(spec: FieldSpec, value: int) -> str:
    if spec.name == "day-of-week":
        return "Sunday is 1 and Saturday 7 in quartz" if spec.low else "Sunday is 0 or 7, Saturday 6"
    if value == spec.high + 1 and spec.low == 0:
        return f"{value} is written 0"
    return f"use a value from {spec.low} to {spec.high}"


def _hashed(spec: FieldSpec, element: str, written: str, step: int | None, key: str | None) -> int:
    from hashlib import blake2b  # only where it is asked for

    found = _HASH.match(written)
    if found is None or spec.name == "year":
        hint = (
            "H chooses a value that is the same on every node"
            if written[0] == "R"
            else "write H, H(1-5) or H/15"
        )
        raise FieldError(spec.name, element, "is not a value every node would agree on", hint)
    if key is None:
        raise FieldError(
            spec.name,
            element,
            "needs a key to be hashed from",
            "give it in a trigger, or Cron(…, key='name')",
        )
    low, high = spec.low, spec.hashed_last
    if found[1]:
        low, high = read_value(spec, found[1], element), read_value(spec, found[2], element)
        if low > high:
            raise FieldError(spec.name, element, "runs backwards", f"write H({high}-{low})")
    digest = blake2b(f"{key}\0{spec.name}".encode(), digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    if step is None:
        return 1 << (low + number % (high - low + 1))
    if step > high - low + 1:
        raise FieldError(
            spec.name, element, "steps further than its range", f"use a step up to {high - low + 1}"
        )
    return _span(spec, low + number % step, high, step)


def read_nth(spec: FieldSpec, element: str) -> tuple[int, int]:
    """weekday#k as (weekday counted from Sunday = 0, k)."""
    weekday, _, nth = element.upper().partition("#")
    if not weekday or nth not in ("1", "2", "3", "4", "5"):
        raise FieldError(
            spec.name, element, "is not weekday#n with n from 1 to 5", "write FRI#2 for the second Friday"
        )
    return (read_value(spec, weekday, element) - spec.sunday) % 7, int(nth)


def read_last_weekday(spec: FieldSpec, element: str) -> int:
    """weekdayL as the weekday, counted from Sunday = 0."""
    if len(element) == 1:
        raise FieldError(spec.name, element, "does not say which weekday", "write FRIL for the last Friday")
    return (read_value(spec, element[:-1].upper(), element) - spec.sunday) % 7


def refusal(label: str, expr: str, problem: Exception | str) -> CronError:
    """The CronError for an expression: which one, and what is wrong with it."""
    shown = expr if len(expr) <= 80 else expr[:77] + "…"
    return CronError(f'{label}: "{shown}": {problem}')
