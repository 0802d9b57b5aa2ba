"""`qsched triggers show` and `next`: one trigger, its schedule in words and what it will do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..triggers.instant import rfc3339
from ..triggers.schedule import note_on
from .details import show_details
from .exits import FAILED, NOT_FOUND, CommandError
from .firing_list import FIRING_COLUMNS, unknown_trigger
from .notable import show_notable
from .render import answer, fitting, say, show_document
from .rows import seconds_cell, when_cell
from .settings import Settings
from .table import Item, View, state_cell
from .times import InstantType, abbreviation, relative, when
from .tree import command
from .trigger_list import reason, running_words, shown_state

if TYPE_CHECKING:
    from ..scheduler.store.database import Store
    from ..triggers.schedule import Schedule
    from ..triggers.trigger import TriggerDefinition

_LAST = 5


@command("show")
@click.argument("trigger")
@click.pass_obj
def show_trigger(settings: Settings, trigger: str) -> None:
    """Show one trigger: state, schedule in words, next fires, misfires and last firings."""
    from ..scheduler.store.firing_reports import Wanted, firings, trigger_id
    from ..scheduler.store.reports import database_now, job
    from ..scheduler.store.running_reports import retries_dropped
    from ..triggers.trigger_text import split_key

    zone = settings.zone()
    store = settings.reading()
    item = found(store, trigger)
    number = trigger_id(store, *split_key(trigger))
    last = list(firings(store, Wanted(number, limit=_LAST)))
    now = database_now(store)
    item = {
        **item,
        **_plans(item, now),
        "recovery": _recovery(job(store, item["job"])),
        "retries_dropped": {} if number is None else retries_dropped(store, number),
        "firings": last,
    }
    if settings.output in ("json", "yaml"):
        show_document(settings.output, "TriggerList", [item])
        return
    view = View(zone, now)
    columns = [column for column in FIRING_COLUMNS if column.title != "TRIGGER"]
    table = fitting(columns, wide=settings.output == "wide")
    show_details(_facts(item, view), table.lines(last, view))


@command("next")
@click.argument("trigger")
@click.option(
    "-n", "--n", "count", type=click.IntRange(1, 100_000), default=5, help="How many.  [default: 5]"
)
@click.option(
    "--from", "start", type=InstantType(), help="Fires after this instant.  [default: what comes next]"
)
@click.option(
    "--notable",
    "remarkable",
    is_flag=True,
    help="Only what is remarkable within a year: changes of clocks, slots left out or moved, the last one.",
)
@click.pass_obj
def next_fires(settings: Settings, trigger: str, count: int, start: int | None, remarkable: bool) -> None:
    """Show when a trigger will fire next; clock changes are marked.

    Without --from the first is the oldest slot not decided yet, which may be due already.
    """
    from ..scheduler.store.reports import database_now

    zone = settings.zone()
    store = settings.reading()
    item = found(store, trigger)
    now = database_now(store)
    definition, schedule = _compiled(item)
    if remarkable:
        show_notable(
            settings, item["name"], schedule, (definition.time_zone, now if start is None else start)
        )
        return
    slots = _slots(item, schedule, start, _at_most(item, definition, count), now)
    notes = [note_on(schedule, slot) for slot in slots]
    if settings.output in ("json", "yaml"):
        rows = [
            {"trigger": item["name"], "at": rfc3339(s), "note": n} for s, n in zip(slots, notes, strict=True)
        ]
        show_document(settings.output, "FireList", rows)
        return
    if not slots:
        say(f"{trigger} will not fire again" if item["state"] == "done" else f"{trigger} will not fire then")
    if (why := reason(item, View(zone, now))) != "-":
        say(f"{trigger} is {shown_state(item)}: {why}")
    for slot, note in zip(slots, notes, strict=True):
        at = f"{when(slot, zone, now)} {abbreviation(slot, zone)}"
        words = f"{at}  {relative(slot, now)}" + (f"  ({note})" if note else "")
        answer(rfc3339(slot) if settings.output == "name" else words)


def found(store: Store, key: str) -> Item:
    """The trigger of that key; raises the error that names the nearest."""
    from ..scheduler.store.reports import trigger

    item = trigger(store, key)
    if item is None:
        raise unknown_trigger(store, key)
    if item["state"] == "retired":
        raise CommandError(
            f"trigger {key!r} is retired",
            code=NOT_FOUND,
            hint=f"`qsched firings list --trigger {key}` shows its history",
        )
    return item


def _compiled(item: Item) -> tuple[TriggerDefinition, Schedule]:
    from ..triggers.errors import TriggerError
    from ..triggers.trigger import TriggerDefinition, split_key

    try:
        definition = TriggerDefinition.from_spec(*split_key(item["name"]), item["definition"])
        return definition, definition.compile()
    except (TriggerError, TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise CommandError(f"trigger {item['name']!r} cannot be read: {error}", code=FAILED) from error


def _at_most(item: Item, definition: TriggerDefinition, count: int) -> int:
    """`count`, or as many fires as are left."""
    return count if definition.max_fires is None else max(0, min(count, definition.max_fires - item["fires"]))


def _slots(item: Item, schedule: Schedule, start: int | None, count: int, now: int) -> list[int]:
    from .rows import instant_of

    slot = instant_of(item["next_fire_at"]) if start is None else None
    if slot is None:
        slot = schedule.slot_after(now if start is None else start)
    slots: list[int] = []
    while slot is not None and len(slots) < count:
        slots.append(slot)
        slot = schedule.slot_after(slot)
    return slots


def _plans(item: Item, now: int) -> dict[str, Any]:
    """What the definition says; a broken one says so instead."""
    try:
        definition, schedule = _compiled(item)
        count = _at_most(item, definition, _LAST) if item["state"] == "waiting" else 0
        slots = _slots(item, schedule, None, count, now)
        return {
            "words": schedule.words(),
            "misfire_rule": _rule(definition),
            "next": [rfc3339(s) for s in slots],
        }
    except CommandError as error:
        return {"words": None, "misfire_rule": None, "next": [], "error": item["error"] or str(error)}


def _rule(definition: TriggerDefinition) -> str:
    """The misfire policy with what it is by default: `fire_once, threshold 1m`."""
    from ..triggers.duration import format_duration
    from ..triggers.misfire import FIRE_ALL

    rule = definition.misfire
    words = f"{rule.policy}, threshold {format_duration(rule.threshold)}"
    if rule.policy == FIRE_ALL:
        words += f", window {format_duration(rule.window)}, limit {rule.limit}"
    return words


def _recovery(job: Item | None) -> dict[str, Any] | None:
    """What a dead node means for its firings; None where the job's row is missing."""
    return None if job is None else {name: job[name] for name in ("request_recovery", "max_recoveries")}


def _promise(recovery: dict[str, Any] | None) -> str | None:
    """At least or at most once: the one choice that nobody can make for a job."""
    if recovery is None:
        return None
    if not recovery["request_recovery"]:
        return "at most once: lost if its node dies (request_recovery: false)"
    times = recovery["max_recoveries"]
    return f"at least once: run again if its node dies, up to {times} {'time' if times == 1 else 'times'}"


def _facts(item: Item, view: View) -> list[tuple[str, Any]]:
    misfire = item["last_misfire"]
    told = misfire and (
        f"{when_cell(misfire['first_scheduled_at'], view)}, {seconds_cell(misfire['late'])} late,"
        f" cause {misfire['cause'] or 'unknown'}: {misfire['decision']}"
    )
    last = f"{when_cell(item['prev_fire_at'], view)}  {state_cell(item['last_outcome'])}"
    busy = item["running"] and running_words(item["running"], view)
    dropped = ", ".join(f"{count} {cause}" for cause, count in item["retries_dropped"].items())
    return [
        ("Trigger", f"{item['name']}  {state_cell(shown_state(item))}"),
        ("Reason", reason(item, view)),
        ("Running", busy and busy.removeprefix("running ")),
        ("Job", item["job"]),
        ("Runs", _promise(item["recovery"])),
        ("Owner", f"namespace {item['namespace']}"),
        ("Schedule", item["schedule"]),
        ("Zone", item["time_zone"]),
        ("In words", item["words"]),
        ("Policy", item["misfire_rule"]),
        ("Next", ", ".join(when_cell(at, view) for at in item["next"])),
        ("Last", item["prev_fire_at"] and last),
        ("Fires", item["fires"]),
        ("Misfires", item["misfires"]),
        ("Last misfire", told),
        ("Retries dropped", dropped),
    ]
