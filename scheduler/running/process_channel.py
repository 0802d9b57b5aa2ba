"""The node's end of one worker process: messages out and in, and the steps by which a body that must stop is made to."""

import logging
import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from ..clock import Clock
from ..errors import LEASE_LOST
from ..loaded_job import Allowed
from .guardian import Guardian, python_argv
from .process_frames import BrokenFrame, FrameReader, framed
from .process_log import levels

TERM_GRACE: Final = 1.0
"""Seconds between SIGTERM and SIGKILL, after the body's own grace."""
_PIECE: Final = 64 * 1024
TOO_LONG: Final = "too long"
_LAST_PIECES: Final = 100
_SILENT: Final = 1.0
"""Seconds that a worker without a channel may still take to end."""

log = logging.getLogger("qsched.runner")

Hear = Callable[[Mapping[str, Any]], bool]


class Errand:
    """One thing that a worker is asked for, and its end: told to stop by any thread, followed by one."""

    def __init__(self, number: int, clock: Clock, grace: float, limit: float | None) -> None:
        self.number = number
        self.reason: str | None = None
        """Why it is to stop."""
        self.steps = 0
        """How far it was made to: 1 told, 2 SIGTERM, 3 SIGKILL."""
        self._clock = clock
        self._grace = grace
        self._since = clock.monotonic()
        self._limit = limit

    def tell(self, reason: str) -> None:
        """Make it stop; the first reason stays."""
        if self.reason is None:
            self._since = self._clock.monotonic()
            self.reason = reason

    def due(self) -> float | None:
        """Seconds until the next step; None when there is none to come."""
        if self.reason == LEASE_LOST:
            return None if self.steps == 3 else 0.0
        if self.reason is None:
            wait = self._limit
        else:
            wait = (0.0, self._grace, self._grace + TERM_GRACE, None)[self.steps]
        return None if wait is None else max(0.0, self._since + wait - self._clock.monotonic())

    def step(self) -> int:
        """Take the next step, which is due; answers which it is."""
        if self.reason is None:
            self.tell(TOO_LONG)
        self.steps = 3 if self.reason == LEASE_LOST else self.steps + 1
        return self.steps


class ProcessChannel:
    """A worker process. Used by one thread at a time; `wake` is for all of them."""

    def __init__(self, guardian: Guardian, allowed: Allowed, clock: Clock) -> None:
        """Have it started; raises GuardianGone, or OSError where a channel cannot be made."""
        self.allowed = allowed
        self.loaded = False
        """Whether it has said that it is ready."""
        self.broken: str | None = None
        """What it did that no worker does: it is ended, and not used again."""
        self._guardian = guardian
        self._clock = clock
        self._frames = FrameReader()
        self._out = bytearray()
        self._told = bytearray()
        self._ended = False
        self._errands = 0
        self._levels: Mapping[str, int] | None = None
        self._lock = threading.Lock()
        self._wake_in = self._wake_out = -1
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        try:
            with theirs:
                self._wake_in, self._wake_out = os.pipe()
                os.set_blocking(self._wake_out, False)
                self.ward = guardian.start(python_argv("process_worker"), theirs, self.wake)
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """Whether it may be asked for more."""
        return self.ward.fate is None and self.broken is None

    def errand(self, grace: float, limit: float | None = None) -> Errand:
        """A new one, which may take `limit` seconds; follow it before the next."""
        self._errands += 1
        return Errand(self._errands, self._clock, grace, limit)

    def news_of_levels(self) -> dict[str, Any]:
        """What the worker must be told of the levels of loggers, if they are others than it knows."""
        now = levels()
        if now == self._levels:
            return {}
        self._levels = now
        return {"levels": now}

    def wake(self) -> None:
        """Let whoever follows look again; from any thread."""
        with self._lock:
            if self._wake_out >= 0:
                with suppress(BlockingIOError):
                    os.write(self._wake_out, b".")

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message besides, from any thread; whoever follows sends it."""
        data = framed(message)
        with self._lock:
            self._told += data
        self.wake()

    def follow(self, errand: Errand, message: bytes, hear: Hear) -> bool:
        """Send a message and hear what comes until `hear` says that this was the end; False when the process ended first.

        `hear` must not block. Meanwhile the errand's steps are taken: the worker is told, then its group gets SIGTERM,
        then SIGKILL.
        """
        self._out += message
        poll = select.poll()
        poll.register(self._wake_in, select.POLLIN)
        silent_until: float | None = None
        while self.ward.fate is None:
            self._step(errand)
            if self._ended and self.broken is None:
                silent_until = silent_until or self._clock.monotonic() + _SILENT
                if self._clock.monotonic() >= silent_until:
                    self._break("closed its channel")
                    silent_until = None
            if not self._ended:
                self._write()
                poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._out else 0))
            for descriptor, event in poll.poll(self._patience(errand, silent_until)):
                if descriptor == self._wake_in:
                    os.read(self._wake_in, _PIECE)
                    continue
                if event & ~select.POLLOUT and self._read(hear):
                    return True
                if self._ended:
                    poll.unregister(self._socket)
        return self._heard_out(hear)

    def _heard_out(self, hear: Hear) -> bool:
        """Hear what a process that is gone had still said; not for ever, somebody may have escaped with its channel."""
        pieces = 0
        while not self._ended and pieces < _LAST_PIECES:
            if self._read(hear):
                return True
            pieces += 1
        return False

    def kill(self) -> None:
        """End it and its group by force, and wait until that is so."""
        errand = self.errand(0.0)
        errand.tell(LEASE_LOST)
        self.follow(errand, b"", lambda _: False)

    def retire(self) -> None:
        """Ask nothing more of it: it leaves by itself, or is made to."""
        self._guardian.retire(self.ward)
        self.close()

    def close(self) -> None:
        """Give back the descriptors; the process sees its channel end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # the end of every copy, a forked process's too
        self._socket.close()
        self._close_wake()

    def _step(self, errand: Errand) -> None:
        while errand.due() == 0.0:
            step = errand.step()
            if step == 1:
                self._out += framed({"cancel": errand.number, "reason": errand.reason})
            else:
                self._guardian.signal(self.ward, signal.SIGTERM if step == 2 else signal.SIGKILL)

    def _patience(self, errand: Errand, silent_until: float | None) -> int | None:
        """Milliseconds to sleep at most, rounded up: waking a moment early would make the loop spin."""
        waits = [] if (due := errand.due()) is None else [due]
        if silent_until is not None:
            waits.append(max(0.0, silent_until - self._clock.monotonic()))
        return int(min(waits) * 1000) + 1 if waits else None

    def _write(self) -> None:
        """Send what is to be sent, as far as it goes."""
        with self._lock:
            self._out += self._told
            self._told.clear()
        if not self._out:
            return
        try:
            sent = self._socket.send(self._out[:_PIECE])
        except BlockingIOError:
            return
        except OSError:  # its end will be seen where it is read
            sent = len(self._out)
        del self._out[:sent]

    def _read(self, hear: Hear) -> bool:
        """Hear what is there now, or see that nothing will come any more; True if that was the errand's end."""
        try:
            piece = self._socket.recv(_PIECE)
        except BlockingIOError:
            self._ended = self.ward.fate is not None
            return False
        except OSError:
            piece = b""
        self._ended = not piece
        heard = False
        try:
            for message in self._frames.feed(piece):
                heard = hear(message) or heard
        except BrokenFrame as error:
            self._break(f"sent {error}")
            self._ended = True
        return heard

    def _break(self, what: str) -> None:
        """It is no worker any more: a body may write to any descriptor it finds."""
        self.broken = self.broken or what
        self._guardian.signal(self.ward, signal.SIGKILL)

    def _close_wake(self) -> None:
        with self._lock:
            if self._wake_out >= 0:
                os.close(self._wake_in)
                os.close(self._wake_out)
                self._wake_in = self._wake_out = -1
