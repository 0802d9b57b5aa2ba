"""`qsched cron EXPR`: what an expression means, in words, in times, and beside other libraries' readings."""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING, Any

import click

from ..triggers.errors import CronError
from ..triggers.instant import rfc3339
from .exits import USAGE, CommandError
from .render import answer, say, show_document
from .settings import Settings
from .times import WEEKDAYS, InstantType, abbreviation, relative, when
from .tree import command

if TYPE_CHECKING:
    from ..triggers.cron import Cron


@command("cron")
@click.argument("expr")
@click.option("--quartz", is_flag=True, help="Six or seven fields, seconds first, 1 = Sunday.")
@click.option("--from", "start", type=InstantType(), help="Times after this instant.  [default: now]")
@click.option(
    "-n", "--n", "count", type=click.IntRange(1, 100_000), default=5, help="How many times.  [default: 5]"
)
@click.option("--key", metavar="TRIGGER", help="The trigger key that H fields are hashed from.")
@click.option("--compare", is_flag=True, help="Beside croniter and, where installed, APScheduler.")
@click.pass_obj
def cron(settings: Settings, /, expr: str, **asked: Any) -> None:
    """Explain EXPR and show its next times, in the zone of --tz.

    Five fields are Unix cron (or @daily and its like); --quartz reads Quartz's six or seven.
    """
    zone = settings.zone()
    schedule = _read(expr, settings.tz, **asked)
    now = _now()
    start = now if asked["start"] is None else asked["start"]
    slots = _slots(schedule, start, asked["count"])
    others = _others(schedule, start, asked["count"]) if asked["compare"] else {}
    if settings.output in ("json", "yaml"):
        show_document(settings.output, "Cron", [_item(schedule, zone, slots, others)])
        return
    if settings.output != "name":
        say(schedule.words())
        for remark in schedule.remarks:
            say(f"note: {remark}")
    for slot in slots:
        answer(_line(schedule, slot, zone, now) if settings.output != "name" else rfc3339(slot))
    for line in _differences(slots, others, zone, now):
        answer(line)


def _read(expr: str, zone: str, *, quartz: bool, key: str | None, **_asked: object) -> Cron:
    from ..triggers.cron import Cron

    try:
        return Cron(expr, "quartz" if quartz else "unix", zone, key=key)
    except CronError as error:
        if key is None and "needs a key" in str(error):
            raise CommandError(str(error), code=USAGE, hint="on a command line, --key NAME") from error
        raise


def _now() -> int:
    from ..scheduler.clock import SystemClock

    return SystemClock().wall()


def _slots(schedule: Cron, start: int, count: int) -> list[int]:
    slots: list[int] = []
    slot = schedule.slot_after(start)
    while slot is not None and len(slots) < count:
        slots.append(slot)
        slot = schedule.slot_after(slot)
    if not slots:
        raise CronError(f"{schedule.expr!r} has no time after {rfc3339(start)}: choose an earlier --from")
    return slots


def _line(schedule: Cron, slot: int, zone: tzinfo, now: int) -> str:
    note = schedule.notes(slot)
    words = f"{when(slot, zone, now)} {abbreviation(slot, zone)}  {relative(slot, now)}"
    return f"{words}  ({note})" if note else words


def _item(schedule: Cron, zone: tzinfo, slots: list[int], others: dict[str, Any]) -> dict[str, Any]:
    from ..triggers.instant import from_instant

    item: dict[str, Any] = {
        "expression": schedule.expr,
        "dialect": schedule.dialect,
        "time_zone": schedule.time_zone,
        "words": schedule.words(),
        "remarks": list(schedule.remarks),
        "next": [
            {
                "at": rfc3339(slot),
                "local": from_instant(slot).astimezone(zone).isoformat(),
                "weekday": WEEKDAYS[from_instant(slot).astimezone(zone).weekday()],
                "note": schedule.notes(slot),
            }
            for slot in slots
        ],
    }
    if others:
        item["compare"] = {
            name: found if isinstance(found, str) else [rfc3339(slot) for slot in found]
            for name, found in others.items()
        }
    return item


def _others(schedule: Cron, start: int, count: int) -> dict[str, Any]:
    from .cron_compare import readings

    return readings(schedule, start, count)


def _differences(slots: list[int], others: dict[str, Any], zone: tzinfo, now: int) -> list[str]:
    """One line per library: that it agrees, where it first differs, or why it cannot say."""
    lines = [""] if others else []
    for name, found in others.items():
        if isinstance(found, str):
            lines.append(f"{name}: {found}")
        elif found == slots:
            lines.append(f"{name}: the same {len(slots)}")
        else:
            n = next((n for n, (a, b) in enumerate(zip(slots, found, strict=False)) if a != b), len(found))
            theirs = when(found[n], zone, now) if n < len(found) else "nothing"
            lines.append(f"{name}: differs at time {n + 1}: {theirs} instead of {when(slots[n], zone, now)}")
    return lines
