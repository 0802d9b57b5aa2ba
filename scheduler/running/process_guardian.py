"""The guardian process: parent of a node's worker processes; it ends with its node or with the node's lease, and they with it.

No job's code is ever loaded here, so nothing but the node's word, the lease and the kernel decides how long it lives:

- the node is gone: the kernel kills the guardian (it does so when the thread that started it ends), or its control
  socket ends;
- the lease is over: a kernel timer kills it, even while it is stopped;
- the guardian is gone, however it came: the kernel kills each worker as its child, and with the end of a pipe that only
  the guardian holds each worker's whole group. Another such pipe ends the commands, which are the node's own children.

What the node says: life, start, signal, retire, lease, close. What it is told: ready, started, unstarted, gone, armed,
untimed.
"""

import os
import select
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..clock import boottime
from .kernel_lease import KernelTimer, end_group_with_pipe, end_with_parent
from .process_frames import FrameReader, framed, socket_of_stdin

_PIECE = 64 * 1024
_DESCRIPTORS = 16
_LOOK = 0.5
"""Seconds between looks at the lease where the kernel keeps no timer for it."""


def main(arguments: Sequence[str]) -> None:
    """Guard until the node goes, whose process id is given; the control socket is standard input."""
    end_with_parent(int(arguments[0]))
    # A supervisor may signal all processes of the node at once; when workers end is the node's to say.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _ignore)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    Guardian(socket_of_stdin()).guard()


@dataclass(slots=True)
class Worker:
    """A child of the guardian, the leader of its own session and process group."""

    process: subprocess.Popen[bytes]
    alive: int
    """The writing end of the pipe whose end kills the group."""
    kill_at: float | None = None


class Guardian:
    """One loop over the node's word and the children's ends."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._frames = FrameReader()
        self._descriptors: deque[int] = deque()
        self._workers: dict[int, Worker] = {}
        self._lease: float | None = None
        self._timer: KernelTimer | None = None
        self._untimed = False
        self._closing = False
        self._life = -1
        """The writing end of the pipe that ends commands: the kernel closes it, nobody else."""
        self._pid = os.getpid()
        # Not a handler's work: the end of a child only has to end the wait.
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        signal.set_wakeup_fd(self._wake_out, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)
        self._poll = select.poll()
        for readable in (self._control.fileno(), self._wake_in):
            self._poll.register(readable, select.POLLIN)

    def guard(self) -> None:
        """Until the node is gone, or has closed and no worker is left."""
        try:
            self._say({"ready": self._pid})
            while not (self._closing and not self._workers):
                self._wait()
                self._reap()
                self._kill_overdue()
        except OSError:
            pass  # the node does not hear us any more
        for worker in self._workers.values():
            _kill_group(worker)
        os._exit(0)  # now: nothing here needs a longer farewell

    def _wait(self) -> None:
        ready = {descriptor for descriptor, _ in self._poll.poll(self._patience())}
        if self._wake_in in ready:
            with suppress(BlockingIOError):
                os.read(self._wake_in, _PIECE)
        if self._control.fileno() in ready:
            piece, descriptors, _, _ = socket.recv_fds(self._control, _PIECE, _DESCRIPTORS)
            self._descriptors += descriptors
            if not piece:
                raise ConnectionResetError("the node is gone")
            for message in self._frames.feed(piece):
                self._heed(message)

    def _patience(self) -> int | None:
        """Milliseconds to wait at most."""
        ends = [worker.kill_at for worker in self._workers.values() if worker.kill_at is not None]
        if self._untimed and self._lease is not None:
            ends += [self._lease, boottime() + _LOOK]
        return int(max(0.0, min(ends) - boottime()) * 1000) + 1 if ends else None

    def _heed(self, message: Mapping[str, Any]) -> None:
        if "lease" in message:
            self._renew(message["lease"])
        elif "start" in message:
            self._start(message["start"], message["argv"])
        elif "signal" in message:
            if (worker := self._workers.get(message["signal"])) is not None:
                _signal_group(worker, message["number"])
        elif "retire" in message:
            if (worker := self._workers.get(message["retire"])) is not None:
                worker.kill_at = boottime() + message["within"]
        elif "life" in message:
            self._life = self._descriptors.popleft()
        elif "close" in message:
            self._closing = True

    def _renew(self, until: float) -> None:
        """Leases only grow: a renewal that was overtaken by another is old news."""
        if self._lease is not None and until <= self._lease:
            return
        self._lease = until
        try:
            if not self._untimed:
                self._timer = self._timer or KernelTimer()
                self._timer.set(until)
        except OSError as error:
            self._untimed = True
            self._say({"untimed": str(error)})
        self._say({"armed": until})

    def _start(self, number: int, argv: Sequence[str]) -> None:
        """Start a worker whose standard input is the channel that came along; answers with its pid."""
        channel, alive = self._descriptors.popleft(), -1
        descriptors = [channel]
        try:
            lasting, alive = os.pipe()
            descriptors.append(lasting)
            process = subprocess.Popen(
                argv,
                stdin=channel,
                pass_fds=(lasting,),
                start_new_session=True,
                # Safe here, where no second thread can hold a lock: between fork and exec it is one system call.
                preexec_fn=self._in_child,  # noqa: PLW1509
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            if alive >= 0:
                os.close(alive)
            self._say({"unstarted": number, "why": str(error)})
        else:
            end_group_with_pipe(lasting, process.pid)
            self._workers[number] = Worker(process, alive)
            self._say({"started": number, "pid": process.pid})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _in_child(self) -> None:
        end_with_parent(self._pid)

    def _reap(self) -> None:
        for number, worker in list(self._workers.items()):
            if _has_ended(worker):
                # Before it is reaped: its number, and so its group's, can belong to nobody else until then.
                _kill_group(worker)
                status = worker.process.wait()
                os.close(worker.alive)
                del self._workers[number]
                self._say({"gone": number, "status": status})

    def _kill_overdue(self) -> None:
        now = boottime()
        for worker in self._workers.values():
            if worker.kill_at is not None and now >= worker.kill_at:
                worker.kill_at = None
                _kill_group(worker)
        if self._untimed and self._lease is not None and now >= self._lease:
            raise ConnectionAbortedError("the lease is over")

    def _say(self, message: Mapping[str, Any]) -> None:
        self._control.sendall(framed(message))


def _has_ended(worker: Worker) -> bool:
    """Whether the child has ended, without reaping it where the system can tell."""
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, worker.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return worker.process.poll() is not None


def _kill_group(worker: Worker) -> None:
    _signal_group(worker, signal.SIGKILL)


def _signal_group(worker: Worker, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.process.pid, number)


def _ignore(number: int, frame: object) -> None:
    """A handler, not SIG_IGN: what is ignored stays ignored in every program that is started."""
    del number, frame
