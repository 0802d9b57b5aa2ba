"""A systemd unit file: sections of `Key=value`, where a key may come several times, and its spans of time."""

import re
from dataclasses import dataclass, field
from typing import Final

from ...triggers.errors import ScheduleError
from ...triggers.instant import DAY, HOUR, MINUTE, SECOND
from .sources import Source

_SECTION = re.compile(r"\[([A-Za-z0-9-]+)\]\Z")
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]*)", re.IGNORECASE)
_UNITS: Final = {
    **dict.fromkeys(("usec", "us", "µs"), 1),
    **dict.fromkeys(("msec", "ms"), 1000),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), SECOND),
    **dict.fromkeys(("m", "min", "minute", "minutes"), MINUTE),
    **dict.fromkeys(("h", "hr", "hour", "hours"), HOUR),
    **dict.fromkeys(("d", "day", "days"), DAY),
    **dict.fromkeys(("w", "week", "weeks"), 7 * DAY),
}


@dataclass(frozen=True, slots=True)
class Said:
    """One assignment."""

    line: int
    key: str
    value: str


@dataclass(slots=True)
class Unit:
    """The assignments of each section, in order."""

    source: Source
    sections: dict[str, list[Said]] = field(default_factory=dict)

    def all(self, section: str, key: str) -> list[Said]:
        """Every value of a key that counts: an empty one takes back those before it."""
        found: list[Said] = []
        for said in self.sections.get(section, []):
            if said.key == key:
                found = [*found, said] if said.value else []
        return found

    def last(self, section: str, key: str) -> str | None:
        values = self.all(section, key)
        return values[-1].value if values else None


def read_unit(source: Source) -> Unit:
    """Read a unit file; lines that are neither sections nor assignments are left out, as systemd does."""
    unit, section = Unit(source), ""
    waiting, begun = "", 0
    for number, raw in enumerate(source.text.splitlines(), 1):
        text = raw.strip()
        if not text or text[0] in "#;":
            continue
        begun = begun or number
        if text.endswith("\\"):
            waiting += text[:-1] + " "
            continue
        line, waiting, start, begun = waiting + text, "", begun, 0
        if (found := _SECTION.match(line)) is not None:
            section = found[1]
        elif "=" in line:
            key, _, value = line.partition("=")
            unit.sections.setdefault(section, []).append(Said(start, key.strip(), value.strip()))
    return unit


def span(text: str) -> int:
    """Microseconds of `5min`, `1h 30min`, `90`; raises ScheduleError for what is no such span."""
    total, at = 0.0, 0
    for found in _SPAN.finditer(text.strip()):
        size = _UNITS.get(found[2].lower() if found[2] != "M" else "?")
        if found.start() != at or size is None:
            raise ScheduleError(f"{text!r} is not a span of time with a fixed length")
        total += float(found[1]) * size
        at = found.end()
    if at != len(text.strip()) or not at:
        raise ScheduleError(f"{text!r} is not a span of time with a fixed length")
    return round(total)


def truth(text: str | None, default: bool) -> bool:
    """systemd's booleans."""
    return default if text is None else text.lower() in ("1", "yes", "y", "true", "t", "on")
