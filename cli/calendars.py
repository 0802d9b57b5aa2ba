"""`qsched calendars`: which time triggers leave out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..triggers.instant import rfc3339
from .exits import FAILED, NOT_FOUND, USAGE, CommandError
from .render import Listing, answer, show, show_document
from .settings import Settings
from .table import Column, Item
from .times import InstantType, abbreviation, when
from .tree import Leaf, Tree, command

if TYPE_CHECKING:
    from ..scheduler.store.calendar_rows import CalendarRow
    from ..scheduler.store.database import Store
    from ..triggers.calendars.calendar import Calendar

calendars = Tree(
    "calendars",
    {
        "list": Leaf("calendars:list_calendars", "All calendars, and which triggers use them."),
        "check": Leaf("calendars:check_calendar", "When a calendar leaves time out."),
    },
    help="Which time triggers leave out.",
)

_COLUMNS = [
    Column("CALENDAR", lambda item, _: item["name"]),
    Column("LEAVES OUT", lambda item, _: item["words"] or "-"),
    Column("TRIGGERS", lambda item, _: str(len(item["triggers"])), right=True),
    Column("USED BY", lambda item, _: ", ".join(item["triggers"][:5]) or "-", wide=True),
    Column("OWNER", lambda item, _: item["namespace"], drop=1),
]
_CALENDARS = Listing("CalendarList", _COLUMNS)
_MOST = 1000


@command("list")
@click.pass_obj
def list_calendars(settings: Settings) -> None:
    """List calendars: what each leaves out, and which triggers use it."""
    from ..scheduler.store.reports import database_now

    store = settings.reading()
    show(settings, _CALENDARS, map(_item, _rows(store)), lambda: database_now(store))


@command("check")
@click.argument("calendar")
@click.option("--namespace", metavar="NAME", help="Where several have one of this name.")
@click.option("--date", type=InstantType(), help="Only whether this instant is left out.")
@click.option("--from", "start", type=InstantType(), help="From this instant.  [default: now]")
@click.option(
    "-n", "--n", "count", type=click.IntRange(1, _MOST), default=5, help="How many spans.  [default: 5]"
)
@click.pass_obj
def check_calendar(settings: Settings, /, calendar: str, namespace: str | None, **asked: Any) -> None:
    """Show when a calendar leaves time out next; with --date, whether it does so then.

    Spans that touch are shown as one. Times are the calendar's own; a calendar without a zone is shown in that of --tz, as it
    is read in the zone of each trigger that uses it.
    """
    from ..scheduler.store.reports import database_now

    zone = settings.zone()
    store = settings.reading()
    row = _found(store, calendar, namespace)
    now = database_now(store)
    found = _compiled(row, getattr(zone, "key", "UTC"))
    if asked["date"] is not None:
        left_out = found.excludes(asked["date"])
        if settings.output in ("json", "yaml"):
            item = {"calendar": row.name, "at": rfc3339(asked["date"]), "left_out": left_out}
            show_document(settings.output, "CalendarCheck", [item])
        else:
            answer(f"{when(asked['date'], zone, now)} {'is left out' if left_out else 'is not left out'}")
        return
    spans = list(_spans(found, now if asked["start"] is None else asked["start"], asked["count"]))
    if settings.output in ("json", "yaml"):
        rows = [{"from": rfc3339(begin), "to": None if end is None else rfc3339(end)} for begin, end in spans]
        show_document(settings.output, "CalendarSpanList", rows)
        return
    for begin, end in spans:
        until = "for good" if end is None else f"to {when(end, zone, now)} {abbreviation(end, zone)}"
        answer(f"{when(begin, zone, now)} {abbreviation(begin, zone)} {until}")


def _rows(store: Store) -> list[CalendarRow]:
    from ..scheduler.store.calendar_rows import read_calendars

    return store.read("calendars", read_calendars)


def _item(row: CalendarRow) -> Item:
    from ..triggers.calendars.words import calendar_words

    return {
        "name": row.name,
        "namespace": row.namespace,
        "words": calendar_words(row.spec),
        "time_zone": row.spec.get("time_zone"),
        "triggers": list(row.used_by),
        "definition": dict(row.spec),
        "updated_at": rfc3339(row.updated_at) if row.updated_at else None,
    }


def _found(store: Store, name: str, namespace: str | None) -> CalendarRow:
    from difflib import get_close_matches

    rows = _rows(store)
    found = [row for row in rows if row.name == name and namespace in (None, row.namespace)]
    if not found:
        near = get_close_matches(name, [row.name for row in rows], 1)
        hint = f"did you mean {near[0]!r}?" if near else "`qsched calendars list` shows what there is"
        raise CommandError(f"there is no calendar {name!r}", code=NOT_FOUND, hint=hint)
    if len(found) > 1:
        said = ", ".join(row.namespace for row in found)
        raise CommandError(f"calendar {name!r} is in {said}", code=USAGE, hint="say which with --namespace")
    return found[0]


def _compiled(row: CalendarRow, zone: str) -> Calendar:
    from ..triggers.calendars.compiling import compile_calendar
    from ..triggers.errors import TriggerError

    try:
        return compile_calendar(row.spec, zone)
    except (TriggerError, KeyError, TypeError, ValueError) as error:
        raise CommandError(f"calendar {row.name!r} cannot be read: {error}", code=FAILED) from error


def _spans(calendar: Calendar, start: int, count: int) -> Iterator[tuple[int, int | None]]:
    """At most `count` spans that are left out, from `start` on."""
    begin: int | None = None
    at: int | None = start
    for _ in range(50 * _MOST):
        if at is None or count == 0:
            break
        if calendar.excludes(at):
            begin = at if begin is None else begin
        elif begin is not None:
            yield begin, at
            begin, count = None, count - 1
        at = calendar.changes_after(at)
    if begin is not None and count:
        yield begin, at
