"""How stored values look in an answer: RFC 3339 instants, seconds as numbers, JSON that may be broken."""

import json
from typing import Any

from ...triggers.instant import SECOND, rfc3339

Item = dict[str, Any]


def instant(value: int | None) -> str | None:
    """The instant in RFC 3339, UTC; None for one beyond all calendars, which only a broken row holds."""
    try:
        return None if value is None else rfc3339(value)
    except OverflowError:
        return None


def seconds(value: int | None) -> float | None:
    """A duration in seconds."""
    return None if value is None else value / SECOND


def readable(text: str | None) -> Item | None:
    """The JSON object in a column; None for a broken one: that is its row's error, not the list's."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def error_item(text: str | None, *, traceback: bool = False) -> Item | None:
    """What a firing failed with, `traceback` and all if asked for; a text that cannot be read is shown as it is."""
    if text is None:
        return None
    error = readable(text) or {"message": text}
    names = ("type", "message", "traceback") if traceback else ("type", "message")
    return {name: error.get(name) for name in names}
