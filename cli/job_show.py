"""`qsched jobs show`: one job, what it runs and under which policies, and what became of its firings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from .details import show_details
from .exits import NOT_FOUND, CommandError
from .jobs import target
from .render import show_document
from .rows import ago_cell, seconds_cell, when_cell
from .settings import Settings
from .table import Item, View, state_cell
from .tree import command

if TYPE_CHECKING:
    from ..scheduler.store.database import Store

_FEW = 5


@command("show")
@click.argument("job")
@click.pass_obj
def show_job(settings: Settings, job: str) -> None:
    """Show one job: what it runs, its triggers, what runs now, last success and failure, failures in a row."""
    from ..scheduler.store.job_reports import job_shown
    from ..scheduler.store.reports import database_now

    zone = settings.zone()
    store = settings.reading()
    item = job_shown(store, job)
    if item is None:
        raise _unknown_job(store, job)
    if settings.output in ("json", "yaml"):
        show_document(settings.output, "JobList", [item])
        return
    show_details(_facts(item, View(zone, database_now(store))))


def _unknown_job(store: Store, name: str) -> CommandError:
    from difflib import get_close_matches

    from ..scheduler.store.reports import job_names

    near = get_close_matches(name, job_names(store), 1)
    hint = f"did you mean {near[0]!r}?" if near else "`qsched jobs list` shows all"
    return CommandError(f"no job {name!r}", code=NOT_FOUND, hint=hint)


def _facts(item: Item, view: View) -> list[tuple[str, Any]]:
    recovery = f"yes, up to {item['max_recoveries']}" if item["request_recovery"] else "no"
    return [
        ("Job", f"{item['name']}  {state_cell('error' if item['error'] else item['state'])}"),
        ("Reason", item["error"]),
        ("Runs", f"{item['kind'] or '-'}: {target(item)}"),
        ("Owner", f"namespace {item['namespace']}"),
        ("Overlap", item["overlap"]),
        ("Recovery", recovery),
        ("Timeout", seconds_cell(item["timeout"])),
        ("Triggers", _some(item["trigger_names"], item["triggers"])),
        ("Running", _some([_running(each, view) for each in item["running_firings"]], item["running"])),
        ("Last success", _at(item["last_success_at"], view) or "none known"),
        ("Last failure", _at(item["last_failure_at"], view) or "none known"),
        ("Failures in a row", str(item["consecutive_failures"])),
        ("Succeeded", _attempts(item["success_by_attempt"])),
        ("Keeps", json.dumps(item["saved"], ensure_ascii=False) if item["saved"] else None),
    ]


def _some(texts: list[str], count: int) -> str:
    more = count - min(len(texts), _FEW)
    return ", ".join(texts[:_FEW]) + (f" and {more} more" if more > 0 else "") if texts else "none"


def _running(each: Item, view: View) -> str:
    return f"firing {each['id']} on {each['node'] or '-'}, begun {ago_cell(each['started_at'], view)}"


def _at(text: str | None, view: View) -> str | None:
    return None if text is None else f"{when_cell(text, view)}, {ago_cell(text, view)}"


def _attempts(counts: dict[str, int]) -> str | None:
    """`97 of 100 at the first attempt, then 2, 1`: what retries are worth."""
    if not counts:
        return None
    total, later = sum(counts.values()), [(int(n), count) for n, count in counts.items() if n != "0"]
    first = f"{counts.get('0', 0)} of {total} at the first attempt"
    return first + "".join(f", {count} at retry {n}" for n, count in sorted(later))
