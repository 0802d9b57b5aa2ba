"""Jobs for worker processes: each does one thing that a body might do there, good or bad."""

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from qsched.scheduler.clock import boottime

from qsched import JobContext, PermanentError, RetryAfter, RetryNow, job

from .ledger_jobs import append

touched: list[str] = []
"""What tests write in their own process: a forked body would see it."""


class ShopError(Exception):
    """A job's own error."""


class StockError(ShopError):
    pass


@job(run_in="process")
def tell_all(ctx: JobContext, **data: Any) -> dict[str, Any]:
    """All that a context says."""
    return {
        "job": ctx.job,
        "trigger": ctx.trigger,
        "scheduled_at": ctx.scheduled_at.isoformat(),
        "fired_at": ctx.fired_at.isoformat(),
        "late": ctx.late,
        "attempt": ctx.attempt,
        "recovering": ctx.recovering,
        "firing": ctx.firing_id,
        "fence": ctx.fence_token,
        "node": ctx.node,
        "data": dict(ctx.data),
        "passed": data,
        "key": ctx.idempotency_key,
        "cancelled": ctx.cancelled,
    }


@job(run_in="process")
def who() -> int:
    return os.getpid()


@job(run_in="process")
def give(ctx: JobContext, value: Any) -> Any:
    return value


@job(run_in="process")
def give_object() -> object:
    return object()


@job(run_in="process")
async def later(ctx: JobContext) -> str:
    """An async body; a cancel ends it."""
    await asyncio.sleep(0)
    ctx.log.info("on a loop")
    return "later"


@job(run_in="process")
async def later_still(mark: str) -> None:
    Path(mark).touch()
    try:
        await asyncio.sleep(600)
    finally:
        Path(mark).write_text("ended")


@job(run_in="process")
def fail(kind: str) -> NoReturn:
    """Raise what is asked for."""
    errors: Mapping[str, BaseException] = {
        "ValueError": ValueError("bad value"),
        "StockError": StockError("none left"),
        "PermanentError": PermanentError("no use"),
        "RetryAfter": RetryAfter(90, "come back"),
        "RetryNow": RetryNow("again"),
        "SystemExit": SystemExit(3),
        "KeyboardInterrupt": KeyboardInterrupt(),
        "MemoryError": MemoryError("full"),
        "surrogate": ValueError("a\ud800b\0c"),
        "long": ValueError("x" * 10_000_000),
        "loss": StockError(),
    }
    raise errors[kind]


@job(run_in="process")
def recurse(n: int = 0) -> None:
    recurse(n + 1)


@job(run_in="process")
def leave(status: int) -> None:
    os._exit(status)


@job(run_in="process")
def crash() -> None:
    ctypes.string_at(0)


@job(run_in="process")
def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@job(run_in="process")
def stop_self() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@job(run_in="process")
def look_around() -> dict[str, Any]:
    """What a body finds in its process."""
    descriptors = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            descriptors[number] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue  # the listing's own
    return {
        "pid": os.getpid(),
        "session": os.getsid(0),
        "group": os.getpgid(0),
        "touched": touched,
        "store": [name for name in ("sqlalchemy", "sqlite3", "psycopg") if name in sys.modules],
        "settings": [name for name in os.environ if name.startswith("QSCHED_")],
        "path": os.environ.get("SHOP", ""),
        "descriptors": sorted(descriptors.values()),
        "stdin": sys.stdin.read(),
        "main_thread": threading.current_thread() is threading.main_thread(),
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, set())),
        "argv": sys.argv[1:],
    }


@job(run_in="process")
def log_much(ctx: JobContext) -> None:
    """Records of several loggers and levels, one with an error."""
    ctx.log.info("by the context %s", 1)
    ctx.log.debug("not wanted")
    logging.getLogger("shop.mail").warning("by another %s", "logger", extra={"order": 7, "thing": object()})
    try:
        raise StockError("none left")
    except StockError:
        logging.getLogger("shop.mail").exception("it failed: 100%")


@job(run_in="process")
def log_flood(ctx: JobContext, records: int) -> None:
    for number in range(records):
        ctx.log.info("%s %s", number, "x" * 200)


@job(run_in="process")
def write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stderr.write(f"{text}\n")


@job(run_in="process")
def progress(ctx: JobContext, values: list[Any]) -> None:
    for value in values:
        ctx.progress(value)


@job(run_in="process")
def progress_with(ctx: JobContext, what: str) -> None:
    ctx.progress(object() if what == "object" else "x" * 5_000_000)


@job(run_in="process")
def spin(mark: str) -> None:
    """Busy for ever, in Python."""
    Path(mark).touch()
    while True:
        pass


@job(run_in="process")
def clean_up(mark: str, deaf: bool = False) -> None:
    """Hear no cancel; end at SIGTERM, or not even then."""
    Path(mark).touch()
    while True:
        try:
            threading.Event().wait(600)
        except Exception as error:
            Path(mark).write_text(type(error).__name__)
            if not deaf:
                raise


@job(run_in="process")
def hold_gil(mark: str) -> None:
    """Hold the interpreter's lock in C for ten minutes."""
    Path(mark).touch()
    ctypes.PyDLL(None).sleep(600)


@job(run_in="process")
def cooperate(ctx: JobContext, mark: str) -> str:
    """Stop as soon as told to."""
    Path(mark).touch()
    ctx.sleep(600)
    return "not told"


@job(run_in="process")
def shielded(ctx: JobContext, mark: str, until: str) -> None:
    """Finish a piece of work before a cancel is felt."""
    with ctx.shield():
        Path(mark).touch()
        while not Path(until).exists():
            threading.Event().wait(0.005)
        Path(mark).write_text("finished")


@job(run_in="process")
def ignore_cancel(ctx: JobContext, mark: str) -> str:
    """See that it is told, and go on to its end."""
    Path(mark).touch()
    while not ctx.cancelled:
        threading.Event().wait(0.005)
    return f"ended all the same, told {ctx.cancel_reason}"


@job(run_in="process")
def breed(mark: str, wait: bool = True) -> int:
    """Start a process of its own that starts another, and wait for them, or not."""
    child = subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; sleep 600 & wait; sleep 600"])
    Path(mark).write_text(str(child.pid))
    if wait:
        child.wait()
    return os.getpid()


@job(run_in="process")
def breed_forked(mark: str) -> int:
    """Fork a copy of the worker that goes on with its channel."""
    pid = os.fork()
    if pid == 0:
        while True:
            threading.Event().wait(600)
    Path(mark).write_text(str(pid))
    return os.getpid()


@job(run_in="process")
def spoil_channel(how: str) -> None:
    """Treat every socket as its own."""
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        try:
            if not os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                continue
        except OSError:
            continue
        if how == "close":
            os.close(number)
        elif how == "garbage":
            os.write(number, b"\0\0\0\3abc")
        else:
            os.write(number, b"\xff\xff\xff\xff")
    if how == "close":
        return
    threading.Event().wait(600)


@job(run_in="process")
def catch_signals() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logging.getLogger().handlers.clear()


@job(run_in="process")
def outlast_supervisor(mark: str) -> str:
    """Go on through the signals that a supervisor, or a terminal, sends to all processes of a node."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.killpg(0, number)
        os.kill(os.getppid(), number)
    return "went on"


@job(run_in="process")
def chew(size: int) -> int:
    """Take as much memory as asked for."""
    return len(bytearray(size))


@job(run_in="process", key="order:{order}")
def keyed(ctx: JobContext, order: int) -> str:
    return ctx.idempotency_key


@job(run_in="process")
def leave_thread() -> None:
    threading.Thread(target=threading.Event().wait, args=(600,)).start()


@job(run_in="process")
def beat(ctx: JobContext, ledger: str, deaf: bool = False) -> None:
    """Say every hundredth of a second that it runs, until it is told to stop; a `deaf` one does not hear that."""
    told = {"firing": ctx.firing_id, "fence": ctx.fence_token, "node": ctx.node, "pid": os.getpid()}
    append(ledger, what="began", at=boottime(), attempt=ctx.attempt, recovering=ctx.recovering, **told)
    while True:
        append(ledger, what="beat", at=boottime(), **told)
        if deaf:
            threading.Event().wait(0.01)
        else:
            ctx.sleep(0.01)


@job(run_in="process")
def use_store(url: str) -> int:
    """Use the node's own store, with connections of this process."""
    # Where it is needed: other bodies see that their worker has brought none.
    from qsched import Scheduler

    with Scheduler(url) as scheduler:
        return len(list(scheduler.triggers()))
