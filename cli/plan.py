"""`qsched plan`: what apply would change, and what would fire because of it; reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..triggers.instant import rfc3339
from .bills import moved
from .declarations import known_jobs, reading_options, takes_declarations
from .declared import counted, read_files
from .exits import CHANGES, OK
from .render import answer, say, show_document
from .settings import Settings
from .tree import command

if TYPE_CHECKING:
    from ..scheduler.plan import Plan
    from ..scheduler.store.database import Store

_SIGNS = {"add": "+", "revive": "+", "change": "~", "rename": "~", "retire": "-"}


@command("plan")
@takes_declarations
@click.option("--detailed-exitcode", is_flag=True, help="Exit 10 when there is something to apply.")
@click.pass_obj
def plan(
    settings: Settings,
    /,
    paths: tuple[Path, ...],
    file: tuple[Path, ...],
    prune: str,
    detailed_exitcode: bool,
    **how: Any,
) -> int:
    """Show what apply would change, and what would fire because of it. Needs no store: without one all is new."""
    from ..scheduler.clock import SystemClock
    from ..scheduler.plan import plan as plan_for

    declared = read_files(
        (*paths, *file), known_jobs=known_jobs(settings, how["app"]), **reading_options(how)
    )
    made = plan_for(_store(settings), declared, prune=prune)
    for warning in made.warnings:
        say(f"warning: {warning}")
    if made.refusal:
        say(f"apply would refuse: {made.refusal}")
    if settings.output in ("json", "yaml"):
        show_document(settings.output, "Plan", [_document(made)])
    elif settings.output == "name":
        for item in made.items:
            if item.what == "trigger":
                answer(item.key)
    else:
        for line in _lines(made, settings, SystemClock().wall()):
            answer(line)
    return CHANGES if detailed_exitcode and made.has_changes else OK


def _store(settings: Settings) -> Store | None:
    from ..scheduler.errors import StoreMissing

    try:
        return settings.reading()
    except StoreMissing:
        return None


def _lines(made: Plan, settings: Settings, now: int) -> Iterator[str]:
    for item in made.items:
        what = "" if item.what == "trigger" else f"{item.what} "
        yield f"{_SIGNS.get(item.action, '?')} {what}{item.key}{moved(item, settings, now)}"
        if item.action != "add":
            for difference in item.differences:
                yield f"    {difference.field}: {difference.before or '-'} → {difference.after or '-'}"
        for note in item.notes:
            yield f"    {note}"
    for key, how in made.drift:
        yield f"! {key}: {how}"
    for key in made.kept:
        yield f"= {key} left the files and is kept"
    yield f"{made.namespace}: {_counts(made)} · {made.consequence}"


def _counts(made: Plan) -> str:
    """Of triggers, as apply counts them; jobs and defaults are named beside them where they change."""
    signs = Counter(_SIGNS.get(item.action) for item in made.items if item.what == "trigger")
    words = f"{signs['+']} to add, {signs['~']} to change, {signs['-']} to retire, {made.unchanged} unchanged"
    jobs = sum(item.what == "job" for item in made.items)
    beside = [counted(jobs, "job")] if jobs else []
    beside += ["the defaults"] if any(item.what == "cluster" for item in made.items) else []
    return f"{words} (and {', '.join(beside)})" if beside else words


def _document(made: Plan) -> dict[str, Any]:
    return {
        "namespace": made.namespace,
        "revision": made.revision,
        "changes": [
            {
                "action": item.action,
                "what": item.what,
                "key": item.key,
                "differences": [
                    {"field": each.field, "before": each.before, "after": each.after}
                    for each in item.differences
                ],
                "next_before": None if item.next_before is None else rfc3339(item.next_before),
                "next_after": None if item.next_after is None else rfc3339(item.next_after),
                "notes": list(item.notes),
            }
            for item in made.items
        ],
        "unchanged": made.unchanged,
        "kept": list(made.kept),
        "drift": [{"key": key, "how": how} for key, how in made.drift],
        "refusal": made.refusal,
        "older": made.older,
        "consequence": made.consequence,
    }
