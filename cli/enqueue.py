"""`qsched enqueue`: have a job run once, now or later, without a trigger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from .data_options import data_of, data_options
from .exits import USAGE, CommandError
from .render import answer, say, show_document
from .settings import Settings
from .times import InstantType
from .tree import command


@command("enqueue")
@click.argument("job")
@data_options
@click.option("--delay", metavar="D", help="Run it so much later: 30s, 1h30m, 7d.")
@click.option("--at", type=InstantType(), help="Run it then; at once where that has passed.")
@click.option("--unique-key", metavar="KEY", help="Nothing new while a firing with this key is held.")
@click.option("--unique-for", metavar="D", help="How long it is held: unfinished, or a duration.")
@click.option("--request-key", metavar="KEY", help="Given again, it starts nothing new.")
@click.option("--priority", type=int, metavar="N", help="Higher first among what is due together.")
@click.pass_obj
def enqueue(settings: Settings, /, job: str, data: str | None, values: Sequence[str], **said: Any) -> None:
    """Have JOB run once on any node; print the id of its firing. JOB is a job's name, or module:function."""
    from ..scheduler.enqueue import enqueue as enqueue_order
    from ..scheduler.enqueue_order import order_of
    from ..triggers.instant import from_instant

    if said["delay"] is not None and said["at"] is not None:
        raise CommandError("--delay and --at exclude each other", code=USAGE, hint="say one of them")
    if said["unique_for"] is not None and said["unique_key"] is None:
        raise CommandError("--unique-for needs --unique-key", code=USAGE, hint="say which key is held")
    options = {name: value for name, value in said.items() if value is not None}
    if "at" in options:
        options["at"] = from_instant(options["at"])
    order = order_of(job, data_of(data, values), options)
    done = enqueue_order(settings.writing(create=True), order)
    if not done.created:
        say(f"firing {done.id} was there already: nothing new is enqueued")
    if settings.output in ("json", "yaml"):
        show_document(settings.output, "FiringList", [{"id": done.id, "job": job, "created": done.created}])
    else:
        answer(str(done.id))
