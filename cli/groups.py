"""`qsched groups`: triggers that are paused together, also those still to come, and jobs that are limited together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .bills import pause_end, tell_bills
from .declared import counted
from .exits import NOT_FOUND, USAGE, CommandError
from .render import Listing, answer, say, show, show_document
from .rows import when_cell
from .settings import Settings, whoami
from .table import Column, Item, View, state_cell
from .times import SinceType
from .tree import Leaf, Tree, command

if TYPE_CHECKING:
    from ..scheduler.store.database import Store

groups = Tree(
    "groups",
    {
        "list": Leaf("groups:list_groups", "All groups: pauses, triggers by state, limits and permits."),
        "pause": Leaf("groups:pause", "Stop all triggers of groups, also those they will get."),
        "resume": Leaf("groups:resume", "Let the triggers of paused groups go on from now."),
    },
    help="What is paused, and what is limited, together.",
)


def _reason(item: Item, view: View) -> str:
    pause = item["paused"]
    if pause is None:
        return "-"
    words = f"by {pause['by']} " if pause["by"] else ""
    words += f"since {when_cell(pause['at'], view)}"
    if pause["until"]:
        words += f" until {when_cell(pause['until'], view)}"
    return f"{words}: {pause['reason']}" if pause["reason"] else words


def _permits(item: Item) -> str:
    limit = item["limit"]
    return "-" if limit is None else f"{limit['in_use']}/{limit['most']}"


def _count(state: str) -> Column:
    return Column(state.upper(), lambda item, _: str(item["triggers"][state] or "-"), right=True, drop=3)


_COLUMNS = [
    Column("GROUP", lambda item, _: item["name"]),
    Column("STATE", lambda item, _: state_cell("paused") if item["paused"] else "-", paint=True),
    _count("waiting"),
    _count("paused"),
    _count("error"),
    _count("done"),
    Column("PERMITS", lambda item, _: _permits(item), right=True),
    Column("LIMITED BY", lambda item, _: (item["limit"] or {}).get("namespace") or "-", wide=True),
    Column("PAUSED", _reason, drop=1),
]

_GROUPS = Listing("GroupList", _COLUMNS)
_names = click.argument("groups", nargs=-1, required=True, metavar="GROUP...")


@command("list")
@click.pass_obj
def list_groups(settings: Settings) -> None:
    """List groups: who paused one and why, its triggers by state, and its limit with the permits that are held.

    Pauses are of the group in a trigger's key; limits (`groups:` in a file) are of the group that a job names.
    """
    from ..scheduler.store.group_reports import groups as read_groups
    from ..scheduler.store.reports import database_now

    store = settings.reading()
    show(settings, _GROUPS, read_groups(store), lambda: database_now(store))


@command("pause")
@_names
@click.option("--reason", metavar="TEXT", help="Why, for whoever finds it paused.")
@click.option("--until", type=SinceType(), help="When the pause ends by itself: in 2h, or an instant.")
@click.pass_obj
def pause(
    settings: Settings, groups: Sequence[str], reason: str | None, until: tuple[str, int] | None
) -> None:
    """Pause groups. When this returns, nothing of them starts, nor of triggers that they get later.

    A group may be paused before there is one.
    """
    from ..scheduler.groups import pause_group
    from ..scheduler.store.group_reports import group as read_group

    for name in groups:
        _checked(name)
    store = settings.writing()
    end = pause_end(settings, store, until)
    for name in groups:
        pause_group(store, name, reason=reason, who=whoami(), until=end)
        item = read_group(store, name)
        if item is not None and not any(item["triggers"].values()):
            say(f"group {name} has no triggers yet: those that it gets will be paused")
    _done(settings, "paused", groups)


@command("resume")
@_names
@click.option(
    "--catch-up", is_flag=True, help="Leave the slots that passed to each trigger's misfire policy."
)
@click.pass_obj
def resume(settings: Settings, groups: Sequence[str], catch_up: bool) -> None:
    """Let the triggers of groups go on from now; those that are paused by themselves stay so.

    What passed is shown first, recorded as skipped, and does not run. With --catch-up it is decided by the misfire policy,
    after being agreed to.
    """
    from ..scheduler.groups import group_bills, resume_group

    store = settings.writing()
    for name in groups:
        _known(store, name)
    for name in groups:
        tell_bills(settings, group_bills(store, name), catch_up=catch_up)
    for name in groups:
        resume_group(store, name, who=whoami(), catch_up=catch_up)
    _done(settings, "resumed", groups)


def _checked(name: str) -> None:
    from ..triggers.declaration_fields import name_fault

    if (fault := name_fault(name)) is not None:
        raise CommandError(fault.message, code=USAGE, hint=fault.hint)


def _known(store: Store, name: str) -> None:
    """Refuse a group of which nothing is known, and say of one that is not paused that it is not."""
    from difflib import get_close_matches

    from ..scheduler.store.group_reports import groups as read_groups

    found = {item["name"]: item for item in read_groups(store)}
    if name not in found:
        near = get_close_matches(name, found, 1)
        hint = f"did you mean {near[0]!r}?" if near else "`qsched groups list` shows them all"
        raise CommandError(f"no group {name!r}", code=NOT_FOUND, hint=hint)
    if found[name]["paused"] is None:
        own = found[name]["triggers"]["paused"]
        beside = f"; {counted(own, 'trigger')} paused by themselves stay so" if own else ""
        say(f"group {name} is not paused{beside}")


def _done(settings: Settings, verb: str, groups: Sequence[str]) -> None:
    if settings.output in ("json", "yaml"):
        show_document(settings.output, "GroupList", [{"name": name, "done": verb} for name in groups])
        return
    for name in groups:
        answer(name if settings.output == "name" else f"{name} {verb}")
