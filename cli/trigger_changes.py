"""`qsched triggers pause|resume|fire|reset|delete`: what people do to triggers, with its price said first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from .bills import pause_end, tell_bills, tell_start, told
from .data_options import data_of, data_options
from .render import answer, say, show_document
from .settings import Settings, whoami
from .times import SinceType
from .tree import command

_keys = click.argument("triggers", nargs=-1, required=True, metavar="TRIGGER...")


@command("pause")
@_keys
@click.option("--reason", metavar="TEXT", help="Why, for whoever finds it paused.")
@click.option("--until", type=SinceType(), help="When the pause ends by itself: in 2h, or an instant.")
@click.pass_obj
def pause(
    settings: Settings, triggers: Sequence[str], reason: str | None, until: tuple[str, int] | None
) -> None:
    """Pause triggers. When this returns, nothing of them starts; slots that pass are recorded as skipped."""
    from ..scheduler.control import pause as pause_triggers

    store = settings.writing()
    end = pause_end(settings, store, until)
    pause_triggers(store, triggers, reason=reason, who=whoami(), until=end)
    _done(settings, "paused", triggers)


@command("resume")
@_keys
@click.option(
    "--catch-up", is_flag=True, help="Leave the slots that passed to each trigger's misfire policy."
)
@click.pass_obj
def resume(settings: Settings, triggers: Sequence[str], catch_up: bool) -> None:
    """Let paused triggers go on from now. Slots that passed are shown first, recorded as skipped, and do not run.

    With --catch-up they are decided by the misfire policy, after being agreed to.
    """
    from ..scheduler.control import bills
    from ..scheduler.control import resume as resume_triggers

    store = settings.writing()
    tell_bills(settings, bills(store, triggers), catch_up=catch_up)
    resume_triggers(store, triggers, who=whoami(), catch_up=catch_up)
    _done(settings, "resumed", triggers)


@command("fire")
@click.argument("trigger")
@data_options
@click.option("--request-key", metavar="KEY", help="Given again, it starts nothing new.")
@click.option("--force", is_flag=True, help="Although it is paused, in error or retired.")
@click.pass_obj
def fire(settings: Settings, /, trigger: str, data: str | None, values: Sequence[str], **asked: Any) -> None:
    """Start a trigger's job now, beside its schedule, which stays as it is. Prints the firing's id.

    Says first what the start has to wait for, if it has to. Data that are given here go over the trigger's own.
    """
    from ..scheduler.control import fire as fire_trigger
    from ..scheduler.errors import Refused

    said = data_of(data, values)
    store = settings.writing()
    tell_start(settings, store, trigger, force=asked["force"] or settings.yes)
    options: dict[str, Any] = {"data": said, "who": whoami(), "request_key": asked["request_key"]}
    try:
        firing = fire_trigger(store, trigger, force=asked["force"], **options)
    except Refused as refused:
        if not (settings.yes or can_ask()):
            raise
        settings.confirm(f"{refused}. Fire it all the same?")
        firing = fire_trigger(store, trigger, force=True, **options)
    if settings.output in ("json", "yaml"):
        show_document(settings.output, "FiringList", [{"id": firing, "trigger": trigger}])
    else:
        answer(str(firing))


def can_ask() -> bool:
    """Whether somebody is there to answer."""
    import sys

    return bool(sys.stdin) and sys.stdin.isatty()


@command("reset")
@_keys
@click.pass_obj
def reset(settings: Settings, triggers: Sequence[str]) -> None:
    """Clear the error of triggers and start their schedules anew from now; what passed is recorded as skipped."""
    from ..scheduler.control import reset as reset_triggers

    for bill in reset_triggers(settings.writing(), triggers, who=whoami()):
        if bill.slots:
            say(f"{told(settings, bill)}: skipped")
    _done(settings, "reset", triggers)


@command("delete")
@_keys
@click.pass_obj
def delete(settings: Settings, triggers: Sequence[str]) -> None:
    """Retire triggers: they fire no more, what waits of them is cancelled, what runs ends; their history is kept."""
    from ..scheduler.control import bills
    from ..scheduler.control import delete as delete_triggers

    store = settings.writing()
    bills(store, triggers)  # an unknown key is said before the question
    settings.confirm(f"Delete {_named(triggers)}? An apply of a file that declares it brings it back.")
    delete_triggers(store, triggers, who=whoami())
    _done(settings, "deleted", triggers)


def _done(settings: Settings, verb: str, triggers: Sequence[str]) -> None:
    if settings.output in ("json", "yaml"):
        show_document(settings.output, "TriggerList", [{"name": key, "done": verb} for key in triggers])
        return
    for key in triggers:
        answer(key if settings.output == "name" else f"{key} {verb}")


def _named(triggers: Sequence[str]) -> str:
    return triggers[0] if len(triggers) == 1 else f"{len(triggers)} triggers ({', '.join(triggers[:5])}, …)"
