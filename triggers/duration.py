"""Durations as people write them: `2s 5m 1h30m 7d`, or ISO 8601; never a bare number (DESIGN §10)."""

import re

from .errors import TriggerError
from .instant import DAY, HOUR, MINUTE, SECOND

_UNITS = {"d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": 1000, "us": 1}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|us|d|h|m|s)")
_ISO = re.compile(
    r"P(?:([0-9]+)W)?(?:([0-9]+)D)?(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?\Z"
)
_LONGEST = 366 * 200 * DAY
_HELP = "write a number with its unit, as in 30s, 5m, 1h30m, 7d or PT1H30M"


def parse_duration(text: str, *, zero: bool = False) -> int:
    """Microseconds of a written duration; raises TriggerError unless it is > 0 (or = 0 where `zero` allows it)."""
    if not isinstance(text, str):
        raise TriggerError(f"{text!r} is not a duration: {_HELP}")
    written = text.strip()
    total = _iso(written) if written.startswith("P") else _units(written)
    if total is None:
        raise TriggerError(f"{text!r} is not a duration: {_HELP}")
    if total < 0 or (total == 0 and not zero):
        raise TriggerError(f"a duration must be greater than zero, and {text!r} is not")
    if total > _LONGEST:
        raise TriggerError(f"{text!r} is longer than 200 years")
    return total


def _iso(written: str) -> int | None:
    found = _ISO.match(written)
    if found is None or written in ("P", "PT"):
        return None
    parts = [float(part or 0) for part in found.groups()]
    return round(
        sum(size * part for size, part in zip((7 * DAY, DAY, HOUR, MINUTE, SECOND), parts, strict=True))
    )


def _units(written: str) -> int | None:
    total, at, last = 0, 0, 10**18
    for found in _PART.finditer(written):
        size = _UNITS[found[2]]
        if found.start() != at or size >= last:  # a gap, or units out of order or twice
            return None
        total += round(float(found[1]) * size)
        at, last = found.end(), size
    return total if written and at == len(written) and written.isascii() else None


def format_duration(duration: int) -> str:
    """The shortest writing that `parse_duration` reads back: 90000000 → `1m30s`."""
    if duration == 0:
        return "0s"
    rest, parts = abs(duration), []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if duration < 0 else "") + "".join(parts)
