"""Cells that several tables share, read back from an item's RFC 3339 instants and seconds."""

from datetime import datetime

from ..triggers.instant import SECOND, to_instant
from .table import View
from .times import exact, relative, span, when


def instant_of(text: str | None) -> int | None:
    """The instant of an item's RFC 3339 text."""
    return None if text is None else to_instant(datetime.fromisoformat(text))


def when_cell(text: str | None, view: View) -> str:
    """`Sun 22 Dec 02:00:00` in the zone of the view."""
    return when(instant_of(text), view.zone, view.now)


def exact_cell(text: str | None, view: View) -> str:
    """`2026-12-22 02:00:00.004 UTC`, in the zone of the view."""
    instant = instant_of(text)
    return "-" if instant is None else exact(instant, view.zone)


def ago_cell(text: str | None, view: View) -> str:
    """`3m02s ago`."""
    return relative(instant_of(text), view.now)


def seconds_cell(value: float | None) -> str:
    """`3m02s`."""
    return span(None if value is None else round(value * SECOND))
