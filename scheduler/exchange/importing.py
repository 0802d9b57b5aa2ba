"""An import, whole: what an importer read becomes a file of declarations that passes the check, and a fidelity report."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...triggers.declaration import load_text
from ...triggers.declaration_problem import ERROR, DeclarationError
from ...triggers.errors import TriggerError
from ...triggers.instant import rfc3339
from ...triggers.schedule import Schedule
from ...triggers.trigger import TriggerDefinition
from ..errors import SourceError
from .declaration_text import declaration_text
from .formats import importer
from .reading import CHANGED, EXACT, LOST, Item, Options, Reading, Remark
from .report import Entry, Report, Row

SHOWN = 5


class Imported(NamedTuple):
    """The declarations as YAML text, and what became of everything."""

    text: str
    report: Report


def import_from(format_name: str, where: str, options: Options) -> Imported:
    """Import `where` (a file, a folder, whatever the format reads).

    Raises SourceError when the source cannot be read, or holds nothing that becomes a trigger.
    """
    return finish(format_name, where, importer(format_name)(where, options), options)


def finish(format_name: str, where: str, reading: Reading, options: Options) -> Imported:
    """From what was read to the file and its report. An item that our own check refuses is lost, with the reason."""
    kept: list[Item] = []
    entries: list[Entry] = []
    for item in reading.items:
        entry, good = _checked(item, reading.jobs, options)
        entries.append(entry)
        if good:
            kept.append(item)
    if not kept:
        why = next((r for e in entries for r in e.remarks if r.level == LOST), None) or next(
            (r for r in reading.remarks if r.level == LOST), None
        )
        reason = f" ({why.place}: {why.what}: {why.why})" if why else ""
        raise SourceError(f"nothing in {_shown(where)} becomes a trigger{reason}", hint="look at the source")
    named = {item.trigger["job"] for item in kept if "job" in item.trigger}
    document: dict[str, Any] = {"qsched": 1}
    if options.namespace is not None:
        document["namespace"] = options.namespace
    if jobs := {name: job for name, job in reading.jobs.items() if name in named}:
        document["jobs"] = jobs
    document["triggers"] = {item.name: item.trigger for item in kept}
    text = f"# imported from {format_name}: {_shown(where)}\n{declaration_text(document)}"
    load_text(text, now=options.now, file=_shown(where))  # the whole, too, is right
    return Imported(text, Report(format_name, _shown(where), tuple(entries), tuple(reading.remarks)))


def _shown(where: str) -> str:
    """A source's name without the way to it, and a database's without its password."""
    if "://" in where:
        return where.partition("://")[0] + "://…"
    return where.rstrip("/").rpartition("/")[2] or where


def _checked(item: Item, jobs: Mapping[str, Mapping[str, Any]], options: Options) -> tuple[Entry, bool]:
    if item.refusal:
        return _refused(item, item.refusal), False
    alone: dict[str, Any] = {"qsched": 1}
    if (job := item.trigger.get("job")) in jobs:
        alone["jobs"] = {job: jobs[str(job)]}
    alone["triggers"] = {item.name: item.trigger}
    try:
        declared = load_text(declaration_text(alone), now=options.now)
        definition = declared.triggers[0]
        ours = slots(definition, definition.compile(), options.now)
    except DeclarationError as error:
        first = next(problem for problem in error.problems if problem.severity == ERROR)
        return _refused(item, first.message), False
    except TriggerError as error:
        return _refused(item, str(error)), False
    if item.fires is None:
        return Entry(item.name, item.place, tuple(item.remarks), definition.time_zone), True
    theirs = item.fires(options.now, SHOWN)
    rows = tuple(
        Row(theirs[n] if n < len(theirs) else None, ours[n] if n < len(ours) else None)
        for n in range(max(len(theirs), len(ours)))
    )
    remarks = [*item.remarks, *_differences(item, rows)]
    return Entry(item.name, item.place, tuple(remarks), definition.time_zone, item.engine, rows), True


def _refused(item: Item, why: str) -> Entry:
    """Nothing of it is kept, so that nothing of it is exact."""
    rest = [remark for remark in item.remarks if remark.level == LOST]
    return Entry(item.name, item.place, (Remark(LOST, item.place, "the trigger", why), *rest))


def _differences(item: Item, rows: tuple[Row, ...]) -> list[Remark]:
    """A changed line for the first fire that differs, when nothing has said yet that times change."""
    different = [n for n, row in enumerate(rows) if row.source != row.ours]
    if not different:
        return [] if rows else [Remark(EXACT, item.place, "fires", "none is left, there and here")]
    n = different[0]
    was, now = (rfc3339(each) if each is not None else "none" for each in rows[n])
    what = f"fires, {len(different)} of {len(rows)}"
    return [Remark(CHANGED, item.place, what, f"the {_ordinal(n + 1)} was {was} and is {now}")]


def _ordinal(number: int) -> str:
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number, 'th') }"


def slots(definition: TriggerDefinition, schedule: Schedule, now: int, count: int = SHOWN) -> list[int]:
    """Our next slots after `now`, no more than `max_fires` of them."""
    wanted = count if definition.max_fires is None else min(count, definition.max_fires)
    found: list[int] = []
    at = now
    while len(found) < wanted and (slot := schedule.slot_after(at)) is not None:
        found.append(slot)
        at = slot
    return found
