"""`qsched check` and `qsched schema`: what can be said of declarations without a store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .declared import counted, file_options, read_files
from .exits import FAILED, INVALID_FILE, OK, CommandError
from .render import answer, say
from .tree import command

if TYPE_CHECKING:
    from ..scheduler.registry import JobRegistry
    from ..triggers.declaration import Declarations


@command("check")
@file_options
@click.option(
    "--app", multiple=True, metavar="MODULE", help="Import these and check data against job arguments."
)
@click.option("--allow-empty", is_flag=True, help="Files without triggers are all right.")
def check(
    paths: tuple[Path, ...],
    file: tuple[Path, ...],
    app: tuple[str, ...],
    allow_unset: bool,
    allow_empty: bool,
) -> int:
    """Check declaration files, all errors at once. Needs no store; with --app, imports the jobs' code.

    Exits 0 when all is well, 3 when something is wrong.
    """
    registry = registry_of(app) if app else None
    known = {job.name for job in registry.jobs()} if registry else set()
    declared = read_files((*paths, *file), known_jobs=known, allow_unset=allow_unset, allow_empty=allow_empty)
    if app:
        problems = _arguments(declared, app)
        for problem in problems:
            say(f"error: {problem}")
        if problems:
            return INVALID_FILE
    jobs, triggers = counted(len(declared.jobs), "job"), counted(len(declared.triggers), "trigger")
    answer(f"{counted(len(declared.files), 'file')}: {jobs} and {triggers} are right")
    return OK


@command("schema")
def schema() -> None:
    """Print the JSON Schema of declaration files: for editors, as in `qsched schema > qsched.schema.json`."""
    import json

    from ..triggers.declaration import schema as json_schema

    answer(json.dumps(json_schema(), indent=2))


def registry_of(apps: tuple[str, ...]) -> JobRegistry:
    """The jobs of the given modules, imported as `python -m` would find them: from the current folder too."""
    from ..scheduler.errors import AppError
    from ..scheduler.registry import JobRegistry

    see_current_folder()
    try:
        return JobRegistry(apps)
    except AppError as error:
        raise CommandError(str(error), code=FAILED, hint="correct it, or leave the module out") from error


def see_current_folder() -> None:
    """Let --app find modules beside the declarations; a console script has its own folder there instead."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def _arguments(declared: Declarations, apps: tuple[str, ...]) -> list[str]:
    """What is wrong between the data of each trigger and the arguments of its job."""
    from ..scheduler.errors import JobUnloadable
    from ..scheduler.loaded_job import check_arguments
    from ..scheduler.registry import JobRegistry
    from ..triggers.job import JobDefinition

    registry = JobRegistry(apps, declared.jobs)
    registry.around()  # as a node does: a scope of one module gives arguments to the jobs of all
    by_name = {job.name: job for job in declared.jobs}
    problems = []
    for trigger in declared.triggers:
        job = by_name.get(trigger.job) or JobDefinition(trigger.job, "python", trigger.job)
        try:
            found = check_arguments(registry.resolve(job), trigger.data)
        except JobUnloadable as error:
            found = [str(error)]
        problems += [f"trigger {trigger.key!r}: {problem}" for problem in found]
    return problems
