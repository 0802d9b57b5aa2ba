"""Bodies that do what no body should: each in a way of its own, to see what becomes of the node."""

import asyncio
import ctypes
import os
import signal
import sys
import threading
from typing import Any, NoReturn

from qsched import JobContext, job


class Bottom(BaseException):
    """Below Exception, as KeyboardInterrupt is."""


class Mute(Exception):
    """It can be neither printed nor pickled."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __reduce__(self) -> NoReturn:
        raise RuntimeError("no pickle")


class Deadly(Exception):
    """Its text ends whoever asks for it."""

    def __str__(self) -> str:
        raise SystemExit(9)

    __repr__ = __str__


class Holder(Exception):
    """It holds what cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("holds a lock")
        self.lock = threading.Lock()


class Shy:
    """A value that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def _recurse(depth: int) -> int:
    return _recurse(depth + 1) + 1


def _rebind() -> str:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return "rebound"


def _leave_threads() -> str:
    for _ in range(3):
        threading.Thread(target=threading.Event().wait, args=(3600,), daemon=True).start()
    return "left"


def _close_standard_streams() -> str:
    for number in (0, 1, 2):
        os.close(number)
    return "closed"


def _raise(error: BaseException) -> NoReturn:
    raise error


def _hide_errors() -> str:
    sys.stderr = sys.stdout = None
    sys.exit(4)


DEEDS: dict[str, Any] = {
    "system_exit": lambda: sys.exit(3),
    "keyboard_interrupt": lambda: _raise(KeyboardInterrupt()),
    "memory_error": lambda: _raise(MemoryError()),
    "generator_exit": lambda: _raise(GeneratorExit()),
    "bottom": lambda: _raise(Bottom("deep")),
    "mute": lambda: _raise(Mute()),
    "deadly": lambda: _raise(Deadly()),
    "holder": lambda: _raise(Holder()),
    "group": lambda: _raise(BaseExceptionGroup("two", [Bottom(), SystemExit()])),
    "returns_lock": threading.Lock,
    "returns_shy": lambda: [Shy()],
    "returns_nan": lambda: {"rate": float("nan")},
    "recursion": lambda: _recurse(0),
    "rebind": _rebind,
    "leave_threads": _leave_threads,
    "hide_errors": _hide_errors,
    "leave": lambda: os._exit(3),
    "abort": os.abort,
    "segfault": lambda: ctypes.string_at(0),
    "close_streams": _close_standard_streams,
    "pid": os.getpid,
    "well": lambda: "well",
}


@job
def in_thread(deed: str) -> Any:
    return DEEDS[deed]()


@job(run_in="process")
def in_process(deed: str) -> Any:
    return DEEDS[deed]()


@job
async def on_loop(deed: str) -> Any:
    return DEEDS[deed]()


@job
def waits(ctx: JobContext) -> None:
    """Until it is told to stop."""
    ctx.sleep(3600)


@job
async def waits_on_loop() -> None:
    await asyncio.sleep(3600)


@job(run_in="process")
def waits_in_process(ctx: JobContext) -> None:
    ctx.sleep(3600)


@job(request_recovery=True)
def hold_lock(ctx: JobContext, seconds: int) -> str:
    """Hold the interpreter's lock in C, the first time."""
    if ctx.fence_token == 1:
        ctypes.PyDLL(None).sleep(seconds)
    return f"{ctx.node}, told {ctx.cancel_reason}"


@job(run_in="process")
def hold_lock_in_process(ctx: JobContext, seconds: int) -> str:
    ctypes.PyDLL(None).sleep(seconds)
    return f"{ctx.node}, told {ctx.cancel_reason}"
