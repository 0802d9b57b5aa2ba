"""`qsched simulate`: a rehearsal of declarations on a virtual clock, with the real planner and without a store."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..triggers.instant import DAY, MINUTE, SECOND, from_instant, rfc3339, to_instant
from .declared import counted, file_options, read_files
from .exits import USAGE, CommandError
from .render import Listing, say, show
from .rows import instant_of, seconds_cell
from .settings import Settings
from .table import Column, Item, View
from .times import DurationType, InstantType, when
from .tree import command

if TYPE_CHECKING:
    from ..scheduler.rehearsal import Rehearsed, Stage


def _counts(name: str) -> Any:
    return lambda item, _: ", ".join(f"{count} {what}" for what, count in item[name].items()) or "-"


def _busiest(item: Item, view: View) -> str:
    busy = item["busiest"]
    return "-" if busy is None else f"{when(instant_of(busy['at']), view.zone, view.now)} ({busy['fires']})"


_COLUMNS = [
    Column("TRIGGER", lambda item, _: item["trigger"]),
    Column("FIRES", lambda item, _: str(item["fires"]), right=True),
    Column("MISFIRED", _counts("misfires")),
    Column("POLICY DID", _counts("decisions"), drop=2),
    Column("OVERLAPS", lambda item, _: str(item["overlaps"]), right=True),
    Column("MAX LATE", lambda item, _: seconds_cell(item["late"]), right=True, drop=1),
    Column("BUSIEST MINUTE", _busiest, drop=3),
]
_LISTING = Listing("RehearsalList", _COLUMNS, name="trigger")


@command("simulate")
@file_options
@click.option("--days", type=click.IntRange(1, 366), default=7, help="How long.  [default: 7]")
@click.option("--from", "start", type=InstantType(), help="When it begins.  [default: now]")
@click.option(
    "--outage",
    multiple=True,
    metavar="02:00-05:00",
    help="No node lives then, on each day in the zone of --tz.",
)
@click.option("--nodes", type=click.IntRange(1, 20), default=1, help="How many nodes.  [default: 1]")
@click.option("--capacity", type=click.IntRange(1, 1000), default=20, help="Of each node.  [default: 20]")
@click.option("--runtime", type=DurationType(), default="1s", help="How long each body takes.  [default: 1s]")
@click.pass_obj
def simulate(
    settings: Settings, /, paths: tuple[Path, ...], file: tuple[Path, ...], allow_unset: bool, **assumed: Any
) -> None:
    """Rehearse declarations: what would fire, misfire, be skipped and overlap, and what each policy would decide.

    The real planner decides, on a clock that jumps from event to event; no job runs: each body takes --runtime and succeeds.
    """
    from ..scheduler.clock import SystemClock
    from ..scheduler.rehearsal import Rehearsal, Stage
    from .bar import Bar

    start = assumed["start"]
    if start is None:
        start = SystemClock().wall() // MINUTE * MINUTE
    end = start + assumed["days"] * DAY
    outages = _outages(settings, assumed["outage"], start, end)
    stage = Stage(start, end, outages, assumed["nodes"], assumed["capacity"], assumed["runtime"])
    declared = read_files((*paths, *file), allow_unset=allow_unset, allow_empty=True)
    tags = {tag for trigger in declared.triggers for tag in trigger.run_on}
    tags |= {tag for job in declared.jobs for tag in job.policies.run_on or ()}
    logging.getLogger("qsched").setLevel(logging.ERROR)  # a misfire here is an answer, not a warning
    bar = Bar(f"{assumed['days']} days, hours", assumed["days"] * 24)
    done = Rehearsal(stage, frozenset(tags)).run(declared, lambda now: bar.at((now - start) // (60 * MINUTE)))
    show(settings, _LISTING, _items(done, [trigger.key for trigger in declared.triggers]), lambda: start)
    _say_whole(settings, stage, done)


def _say_whole(settings: Settings, stage: Stage, done: Rehearsed) -> None:
    fires = sum(each.rows for each in done.sums if each.state != "skipped")
    said = [counted(fires, "fire")]
    if "" in done.busiest:
        at, most = done.busiest[""]
        said.append(f"busiest minute {when(at, settings.zone(), stage.start)} with {counted(most, 'fire')}")
    say(" · ".join(said))


def _items(done: Rehearsed, keys: Iterable[str]) -> Iterator[Item]:
    for key in sorted(keys):
        rows = [each for each in done.sums if each.trigger == key]
        misfires: Counter[str] = Counter()
        decisions: Counter[str] = Counter()
        for row in rows:
            if row.policy is None:
                continue
            misfires[row.cause or "unknown"] += row.slots
            ran = 0 if row.state == "skipped" else row.rows
            decisions["ran"] += ran
            decisions["not run"] += row.slots - ran
        busy = done.busiest.get(key)
        yield {
            "trigger": key,
            "fires": sum(row.rows for row in rows if row.state != "skipped"),
            "misfires": dict(misfires),
            "decisions": {f"{name}": count for name, count in decisions.items() if count},
            "overlaps": sum(row.slots for row in rows if row.cause == "overlap" and row.state == "skipped"),
            "late": max((row.late for row in rows), default=0) / SECOND,
            "busiest": None if busy is None else {"at": rfc3339(busy[0]), "fires": busy[1]},
        }


def _outages(settings: Settings, said: Iterable[str], start: int, end: int) -> list[tuple[int, int]]:
    """Each of them on each day of the zone."""
    zone = settings.zone()
    found = []
    for text in said:
        begin, _, over = text.partition("-")
        try:
            times = [datetime.strptime(part.strip(), "%H:%M").time() for part in (begin, over)]
        except ValueError:
            hint = "write --outage 02:00-05:00: each day from two to five"
            raise CommandError(f"--outage {text!r} is no span of a day", code=USAGE, hint=hint) from None
        if times[0] == times[1]:
            raise CommandError(
                f"--outage {text!r} lasts no time", code=USAGE, hint="give two different times"
            )
        day = from_instant(start).astimezone(zone).date() - timedelta(days=1)
        while to_instant(datetime.combine(day, times[0], zone)) < end:
            last = day if times[1] > times[0] else day + timedelta(days=1)
            span = [to_instant(datetime.combine(*at, zone)) for at in ((day, times[0]), (last, times[1]))]
            if span[1] > start:
                found.append((max(span[0], start), min(span[1], end)))
            day += timedelta(days=1)
    return found
