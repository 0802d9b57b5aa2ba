"""What a resume, a start or an edit costs, said before it is paid; and how a pause is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from .declared import counted
from .exits import USAGE, CommandError
from .render import say
from .rows import instant_of
from .settings import Settings
from .times import when

if TYPE_CHECKING:
    from ..scheduler.plan import Plan, PlanItem
    from ..scheduler.store.database import Store
    from ..scheduler.turns import Bill

_MOST: Final = 20
"""So many bills are said one by one."""


def pause_end(settings: Settings, store: Store, until: tuple[str, int] | None) -> int | None:
    """The instant at which `--until` lets a pause end; one that has passed is a usage error."""
    from ..scheduler.store.reports import database_now

    if until is None:
        return None
    now = database_now(store)
    end = until[1] + (now if until[0] == "duration" else 0)
    if end <= now:
        said = f"--until {when(end, settings.zone(), now)} has passed"
        raise CommandError(said, code=USAGE, hint="give a later instant, or a duration such as 2h")
    return end


def tell_bills(settings: Settings, bills: Sequence[Bill], *, catch_up: bool) -> None:
    """Say what a resume closes, or (with `catch_up`) leaves to the misfire policy, and ask for the latter."""
    owed = [bill for bill in bills if bill.slots or bill.held]
    zone = settings.zone()
    for bill in owed[:_MOST]:
        fate = "left to its misfire policy" if catch_up else "skipped"
        following = when(bill.next_fire_at, zone, bill.last or bill.next_fire_at or 0)
        say(f"{told(settings, bill)}: {fate}; next {following}")
    if len(owed) > _MOST:
        rest = owed[_MOST:]
        say(
            f"… and {counted(sum(bill.slots for bill in rest), 'slot')} of {counted(len(rest), 'trigger')} more"
        )
    if owed and catch_up:
        settings.confirm("Leave them to the misfire policy, which may run some now?")


def tell_start(settings: Settings, store: Store, key: str, *, force: bool) -> None:
    """Say what a start of this trigger waits for, where it waits, and that its next slot stays what it is."""
    from ..scheduler.store.reports import database_now
    from ..scheduler.store.start_reports import start_facts

    facts = start_facts(store, key)
    if facts is None or (facts["stopped"] and not force):
        return  # whoever fires it says why not
    waits: list[str] = []
    if (busy := facts["running"]) is not None:
        waits.append(f"its job runs as firing {busy['firing']} on {busy['node']}, and allows no overlap")
    if facts["full"]:
        waits.append("its group's limit is reached")
    if not facts["nodes"]:
        waits.append("no node lives")
    if waits:
        following = when(instant_of(facts["next_fire_at"]), settings.zone(), database_now(store))
        say(f"{key} waits: {'; '.join(waits)}. Its next slot stays {following}")


def moved(item: PlanItem, settings: Settings, now: int) -> str:
    """`  next 02:15 → 01:30 (no catch-up)`, where an apply moves a trigger's next slot."""
    zone = settings.zone()
    before, after = when(item.next_before, zone, now), when(item.next_after, zone, now)
    if item.what != "trigger" or item.action == "retire" or (item.next_before == item.next_after):
        return ""
    return f"  next {after}" if item.next_before is None else f"  next {before} → {after} (no catch-up)"


def rescheduled(made: Plan, settings: Settings, now: int) -> list[str]:
    """What an apply does to the schedules it edits, a line each: the next slot before and after, and what is closed."""
    lines: list[str] = []
    for item in made.items:
        if item.action in ("change", "rename") and (line := moved(item, settings, now)):
            closed = [note for note in item.notes if note.endswith("recorded as skipped")]
            lines.append("; ".join([f"{item.key}:{line}", *closed]))
    return lines


def told(settings: Settings, bill: Bill) -> str:
    """`partner-feed: 78 slots passed, Sat 12 Dec 08:00:00 to …`."""
    zone = settings.zone()
    said = [f"{bill.key}:"]
    if bill.slots and bill.first is not None and bill.last is not None:
        first, last = when(bill.first, zone, bill.last), when(bill.last, zone, bill.last)
        said.append(
            f"{counted(bill.slots, 'slot')} passed, {first}" + (f" to {last}" if last != first else "")
        )
    if bill.held:
        said.append(f"{'and ' if bill.slots else ''}{counted(bill.held, 'firing')} of earlier slots waiting")
    return " ".join(said)
