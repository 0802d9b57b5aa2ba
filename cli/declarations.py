"""`qsched apply`: from declaration files to the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .bills import rescheduled
from .declared import counted, file_options, read_files
from .render import answer, say, show_document
from .settings import Settings, whoami
from .tree import command

if TYPE_CHECKING:
    from ..scheduler.apply import Applied
    from ..scheduler.store.database import Store
    from ..triggers.declaration import Declarations

_MOST: Final = 20
"""So many edited schedules are said one by one."""

_prune = click.option(
    "--prune",
    type=click.Choice(["retire", "delete", "keep"]),
    default="retire",
    help="What becomes of triggers that left the files.  [default: retire]",
)
_app = click.option(
    "--app", multiple=True, metavar="MODULE", help="Triggers may name @job functions of these."
)
_empty = click.option("--allow-empty", is_flag=True, help="Files without triggers are all right.")


def takes_declarations(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of commands that lay declaration files against a store."""
    for decorate in (_empty, _app, _prune, file_options):
        function = decorate(function)
    return function


@command("apply")
@takes_declarations
@click.option("--allow-mass-prune", is_flag=True, help="More than half of the namespace may go.")
@click.pass_obj
def apply(
    settings: Settings,
    /,
    paths: tuple[Path, ...],
    file: tuple[Path, ...],
    prune: str,
    allow_mass_prune: bool,
    **how: Any,
) -> None:
    """Make the store say what the files say: one transaction; what is so already is not written.

    Nothing fires because of it: an edited schedule counts from now. An empty database gets its tables first.
    """
    from ..scheduler.apply import apply as apply_to

    declared = read_files(
        (*paths, *file), known_jobs=known_jobs(settings, how["app"]), **reading_options(how)
    )
    if prune == "delete":
        settings.confirm(f"Triggers of {declared.namespace} that left the files are deleted. Go on?")
    store = settings.writing(create=True)
    _say_rescheduled(settings, store, declared, prune)
    applied = apply_to(store, declared, prune=prune, who=whoami(), allow_mass_prune=allow_mass_prune)
    for warning in applied.warnings:
        say(f"warning: {warning}")
    _show_applied(settings, applied)


def _say_rescheduled(settings: Settings, store: Store, declared: Declarations, prune: str) -> None:
    """The bill of edited schedules, before it is paid."""
    from ..scheduler.plan import plan as plan_for
    from ..scheduler.store.reports import database_now

    lines = rescheduled(plan_for(store, declared, prune=prune), settings, database_now(store))
    for line in lines[:_MOST]:
        say(line)
    if len(lines) > _MOST:
        say(f"… and {counted(len(lines) - _MOST, 'trigger')} more, as `qsched plan` shows")


def reading_options(how: dict[str, Any]) -> dict[str, bool]:
    """What `read_files` is told of a command's options."""
    return {"allow_unset": how["allow_unset"], "allow_empty": how["allow_empty"]}


def known_jobs(settings: Settings, apps: tuple[str, ...]) -> set[str]:
    """The names of jobs that files may refer to: the store's, where there is one, and those of the modules given."""
    from ..scheduler.errors import StoreMissing
    from ..scheduler.store.reports import job_names

    known: set[str] = set()
    try:
        store = settings.reading()
        known |= job_names(store)
        store.close()
    except StoreMissing:
        pass  # an empty store knows none, and reading does not make one
    if apps:
        from .check import registry_of

        known |= {job.name for job in registry_of(apps).jobs()}
    return known


_KINDS = ("added", "changed", "renamed", "revived", "retired", "kept")


def _show_applied(settings: Settings, applied: Applied) -> None:
    changes = {kind: list(getattr(applied, kind)) for kind in _KINDS}
    if settings.output in ("json", "yaml"):
        item = {
            "namespace": applied.namespace,
            "status": applied.status,
            "revision": applied.revision,
            **changes,
            "unchanged": applied.unchanged,
            "jobs": list(applied.jobs),
            "closed": applied.closed,
            "cancelled": applied.cancelled,
        }
        show_document(settings.output, "Applied", [item])
        return
    if settings.output == "name":
        for kind in _KINDS[:-1]:
            for key in changes[kind]:
                answer(key)
        return
    counts = [f"{len(keys)} {kind}" for kind, keys in changes.items() if keys]
    counts.append(f"{applied.unchanged} unchanged")
    head = "already applied" if applied.status == "up_to_date" else f"applied revision {applied.revision}"
    answer(f"{applied.namespace}: {head}: {', '.join(counts)}")
    if applied.closed:
        say(f"{counted(applied.closed, 'slot')} of old definitions recorded as skipped")
    if applied.cancelled:
        say(f"{counted(applied.cancelled, 'waiting firing')} of retired triggers cancelled")
