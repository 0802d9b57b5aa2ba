"""Jobs of the tests' nodes: each appends what it did to a ledger outside of qsched's tables."""

import asyncio
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from qsched.scheduler.clock import SystemClock
from qsched.triggers.instant import to_instant

from qsched import JobContext, job

_clock = SystemClock()


def append(path: str, **entry: Any) -> None:
    """Add one line, whole or not at all: a single write to a file opened for appending."""
    line = json.dumps(entry) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def said(ctx: JobContext) -> dict[str, Any]:
    """What identifies a run."""
    return {
        "trigger": ctx.trigger,
        "slot": to_instant(ctx.scheduled_at),
        "firing": ctx.firing_id,
        "fence": ctx.fence_token,
        "node": ctx.node,
        "attempt": ctx.attempt,
        "pid": os.getpid(),
    }


@job
def note(ctx: JobContext, ledger: str) -> None:
    """Say that it ran, and when it began."""
    began = _clock.wall()
    append(ledger, what="ran", began=began, ended=_clock.wall(), **said(ctx))


@job
def stumble(ctx: JobContext, ledger: str) -> None:
    """Say that it began, and fail."""
    append(ledger, what="began", at=_clock.wall(), **said(ctx))
    raise ValueError("boom")


@job
def linger(ctx: JobContext, ledger: str, seconds: float, deaf: bool = False) -> None:
    """Say that it began, last a while, say that it ended; a `deaf` one does not hear that it is told to stop."""
    append(ledger, what="began", at=_clock.wall(), **said(ctx))
    if deaf:
        threading.Event().wait(seconds)
    else:
        ctx.sleep(seconds)
    append(ledger, what="ended", at=_clock.wall(), **said(ctx))


@job
async def linger_on_loop(ctx: JobContext, ledger: str, seconds: float) -> None:
    """`linger` as an async job."""
    append(ledger, what="began", at=_clock.wall(), **said(ctx))
    await asyncio.sleep(seconds)
    append(ledger, what="ended", at=_clock.wall(), **said(ctx))


@job
def leave_a_thread(ctx: JobContext, ledger: str) -> None:
    """End at once, and leave a pool behind whose thread does not end: Python joins those before it ends."""
    ThreadPoolExecutor(1).submit(threading.Event().wait)
    append(ledger, what="began", at=_clock.wall(), **said(ctx))
