"""`qsched import`: another scheduler's triggers as a file of declarations, and a report of what became of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..scheduler.exchange.formats import FORMATS
from .exits import FAILED, OK, REFUSED, USAGE, CommandError
from .render import answer, say, show_document
from .settings import Settings
from .tree import command

if TYPE_CHECKING:
    from ..scheduler.exchange.importing import Imported
    from ..scheduler.exchange.report import Report


@command("import")
@click.argument("format_name", metavar="FORMAT", type=click.Choice(tuple(FORMATS)))
@click.argument("source")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the declarations here.")
@click.option(
    "--report",
    metavar="FILE",
    default=None,
    help="Write the report here; - is standard output.  [default: standard error]",
)
@click.option("--namespace", help="The namespace that the file declares.")
@click.option(
    "--time-zone", metavar="ZONE", help="The zone of the source's host, where the source does not say it."
)
@click.option(
    "--map",
    "mapped",
    multiple=True,
    metavar="CLASS=MODULE:FUNCTION",
    help="The function that stands for a Quartz job class; may be repeated.",
)
@click.option("--strict", is_flag=True, help="Write no declarations, and exit 7, when something is lost.")
@click.pass_obj
def import_command(
    settings: Settings,
    /,
    format_name: str,
    source: str,
    out: Path | None,
    strict: bool,
    **told: Any,
) -> int:
    """Read SOURCE (a file, a folder, or - for standard input) as qsched.yaml, with a report of what became of it.

    The report marks each thing exact, changed or lost, and shows the next five fires as the source and as qsched names
    them. `-o json` is the report as a document.
    """
    made, report = _imported(format_name, source, told), told["report"]
    if out is not None and out.exists():
        settings.confirm(f"{out} exists; replace it?")
    lost = made.report.count("lost")
    if strict and lost:
        _tell(made.report, report, settings)
        raise CommandError(
            f"{lost} of what {source} says would be lost",
            code=REFUSED,
            hint="leave out --strict to accept that",
        )
    structured = settings.output in ("json", "yaml")
    if out is not None:
        _write(out, made.text)
    elif not structured and report != "-":
        answer(made.text.rstrip("\n"))
    _tell(made.report, report, settings)
    return OK


def _imported(format_name: str, source: str, told: dict[str, Any]) -> Imported:
    from ..scheduler.clock import SystemClock
    from ..scheduler.exchange.importing import import_from
    from ..scheduler.exchange.reading import Options
    from ..triggers.zone import find_zone

    if (zone := told["time_zone"]) is not None:
        find_zone(zone)  # a mistyped zone is said before the source is read
    mapped: tuple[str, ...] = told["mapped"]
    if bad := [each for each in mapped if "=" not in each or ":" not in each.partition("=")[2]]:
        raise CommandError(
            f"--map {bad[0]}: no CLASS=MODULE:FUNCTION",
            code=USAGE,
            hint="write --map com.acme.Report=reports:run",
        )
    said = {"map": ",".join(mapped)} if mapped else {}
    return import_from(format_name, source, Options(SystemClock().wall(), zone, told["namespace"], said))


def _tell(made: Report, where: str | None, settings: Settings) -> None:
    """The report: as a document on standard output, in a file, or as talk."""
    if settings.output in ("json", "yaml"):
        show_document(settings.output, "ImportReport", made.items())
        say(made.summary())
    elif where == "-":
        answer(made.text().rstrip("\n"))
    elif where is not None:
        _write(Path(where), made.text())
        say(made.summary())
    else:
        say(made.text().rstrip("\n"))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(
            f"{path} cannot be written: {error.strerror or error}", code=FAILED, hint="name another file"
        ) from error
