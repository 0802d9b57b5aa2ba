"""`qsched export`: what the store, or a file, declares, as YAML or for other schedulers."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .exits import OK
from .render import say
from .settings import Settings
from .tree import command


@command("export")
@click.option(
    "--to",
    type=click.Choice(("yaml", "crontab", "k8s", "ics")),
    default="yaml",
    help="The format.  [default: yaml]",
)
@click.option(
    "-n", "--namespace", default="default", help="Whose declarations, of the store.  [default: default]"
)
@click.option(
    "-f",
    "--file",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Of these files.",
)
@click.option("--days", type=click.IntRange(1, 366), default=30, help="ics: how many days.  [default: 30]")
@click.pass_obj
def export_command(settings: Settings, /, to: str, namespace: str, file: tuple[Path, ...], days: int) -> int:
    """Write declarations to standard output; what the format cannot say is said to be lost.

    YAML is whole: applying it changes nothing. Code-declared jobs stay in their code.
    """
    from ..scheduler.clock import SystemClock
    from ..scheduler.exchange.exporting import Declared, Span, export
    from ..scheduler.exchange.stored_declared import stored_declared
    from .declared import read_files

    declared: Declared = (
        read_files(file, allow_unset=True) if file else stored_declared(settings.reading(), namespace)
    )
    made = export(to, declared, Span(SystemClock().wall(), days))
    sys.stdout.write(made.text)
    for line in made.lost:
        say(f"lost: {line}")
    return OK
