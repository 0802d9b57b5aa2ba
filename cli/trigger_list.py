"""`qsched triggers list`: every trigger with its misfires at a glance; imports no engine and no job."""

from typing import Final

import click

from ..triggers.instant import MINUTE
from .render import Listing, show
from .rows import instant_of, seconds_cell, when_cell
from .settings import Settings
from .table import Column, Item, View, state_cell
from .times import relative, span
from .tree import command

_BEHIND: Final = MINUTE
"""A trigger waits this long and nothing is said of it: nodes look at it every second."""


def shown_state(item: Item) -> str:
    """The state as people see it: a paused trigger is paused, whatever it waits for."""
    return "paused" if item["paused"] and item["state"] == "waiting" else str(item["state"])


def reason(item: Item, view: View) -> str:
    """Why a trigger does not fire: its error, who paused it, until when and why, what still runs, or that nobody came to it."""
    if item["error"]:
        return str(item["error"])
    pause = item["paused"]
    if item["trouble"] and item["state"] == "waiting" and not pause:
        return f"no node can load its job: {item['trouble']}"
    if not pause:
        behind = view.now - (instant_of(item["next_fire_at"]) or view.now)
        busy = item["running"]
        if busy and (busy["skipped"] or behind > _BEHIND):
            return running_words(busy, view)
        return f"due {span(behind)} ago, and no node has decided it" if behind > _BEHIND else "-"
    whole = "group paused" if pause["scope"] == "group" else "paused"
    words = f"{whole} by {pause['by']}" if pause["by"] else whole
    if pause["until"]:
        words += f" until {when_cell(pause['until'], view)}"
    return f"{words}: {pause['reason']}" if pause["reason"] else words


def running_words(busy: Item, view: View) -> str:
    """`running since 12:00:00 on a (firing 7), 3 slots skipped`."""
    words = f"running since {when_cell(busy['since'], view)} on {busy['node']} (firing {busy['firing']})"
    skipped = busy["skipped"]
    return f"{words}, {skipped} {'slot' if skipped == 1 else 'slots'} skipped" if skipped else words


def _misfire(key: str) -> Column:
    def cell(item: Item, _view: View) -> str:
        misfire = item["last_misfire"]
        return str((misfire and misfire[key]) or "-")

    return Column(key.upper(), cell, drop=2 if key == "decision" else 3, wide=key in ("cause", "policy"))


def _last_misfire(item: Item, view: View) -> str:
    """Its first slot, as in `misfires list`: what LATE is counted from."""
    misfire = item["last_misfire"]
    return when_cell(misfire and misfire["first_scheduled_at"], view)


COLUMNS = [
    Column("TRIGGER", lambda item, _: item["name"]),
    Column("STATE", lambda item, _: state_cell(shown_state(item)), paint=True),
    Column("JOB", lambda item, _: item["job"] or "-", wide=True),
    Column("SCHEDULE", lambda item, _: item["schedule"] or "-", drop=4),
    Column("ZONE", lambda item, _: item["time_zone"], wide=True),
    Column("NEXT", lambda item, view: when_cell(item["next_fire_at"], view)),
    Column("IN", lambda item, view: relative(instant_of(item["next_fire_at"]), view.now), wide=True),
    Column("LAST", lambda item, view: relative(instant_of(item["prev_fire_at"]), view.now), drop=5),
    Column("OUTCOME", lambda item, _: state_cell(item["last_outcome"]), drop=3, paint=True),
    Column("FIRES", lambda item, _: str(item["fires"]), wide=True, right=True),
    Column("MISFIRES", lambda item, _: str(item["misfires"]), right=True),
    Column("LAST MISFIRE", _last_misfire, drop=3),
    Column(
        "LATE", lambda item, _: seconds_cell((item["last_misfire"] or {}).get("late")), right=True, drop=2
    ),
    _misfire("cause"),
    _misfire("policy"),
    _misfire("decision"),
    Column("OWNER", lambda item, _: item["namespace"], wide=True),
    Column("REASON", reason, drop=1),
]

TRIGGERS = Listing("TriggerList", COLUMNS)


@command("list")
@click.option("--group", metavar="NAME", help="Only the triggers of one group.")
@click.option("--all", "retired", is_flag=True, help="Retired triggers too.")
@click.pass_obj
def list_triggers(settings: Settings, group: str | None, retired: bool) -> None:
    """List triggers: state, next and last fire, last outcome, and misfires at a glance.

    Changes nothing, and needs neither the jobs' code nor a running node.
    """
    from ..scheduler.store.reports import database_now, triggers

    store = settings.reading()
    items = triggers(store, group=group, retired=retired)
    show(settings, TRIGGERS, items, lambda: database_now(store))
