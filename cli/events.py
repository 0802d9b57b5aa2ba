"""`qsched events`: what happened in the cluster, and, followed, what happens."""

from __future__ import annotations

import json
import select
import sys
from typing import TYPE_CHECKING

import click

from .exits import INTERRUPTED
from .firing_list import id_of_trigger, instant_since
from .render import Listing, answer, say, show
from .rows import exact_cell
from .settings import Settings
from .table import Column, Item, View
from .times import DurationType, SinceType
from .tree import command

if TYPE_CHECKING:
    import threading

    from ..scheduler.event_stream import EventStream
    from ..scheduler.events import Event
    from ..scheduler.store.database import Store

FACTS = (
    "planned", "skipped", "misfired", "started", "succeeded", "failed", "timed_out", "cancelled", "interrupted", "lost",
    "retried", "handed_over", "recovered", "retry_dropped", "exhausted", "discarded", "cancel_requested", "fenced",
    "trigger_error", "trigger_error_cleared", "paused", "resumed", "applied", "operated", "node_up", "node_left", "node_dead",
    "leader_changed",
)  # fmt: skip
"""The names of all facts: written here, so that `--help` need not load them."""
_NEWEST = 20


def _number(item: Item, name: str) -> str:
    return "-" if item[name] is None else str(item[name])


_COLUMNS = [
    Column("AT", lambda item, view: exact_cell(item["at"], view)),
    Column("FACT", lambda item, _: str(item["fact"])),
    Column("TRIGGER", lambda item, _: item["trigger"] or "-"),
    Column("JOB", lambda item, _: item["job"] or "-", wide=True),
    Column("FIRING", lambda item, _: _number(item, "firing"), right=True, drop=2),
    Column("ATTEMPT", lambda item, _: _number(item, "attempt"), right=True, drop=4),
    Column("NODE", lambda item, _: item["node"] or "-", drop=3),
    Column("REASON", lambda item, _: item["reason"] or "-", drop=1),
]
_EVENTS = Listing("EventList", _COLUMNS, name="fact")


@command("events")
@click.option("-f", "--follow", is_flag=True, help="Then tell what happens, until Ctrl-C.")
@click.option("--trigger", metavar="KEY", help="Only events of this trigger.")
@click.option(
    "--fact",
    multiple=True,
    type=click.Choice(FACTS),
    metavar="FACT",
    help="Only these facts; may be repeated.",
)
@click.option("--since", type=SinceType(), help="What happened in the last 2h, 7d, …")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"The newest N.  [default: {_NEWEST}; with --since all]",
)
@click.option(
    "--interval", type=DurationType(), default="500ms", help="How often to look, with -f.  [default: 500ms]"
)
@click.pass_obj
def events(settings: Settings, /, *, follow: bool, **options: object) -> int | None:
    """Tell what happened in the whole cluster, oldest first: each firing's facts, nodes, and what operators did.

    Made from the ledger by whoever asks: it reads only, and costs the nodes nothing.
    """
    if follow and settings.output == "yaml":
        raise click.UsageError(
            "events are followed as table, wide, json (one object a line) or name, not as yaml"
        )
    interval = _interval(options["interval"])
    from ..scheduler.event_stream import EventStream, Wanted
    from ..scheduler.store.reports import database_now

    store = settings.reading()
    key = options["trigger"]
    wanted = Wanted(id_of_trigger(store, key), key, frozenset(options["fact"]))  # type: ignore[arg-type, call-overload]
    stream = EventStream(store, wanted)
    if follow:
        stream.begin()
    found = _history(store, stream, options)
    if not follow:
        show(settings, _EVENTS, map(item_of, found), lambda: database_now(store))
        return None
    view = View(settings.zone(), database_now(store))
    stopped = _when_interrupted()
    _write(settings, view, found)
    return _follow(settings, view, stream, (stopped, interval))


def _interval(value: object) -> float:
    assert isinstance(value, int)
    if not 10_000 <= value <= 60_000_000:
        raise click.UsageError("--interval must be 10ms to 1m: how often the store is looked at")
    return value / 1_000_000


def _history(store: Store, stream: EventStream, options: dict[str, object]) -> list[Event]:
    limit, since = options["limit"], options["since"]
    assert limit is None or isinstance(limit, int)
    if limit == 0:
        return []
    if since is None:
        return stream.newest(_NEWEST if limit is None else limit)
    found = stream.since(instant_since(store, since) or 0)  # type: ignore[arg-type]
    return found if limit is None else found[-limit:]


def _when_interrupted() -> threading.Event:
    """Set by Ctrl-C. An exception would be lost where it meets a driver's callback or an object's end."""
    import signal
    import threading

    stopped = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    return stopped


def _follow(settings: Settings, view: View, stream: EventStream, until: tuple[threading.Event, float]) -> int:
    from ..scheduler.clock import SystemClock
    from ..scheduler.errors import StoreUnavailable

    (stopped, interval), clock, away = until, SystemClock(), False
    while not _reader_left():
        clock.wait(stopped, interval)
        if stopped.is_set():
            return INTERRUPTED
        try:
            fresh = stream.poll()
        except StoreUnavailable as error:
            if not away:
                say(f"the store does not answer: {error}; waiting")
            away = True
            continue
        if away:
            say("the store answers again")
            away = False
        _write(settings, view, fresh)
    return 0


def _write(settings: Settings, view: View, found: list[Event]) -> None:
    for event in found:
        answer(_line(settings.output, item_of(event), view))
    sys.stdout.flush()


def _line(form: str, item: Item, view: View) -> str:
    """One event on a line: what comes next is not known, so that columns have widths that fit most."""
    if form == "json":
        return json.dumps(item, ensure_ascii=False)
    if form == "name":
        return str(item["fact"])
    from .table import printable

    of = [f"firing {item['firing']}"] if item["firing"] is not None else []
    of += [f"attempt {item['attempt']}"] if item["attempt"] else []
    of += [f"on {item['node']}"] if item["node"] else []
    cells = [exact_cell(item["at"], view), f"{item['fact']:<16}", f"{item['trigger'] or '-':<20}"]
    if form == "wide":
        cells.append(f"{item['job'] or '-':<20}")
    return printable("  ".join([*cells, ", ".join(of) or "-", item["reason"] or ""])).rstrip()


def item_of(event: Event) -> Item:
    """An event as JSON has it."""
    from ..triggers.instant import rfc3339

    return {
        "at": rfc3339(event.at),
        "fact": str(event.fact),
        "trigger": event.trigger,
        "job": event.job,
        "firing": event.firing,
        "fence": event.fence,
        "attempt": event.attempt,
        "state": event.state,
        "node": event.node,
        "reason": event.reason,
        "cause": event.cause,
        "policy": event.policy,
        "decision": event.decision,
    }


def _reader_left() -> bool:
    """Whether nobody reads any more (`| head -1`), which a write would tell only when the next event comes."""
    try:
        watched = select.poll()
        watched.register(sys.stdout.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLNVAL) for _, event in watched.poll(0))
    except (AttributeError, OSError, ValueError):  # no such thing here, or no real file
        return False
