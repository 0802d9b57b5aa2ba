"""The bodies of the harness's jobs: each says when it began, what it was told, and how it ended."""

import asyncio
import ctypes
import os
import threading
import zlib
from typing import Any

from qsched.scheduler.errors import JobCancelled
from qsched.triggers.instant import to_instant

from fault.history import append
from qsched import JobContext, job

BODIES = "FAULT_BODIES"
"""Names the file that the bodies of one process append to."""

BEAT = 0.1
"""Seconds between two signs of life of a body that gives any."""


class Unlucky(Exception):
    """What a body raises that was to fail."""


class _Body:
    """The lines of one run."""

    def __init__(self, ctx: JobContext) -> None:
        self.path = os.environ[BODIES]
        self.ctx = ctx
        self.who = {
            "firing": ctx.firing_id,
            "fence": ctx.fence_token,
            "attempt": ctx.attempt,
            "pid": os.getpid(),
        }
        append(
            self.path,
            "begin",
            **self.who,
            recovering=ctx.recovering,
            key=ctx.idempotency_key,
            trigger=ctx.trigger,
            job=ctx.job,
            slot=to_instant(ctx.scheduled_at),
            node=ctx.node,
        )

    def beat(self, seconds: float) -> None:
        """Run on, told or not, and say so."""
        for _ in range(round(seconds / BEAT)):
            append(self.path, "beat", **self.who)
            threading.Event().wait(BEAT)

    def ended(self, how: str) -> None:
        append(self.path, "end", **self.who, how=how, told=self.ctx.cancel_reason)


@job
def work(
    ctx: JobContext,
    seconds: float = 0.0,
    deaf: bool = False,
    fail: float = 0.0,
    exits: bool = False,
    beats: bool = False,
    token: str = "",
) -> None:
    """Last so long; a `deaf` one does not hear that it should stop, a failing one fails by chance, a rude one exits.

    One that `beats` says now and then that it still runs: whoever is killed cannot say that it ended.
    """
    del token  # a secret: only the node's environment has its value
    body = _Body(ctx)
    try:
        if beats:
            body.beat(seconds)
        elif deaf:
            threading.Event().wait(seconds)
        elif seconds:
            ctx.sleep(seconds)
    except JobCancelled:
        body.ended("told")
        raise
    _end(body, fail=fail, exits=exits)


@job
async def work_async(ctx: JobContext, seconds: float = 0.0, fail: float = 0.0) -> None:
    """The same on the node's loop."""
    body = _Body(ctx)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        body.ended("told")
        raise
    _end(body, fail=fail, exits=False)


@job
def count(ctx: JobContext, seconds: float = 0.0, fail: float = 0.0) -> None:
    """Count this run in what the job keeps, and say who did; one that fails counts as well."""
    body = _Body(ctx)
    try:
        ctx.sleep(seconds)
    except JobCancelled:
        body.ended("told")
        raise
    ctx.saved["runs"] = ctx.saved.get("runs", 0) + 1
    ctx.saved["by"] = [ctx.firing_id, ctx.fence_token]
    _end(body, fail=fail, exits=False)


@job
def hog(ctx: JobContext, seconds: float = 3.0) -> None:
    """Hold the interpreter's lock all the time, as a C extension does that never gives it back."""
    body = _Body(ctx)
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    body.ended("ok")


@job
def spin(ctx: JobContext, seconds: float = 10.0) -> None:
    """Pure Python that never rests."""
    body = _Body(ctx)
    over = threading.Timer(seconds, lambda: None)
    over.daemon = True
    over.start()
    number: Any = 0
    while over.is_alive() and not ctx.cancelled:
        number = (number * 31 + 7) % 1_000_003
    body.ended("told" if ctx.cancelled else "ok")


def unlucky(key: str, attempt: int, share: float) -> bool:
    """Whether this attempt fails: chance, and the same for whoever asks."""
    return zlib.crc32(f"{key}#{attempt}".encode()) % 1000 < share * 1000


def _end(body: _Body, *, fail: float, exits: bool) -> None:
    if exits:
        body.ended("exit")
        raise SystemExit(3)
    if fail and unlucky(body.ctx.idempotency_key, body.ctx.attempt, fail):
        body.ended("raised")
        raise Unlucky("by chance")
    body.ended("ok")
