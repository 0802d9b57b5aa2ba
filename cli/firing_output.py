"""`qsched firings output`: what the newest attempt of a firing wrote, as it wrote it."""

import click

from .exits import NOT_FOUND, CommandError
from .settings import Settings
from .table import Item
from .tree import command


@command("output")
@click.argument("firing", type=int)
@click.pass_obj
def firing_output(settings: Settings, firing: int) -> None:
    """Print what a firing's newest attempt wrote: all of it, or head and tail with how much is missing between."""
    from ..scheduler.store.firing_reports import firing as read_firing

    item = read_firing(settings.reading(), firing)
    if item is None:
        raise CommandError(f"no firing {firing}", code=NOT_FOUND, hint="`qsched firings list` shows all")
    newest = item["attempts"][-1] if item["attempts"] else None
    text = None if newest is None else (newest["output"] or {}).get("text") or _short(newest)
    if not text:
        hint = f"`qsched firings show {firing}` tells what became of it"
        raise CommandError(f"firing {firing} wrote nothing that is kept", code=NOT_FOUND, hint=hint)
    click.echo(text, nl=not text.endswith("\n"))


def _short(attempt: Item) -> str | None:
    """A short output is the note of what succeeded, and stands behind the first line of the error of what did not."""
    if attempt["outcome"] == "succeeded":
        return None if attempt["note"] is None else str(attempt["note"])
    message = str((attempt["error"] or {}).get("message") or "")
    return message.partition("\n")[2] or None
