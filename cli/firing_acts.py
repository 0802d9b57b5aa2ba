"""`qsched firings cancel|retry`: end a firing, or run one that has ended once more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from .data_options import data_of, data_options
from .render import answer, show_document
from .settings import Settings, whoami
from .tree import command

_ids = click.argument("firings", nargs=-1, required=True, type=int, metavar="FIRING...")


@command("cancel")
@_ids
@click.option("--reason", metavar="TEXT", help="Why, for the record.")
@click.pass_obj
def cancel(settings: Settings, firings: Sequence[int], reason: str | None) -> None:
    """Cancel firings: what waits ends at once; what runs is told to stop, wherever that is, within a check-in."""
    from ..scheduler.firing_acts import ASKED
    from ..scheduler.firing_acts import cancel as cancel_firings

    done = cancel_firings(settings.writing(), firings, who=whoami(), reason=reason)
    if settings.output in ("json", "yaml"):
        items = [{"id": firing, "done": what} for firing, what in done.items()]
        show_document(settings.output, "FiringList", items)
        return
    for firing, what in done.items():
        said = "is asked to stop" if what == ASKED else what
        answer(str(firing) if settings.output == "name" else f"{firing} {said}")


@command("retry")
@_ids
@data_options
@click.option("--request-key", metavar="KEY", help="Given again, it starts nothing new; for one FIRING.")
@click.option("--force", is_flag=True, help="Although it succeeded.")
@click.pass_obj
def retry(
    settings: Settings, /, firings: Sequence[int], data: str | None, values: Sequence[str], **said: Any
) -> None:
    """Run failed, lost or cancelled firings once more, as new firings with the old ones' data; all or none. Prints their ids."""
    from ..scheduler.firing_acts import retry_all

    if said["request_key"] is not None and len(firings) > 1:
        raise click.UsageError("--request-key is for one FIRING")
    over = data_of(data, values)
    made = retry_all(settings.writing(), firings, data=over, who=whoami(), **said)
    if settings.output in ("json", "yaml"):
        items = [{"id": new, "of_firing": old} for old, new in made.items()]
        show_document(settings.output, "FiringList", items)
        return
    for firing in made.values():
        answer(str(firing))
