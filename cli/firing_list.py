"""`qsched firings list` and `qsched misfires list`: the ledger, newest first."""

from typing import TYPE_CHECKING

import click

from .exits import NOT_FOUND, CommandError
from .render import Listing, show
from .rows import seconds_cell, when_cell
from .settings import Settings
from .table import Column, Item, View, state_cell
from .times import SinceType
from .tree import command

if TYPE_CHECKING:
    from ..scheduler.store.database import Store
    from ..scheduler.store.firing_reports import Wanted

STATES = ("due", "running", "succeeded", "failed", "lost", "cancelled", "skipped")


def detail(item: Item) -> str:
    """What there is to say of a firing: its decision, which one it runs again, its error, or its note."""
    again = f"of {item['of_firing']}" if item["of_firing"] else None
    return " · ".join(text for text in (item["decision"], again, why(item)) if text) or "-"


def why(item: Item) -> str:
    """What went wrong and what follows from it; the error is left out where the note names it already."""
    error, note = item["error"] or {}, str(item["note"] or "")
    said = [str(text) for name in ("type", "message") if (text := error.get(name))]
    head = said[-1].splitlines()[0][:200] if said else ""
    if head and f": {head}" in note:
        return note
    return " · ".join(text for text in (": ".join(said), note) if text)


def attempt_cell(item: Item) -> str:
    return f"{item['attempt']} rec" if item["recovering"] else str(item["attempt"])


FIRING_COLUMNS = [
    Column("FIRING", lambda item, _: str(item["id"]), right=True),
    Column("TRIGGER", lambda item, _: item["trigger"] or f"({item['job']})"),
    Column("JOB", lambda item, _: item["job"], wide=True),
    Column("DUE", lambda item, view: when_cell(item["scheduled_at"], view)),
    Column("STATE", lambda item, _: state_cell(item["state"]), paint=True),
    Column("OUTCOME", lambda item, _: item["outcome"] or "-", wide=True),
    Column("REASON", lambda item, _: item["reason"], drop=3),
    Column("COVERS", lambda item, _: str(item["covers"]), right=True, drop=4),
    Column("LATE", lambda item, _: seconds_cell(item["late"]), right=True, drop=2),
    Column("TOOK", lambda item, _: seconds_cell(item["duration"]), right=True, drop=3),
    Column("ATTEMPT", lambda item, _: attempt_cell(item), right=True, drop=5),
    Column("NODE", lambda item, _: item["node"] or "-", drop=4),
    Column("DETAIL", lambda item, _: detail(item), drop=1),
]


def _of_misfire(key: str, item: Item, _view: View) -> str:
    return str((item["misfire"] or {}).get(key) or "-")


MISFIRE_COLUMNS = [
    Column("FIRING", lambda item, _: str(item["id"]), right=True, drop=5),
    Column("TRIGGER", lambda item, _: item["trigger"] or "-"),
    Column("DUE", lambda item, view: when_cell(item["first_scheduled_at"], view)),
    Column("LAST DUE", lambda item, view: when_cell(item["scheduled_at"], view), wide=True),
    Column("NOTICED", lambda item, view: when_cell(item["noticed_at"], view), drop=4),
    Column("LATE", lambda item, _: seconds_cell(item["late"]), right=True),
    Column("SLOTS", lambda item, _: str(item["covers"]), right=True),
    Column("CAUSE", lambda item, view: _of_misfire("cause", item, view), drop=2),
    Column("POLICY", lambda item, view: _of_misfire("policy", item, view), drop=3),
    Column("DECISION", lambda item, view: _of_misfire("decision", item, view)),
    Column("STATE", lambda item, _: state_cell(item["state"]), drop=1, paint=True),
]

_FIRINGS = Listing("FiringList", FIRING_COLUMNS, name="id")
_MISFIRES = Listing("MisfireList", MISFIRE_COLUMNS, name="id")

_trigger = click.option("--trigger", metavar="KEY", help="Only firings of this trigger.")
_since = click.option("--since", type=SinceType(), help="Only what was noticed in the last 2h, 7d, …")
_limit = click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N.  [default: all]")


@command("list")
@_trigger
@click.option("--state", type=click.Choice(STATES), help="Only firings in this state.")
@_since
@_limit
@click.pass_obj
def list_firings(
    settings: Settings,
    trigger: str | None,
    state: str | None,
    since: tuple[str, int] | None,
    limit: int | None,
) -> None:
    """List firings, newest first. A slot that did not run is a firing too: skipped, with its reason."""
    from ..scheduler.store.firing_reports import Wanted

    store = settings.reading()
    wanted = Wanted(id_of_trigger(store, trigger), state, instant_since(store, since), False, limit)
    _show(settings, store, _FIRINGS, wanted)


@command("list")
@_trigger
@_since
@_limit
@click.pass_obj
def list_misfires(
    settings: Settings, trigger: str | None, since: tuple[str, int] | None, limit: int | None
) -> None:
    """List misfires, newest first: when they were due, when noticed, how late, why, and what was decided."""
    from ..scheduler.store.firing_reports import Wanted

    store = settings.reading()
    wanted = Wanted(id_of_trigger(store, trigger), None, instant_since(store, since), True, limit)
    _show(settings, store, _MISFIRES, wanted)


def _show(settings: Settings, store: "Store", listing: Listing, wanted: "Wanted") -> None:
    from ..scheduler.store.firing_reports import firings
    from ..scheduler.store.reports import database_now

    items = firings(store, wanted)
    show(settings, listing, items, lambda: database_now(store))


def id_of_trigger(store: "Store", key: str | None) -> int | None:
    """The id of the trigger of `--trigger`; None where none was given."""
    if key is None:
        return None
    from ..scheduler.store.firing_reports import trigger_id
    from ..triggers.trigger_text import split_key

    found = trigger_id(store, *split_key(key))
    if found is None:
        raise unknown_trigger(store, key)
    return found


def unknown_trigger(store: "Store", key: str) -> CommandError:
    """The error for a key that no trigger has, with the nearest one that exists."""
    from difflib import get_close_matches

    from ..scheduler.store.reports import trigger_keys

    near = get_close_matches(key, trigger_keys(store), 1)
    hint = f"did you mean {near[0]!r}?" if near else "`qsched triggers list` shows all"
    return CommandError(f"no trigger {key!r}", code=NOT_FOUND, hint=hint)


def instant_since(store: "Store", since: tuple[str, int] | None) -> int | None:
    """The instant of `--since`, by the database's clock where a duration was given."""
    if since is None or since[0] == "instant":
        return None if since is None else since[1]
    from ..scheduler.store.reports import database_now

    return database_now(store) - since[1]
