"""The worker process: loads the jobs that its node may run, and runs one body after another as the node asks.

Bodies run in the main thread, as in a script; a second thread hears the node, whose end is this process's end.
"""

import asyncio
import io
import logging
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ...triggers.job import JobDefinition
from ..around.hooks import start_up
from ..clock import SystemClock
from ..context import JobContext, RunRequest
from ..errors import AppError, JobUnloadable
from ..loaded_job import LoadedJob
from ..outcome import Outcome
from ..registry import JobRegistry
from .body import outcome_of_error
from .kernel_lease import adopt_orphans
from .process_frames import FrameReader, framed, socket_of_stdin
from .process_log import Forwarder, set_levels, take_over
from .process_questions import Questions
from .process_words import outcome_said, request_of
from .runner import Runner

_PIECE = 64 * 1024


def main(arguments: Sequence[str]) -> None:
    """Serve the node at the other end of standard input until it is gone."""
    del arguments
    sys.argv[1:] = []
    if isinstance(sys.stdout, io.TextIOWrapper):  # there may be none
        sys.stdout.reconfigure(line_buffering=True)
    adopt_orphans()
    Worker(socket_of_stdin()).serve()


class ProcessContext(JobContext):
    """A context whose progress, and what it enqueues, is told to the node."""

    __slots__ = ("_worker",)

    def __init__(self, request: RunRequest, worker: "Worker") -> None:
        super().__init__(request, SystemClock(), worker.questions.ask)
        self._worker = worker

    def progress(self, value: Any) -> None:
        """Say how far the work is; raises TypeError or ValueError for what JSON cannot carry to the node."""
        super().progress(value)
        self._worker.say({"progress": value})


class Worker:
    """One conversation with the node."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._asked: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._number = 0
        self._ctx: JobContext | None = None
        self._early: tuple[int, str] | None = None
        self._jobs: dict[str, LoadedJob] = {}
        self._runner = Runner(SystemClock())
        self.questions = Questions(self.say)
        self._forwarder = Forwarder(lambda said: self.say({"log": said}))

    def serve(self) -> None:
        """Until the node asks for nothing more."""
        self._set_signals()
        threading.Thread(target=self._listen, name="qsched-node", daemon=True).start()
        hello = self._asked.get()
        if hello is None:
            return
        registry = self._load(hello)
        while registry is not None and (request := self._asked.get()) is not None:
            self._run(registry, request)

    def say(self, message: Mapping[str, Any]) -> None:
        """Tell the node, from any thread; raises TypeError or ValueError for what JSON cannot carry."""
        data = framed({"of": self._number, **message})
        try:
            with self._lock:
                self._channel.sendall(data)
        except OSError:  # the node is gone, or a body has closed what was not its own
            os._exit(1)

    def _load(self, hello: Mapping[str, Any]) -> JobRegistry | None:
        self._number = hello["load"]
        take_over(self._forwarder)
        set_levels(hello["levels"])
        try:
            registry = JobRegistry(hello["apps"], modules=hello["modules"])
            start_up(registry.around(), asyncio.run)
        except AppError as error:
            self.say({"ended": self._number, "why": f"in a process of its own: {error}"})
            return None
        take_over(self._forwarder)  # whatever the modules set up while they were imported
        set_levels(hello["levels"])
        self.say({"ended": self._number})
        return registry

    def _run(self, registry: JobRegistry, said: Mapping[str, Any]) -> None:
        self._number = said["run"]
        self.say({"begun": self._number})
        self._set_signals()  # the body before may have set its own
        if "levels" in said:
            set_levels(said["levels"])
        root = logging.getLogger()
        if self._forwarder not in root.handlers:
            root.addHandler(self._forwarder)
        outcome = self._outcome(registry, said)
        _flush()
        self.say({"ended": self._number, "outcome": outcome_said(outcome), "left": _spoilt()})

    def _outcome(self, registry: JobRegistry, said: Mapping[str, Any]) -> Outcome:
        try:
            loaded = self._jobs.get(said["place"]) or registry.resolve(
                JobDefinition(said["job"], "python", said["place"])
            )
        except JobUnloadable as error:
            return Outcome.failure("JobUnloadable", f"in a process of its own: {error}")
        self._jobs[said["place"]] = loaded
        ctx = ProcessContext(request_of(said, loaded), self)
        with self._lock:
            self._ctx = ctx
            early = self._early
        if early is not None and early[0] == self._number:
            ctx.cancel(early[1])
        try:
            return self._runner.run(ctx)
        except BaseException as error:  # SIGTERM's JobCancelled may come between two bodies' steps
            return outcome_of_error(error, ctx)
        finally:
            with self._lock:
                self._ctx = None

    def _set_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _ignore)
        signal.signal(signal.SIGTERM, self._terminate)

    def _terminate(self, number: int, frame: object) -> None:
        """SIGTERM ends a body that was told to stop and has not; a supervisor's, sent to all processes, is the node's to heed."""
        del number, frame
        if (ctx := self._ctx) is not None:
            ctx.check()

    # -- the listener's thread -----------------------------------------------------------------------------------------

    def _listen(self) -> None:
        frames = FrameReader()
        while True:
            try:
                piece = self._channel.recv(_PIECE)
            except OSError:
                piece = b""
            if not piece:
                break
            for message in frames.feed(piece):
                if "answer" in message:
                    self.questions.hear(message)
                elif "cancel" in message:
                    self._cancel(message["cancel"], message["reason"])
                else:
                    self._asked.put(message)
        if self._ctx is not None:  # nobody is left who could want the rest of it, nor what it has started
            os.killpg(0, signal.SIGKILL)
        self._asked.put(None)

    def _cancel(self, number: int, reason: str) -> None:
        with self._lock:
            self._early = (number, reason)
            ctx = self._ctx if number == self._number else None
        if ctx is not None:
            ctx.cancel(reason)


def _spoilt() -> bool:
    """Whether the body left something to this process that the next must not find."""
    return _children_left() or _streams_closed()


def _streams_closed() -> bool:
    """Whether a standard stream's descriptor is gone: the next file or socket would get its number, and all prints."""
    try:
        for number in (0, 1, 2):
            os.fstat(number)
    except OSError:
        return True
    return False


def _children_left() -> bool:
    """Whether processes that the body started still run; those that have ended are reaped."""
    with suppress(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return True
    return False


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _ignore(number: int, frame: object) -> None:
    """A handler, not SIG_IGN: what is ignored stays ignored in every program that is started."""
    del number, frame
