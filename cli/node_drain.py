"""`qsched nodes drain`: a node is asked to take nothing more and to end, from anywhere that reaches the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .declared import counted
from .exits import FAILED, HANDED_OVER, OK, CommandError
from .render import answer, say, show_document
from .settings import Settings, whoami
from .times import DurationType, span
from .tree import command

if TYPE_CHECKING:
    from ..scheduler.drain_request import DrainProgress
    from ..scheduler.store.database import Store

_LOOK = 0.2


@command("drain")
@click.argument("name")
@click.option("--wait", is_flag=True, help="Return when it has ended: 0, or 8 when something was broken off.")
@click.option(
    "--timeout", type=DurationType(), help="Wait so long at most; the drain goes on all the same (exit 1)."
)
@click.pass_obj
def drain_node(settings: Settings, name: str, wait: bool, timeout: int | None) -> int:
    """Ask a live node to take nothing more, let what runs end, and leave: as SIGTERM does, from anywhere.

    It hears of it at its next check-in, waits for its own --drain-timeout and then breaks off what still runs. A
    node inside an application stops taking, and stays stopped until the application starts it again.
    """
    from ..scheduler.drain_request import request_drain

    store = settings.writing()
    progress = request_drain(store, name, who=whoami())
    if progress.asked_before:
        say(f"{name} is draining already")
    if wait or timeout is not None:
        progress = _watched(store, progress, timeout)
    _done(settings, progress)
    return HANDED_OVER if progress.handed_over else OK


def _watched(store: Store, progress: DrainProgress, timeout: int | None) -> DrainProgress:
    """Look until it has stopped; what changes is said."""
    import threading

    from ..scheduler.clock import SystemClock
    from ..scheduler.drain_request import drain_progress

    clock, never = SystemClock(), threading.Event()
    until = None if timeout is None else clock.monotonic() + timeout / 1_000_000
    said: tuple[str, int] | None = None
    while progress.state != "stopped":
        if progress.state not in ("up", "draining"):
            raise _gone(progress)
        if (progress.state, progress.running) != said:
            said = (progress.state, progress.running)
            heard = "has not heard yet" if progress.state == "up" else "draining"
            say(f"{progress.name}: {heard}, {progress.running} running")
        if until is not None and clock.monotonic() >= until:
            running = (
                f"after {span(timeout)} {progress.name} runs {counted(progress.running, 'firing')} still"
            )
            raise CommandError(
                running, code=FAILED, hint="the drain goes on: ask again with a longer --timeout"
            )
        clock.wait(never, _LOOK)
        seen = drain_progress(store, progress.incarnation)
        if seen is None:
            raise CommandError(f"the row of node {progress.name!r} is gone", code=FAILED)
        progress = seen
    return progress


def _gone(progress: DrainProgress) -> CommandError:
    if progress.state == "silent":
        hint = "what it ran is the others' to take over; see that its process has ended"
        return CommandError(f"node {progress.name!r} fell silent while it drained", code=FAILED, hint=hint)
    hint = "`qsched firings list` shows what became of what it ran"
    return CommandError(f"node {progress.name!r} was declared dead while it drained", code=FAILED, hint=hint)


def _done(settings: Settings, progress: DrainProgress) -> None:
    state = "draining" if progress.state == "up" else progress.state
    if settings.output in ("json", "yaml"):
        item = {
            "name": progress.name,
            "incarnation": progress.incarnation,
            "state": state,
            "running": progress.running,
            "handed_over": progress.handed_over,
        }
        show_document(settings.output, "DrainList", [item])
    elif settings.output == "name":
        answer(progress.name)
    else:
        broken_off = f", {progress.handed_over} handed over or cancelled" if progress.handed_over else ""
        answer(f"{progress.name} {state}{broken_off}")
