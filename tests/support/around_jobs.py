"""An app with everything that can be around a body; each says in a ledger, named by a variable, when it is passed."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from qsched import JobContext, job, middleware, on_shutdown, on_startup, scope

from .ledger_jobs import append

LEDGER = "AROUND_LEDGER"
FAILING = "AROUND_FAILING"


def note(what: str, **entry: Any) -> None:
    """Say it in the ledger, from whatever process."""
    if path := os.environ.get(LEDGER):
        append(path, what=what, pid=os.getpid(), thread=threading.current_thread().name, **entry)


@on_startup
def warm_up() -> None:
    note("warm_up")
    if os.environ.get(FAILING) == "startup":
        raise ValueError("the cache\nis cold")


@on_startup
async def warm_loop() -> None:
    await asyncio.sleep(0.01)
    note("warm_loop")


@on_startup(order=-1)
def first() -> None:
    note("first")


@on_shutdown
def clean_up() -> None:
    note("clean_up")


@on_shutdown
async def clean_loop() -> None:
    await asyncio.sleep(0.01)
    note("clean_loop")
    raise SystemExit("a hook that fails")


@on_shutdown(order=1)
def linger() -> None:
    note("linger")
    if os.environ.get(FAILING) == "shutdown":
        threading.Event().wait(60)


@middleware
def outer(ctx: JobContext, call_next: Callable[[], Any]) -> Any:
    note("outer", job=ctx.job)
    return call_next()


@middleware
async def outer_async(ctx: JobContext, call_next: Callable[[], Any]) -> Any:
    note("outer_async", job=ctx.job)
    return await call_next()


@scope
def numbered(ctx: JobContext) -> Iterator[dict[str, int]]:
    """A value of this run, and its end."""
    note("opened", firing=ctx.firing_id)
    try:
        yield {"number": ctx.firing_id}
    except BaseException as error:
        note("thrown", error=type(error).__name__)
        raise
    finally:
        note("closed", firing=ctx.firing_id)


async def numbered_async(ctx: JobContext) -> AsyncIterator[dict[str, int]]:
    yield {"number": -ctx.firing_id}


@contextmanager
def ready_made(ctx: JobContext) -> Iterator[dict[str, str]]:
    """One that contextlib has made already."""
    yield {"number": "ready-made"}


@job
def count(number: int) -> int:
    note("body")
    return number


@job(run_in="process")
def count_apart(number: int, fails: bool = False) -> int:
    note("body")
    if fails:
        raise KeyError("lost")
    return number


@job(run_in="process", timeout="300ms")
def linger_apart(ctx: JobContext) -> None:
    note("body")
    ctx.sleep(60)


@job
async def count_async(number: int) -> int:
    note("body")
    return number


@job(scope=numbered_async)
async def count_own(number: int) -> int:
    return number


@job(scope=ready_made)
def count_ready_made(number: str) -> str:
    return number


@job(scope=None)
def count_nothing(number: int = 0) -> int:
    return number


@job
def hold() -> None:
    """Last until a file is there."""
    note("body")
    while not os.path.exists(os.environ[LEDGER] + ".go"):
        threading.Event().wait(0.01)
    note("body_ended")
