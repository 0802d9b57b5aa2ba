"""`qsched triggers next --notable`: what is remarkable of a trigger within a year, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..triggers.instant import DAY, rfc3339
from .render import answer, say, show_document
from .settings import Settings
from .times import when

if TYPE_CHECKING:
    from ..triggers.schedule import Schedule


def show_notable(settings: Settings, key: str, schedule: Schedule, since: tuple[str, int]) -> None:
    """Show the year from an instant on; `since` is the zone of the trigger, and that instant (µs)."""
    from ..triggers.notable import notable
    from ..triggers.zone import find_zone

    name, first = since
    found = notable(schedule, find_zone(name).tz, first, first + 366 * DAY)
    if settings.output in ("json", "yaml"):
        items = [
            {"trigger": key, "at": rfc3339(n.first), "until": rfc3339(n.last), "note": n.note} for n in found
        ]
        show_document(settings.output, "FireList", items)
        return
    if not found:
        say(f"nothing remarkable of {key} within a year")
    for each in found:
        zone = settings.zone()
        until = "" if each.last == each.first else f" … {when(each.last, zone, first)}"
        answer(f"{when(each.first, zone, first)}{until}  {each.note}")
