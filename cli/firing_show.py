"""`qsched firings show`: one firing, from its slot to its last attempt."""

from typing import Any

import click

from .details import show_details
from .exits import NOT_FOUND, CommandError
from .firing_list import detail
from .render import fitting, show_document
from .rows import exact_cell, seconds_cell, when_cell
from .settings import Settings
from .table import Column, Item, View, printable, state_cell
from .tree import command

_TRAIL = [
    Column("AT", lambda item, view: exact_cell(item["at"], view)),
    Column("STATE", lambda item, _: state_cell(item["state"]), paint=True),
    Column("ATTEMPT", lambda item, _: "-" if item["attempt"] is None else str(item["attempt"]), right=True),
    Column("NODE", lambda item, _: item["node"] or "-"),
    Column("REASON", lambda item, _: item["reason"] or "-"),
]


@command("show")
@click.argument("firing", type=int)
@click.pass_obj
def show_firing(settings: Settings, firing: int) -> None:
    """Show one firing: when it was due and noticed, and every state it went through, when, where and why."""
    from ..scheduler.store.firing_reports import firing as read_firing
    from ..scheduler.store.reports import database_now

    zone = settings.zone()
    store = settings.reading()
    item = read_firing(store, firing)
    if item is None:
        raise CommandError(f"no firing {firing}", code=NOT_FOUND, hint="`qsched firings list` shows all")
    if settings.output in ("json", "yaml"):
        show_document(settings.output, "FiringList", [item])
        return
    view = View(zone, database_now(store))
    trail = fitting(_TRAIL, wide=settings.output == "wide").lines(item["trail"], view)
    show_details(_facts(item, view), trail, _traceback(item))


def _traceback(item: Item) -> list[str]:
    """What the newest attempt that raised left behind: its message is whole there."""
    errors = [attempt["error"] for attempt in item["attempts"] if attempt["error"]]
    text = errors[-1]["traceback"] if errors else None
    return [printable(line) for line in str(text or "").splitlines()]


def _facts(item: Item, view: View) -> list[tuple[str, Any]]:
    slots = (
        ""
        if item["covers"] == 1
        else f" ({item['covers']} slots from {when_cell(item['first_scheduled_at'], view)})"
    )
    misfire = item["misfire"]
    return [
        ("Firing", f"{item['id']}  {state_cell(item['state'])}"),
        ("Trigger", item["trigger"]),
        ("Job", item["job"]),
        ("Due", when_cell(item["scheduled_at"], view) + slots),
        ("Noticed", when_cell(item["noticed_at"], view)),
        ("Reason", item["reason"]),
        ("Runs again", item["of_firing"]),
        ("Late", seconds_cell(item["late"])),
        (
            "Misfire",
            misfire
            and f"{misfire['decision']} (policy {misfire['policy']}, cause {misfire['cause'] or 'unknown'})",
        ),
        ("Detail", detail({**item, "of_firing": None})),
    ]
