"""One command as a process group: its output is read to the end, and nothing of it is left after it."""

import logging
import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from ..clock import Clock
from .command_output import CommandOutput
from .process_group import group_lives
from .tether import Tether

log = logging.getLogger("qsched.runner")

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
_PIECE = 64 * 1024
_LAST_PIECES = 20
"""Reads after the end: what a pipe holds, not what an escaped writer may still produce."""
_FIRST_GROUP_LOOK, _LAST_GROUP_LOOK = 0.01, 0.25
_EXIT_LOOK = 0.05


class CommandProcess:
    """A started command, the leader of a group of its own; `follow` is called once, `stop` by any thread."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        clock: Clock,
        tether: Tether | None = None,
    ) -> None:
        """Start it, ending with the node and its lease where there is a tether; raises OSError or ValueError when that
        cannot be."""
        self.output = CommandOutput()
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: str | None = None
        self._tether = tether
        self._group_look = _FIRST_GROUP_LOOK
        self.stopped = False
        """Whether it was told to end while it still ran."""
        self._wake_in, self._wake_out = os.pipe()
        try:
            self._process = subprocess.Popen(
                argv,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=() if tether is None else (tether.descriptor,),
            )
        except BaseException:
            self._close_wake()
            raise
        self.pid = self._process.pid
        if tether is not None:
            tether.bind(self.pid)

    def stop(self, *, at_once: bool = False) -> None:
        """Ask the whole group to end: SIGTERM, and SIGKILL after the grace, or SIGKILL `at_once`."""
        with self._lock:
            self._asked = "kill" if at_once else self._asked or "end"
            if self._wake_out >= 0:
                os.write(self._wake_out, b".")

    def kill_group(self) -> None:
        """SIGKILL to the whole group, at once; reaping is left to whoever follows."""
        self._signal(signal.SIGKILL)

    def kill(self) -> None:
        """End the group by force and reap its leader, when it could not be followed."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def follow(self, grace: float = GRACE) -> int:
        """Read until the command and its group have ended; answers its exit status, −n for signal n."""
        stdout = self._process.stdout
        assert stdout is not None
        os.set_blocking(stdout.fileno(), False)
        with selectors.DefaultSelector() as selector, _ExitSign(self.pid) as sign:
            selector.register(stdout, selectors.EVENT_READ, self._read)
            selector.register(self._wake_in, selectors.EVENT_READ, self._awake)
            if sign.fd is not None:
                selector.register(sign.fd, selectors.EVENT_READ, lambda: True)
            try:
                self._follow(selector, sign, grace)
            finally:
                self._close_wake()
        for _ in range(_LAST_PIECES):
            before = self.output.size
            if not self._read() or self.output.size == before:
                break
        stdout.close()
        return self._process.returncode

    @property
    def cut(self) -> bool:
        """Whether it was tied to something that has ended."""
        return self._tether is not None and self._tether.cut()

    def cut_reason(self) -> str | None:
        """Why that has ended, where it was the node's doing or its lease's."""
        return None if self._tether is None else self._tether.reason()

    def _follow(self, selector: selectors.BaseSelector, sign: "_ExitSign", grace: float) -> None:
        """Until leader and group are gone; an unreaped leader would still count as alive in its group."""
        termed = killed = False
        kill_at: float | None = None
        while True:
            if self._process.poll() is not None:
                if not group_lives(self.pid):
                    return
                if killed:  # what SIGKILL has not ended yet waits in the kernel, not for us
                    return
                sign.leave(selector)
            if self._asked is not None or self._process.returncode is not None:
                if self._asked == "kill" or (kill_at is not None and self._clock.monotonic() >= kill_at):
                    killed = killed or self._signal(signal.SIGKILL)
                elif not termed:
                    termed = self._signal(signal.SIGTERM)
                    kill_at = self._clock.monotonic() + grace
            for key, _ in selector.select(self._patience(sign, kill_at, killed)):
                read: Callable[[], bool] = key.data
                if not read():
                    selector.unregister(key.fileobj)  # the output's end; a pipe at its end is always readable

    def _patience(self, sign: "_ExitSign", kill_at: float | None, killed: bool) -> float | None:
        """Seconds to sleep at most: what no file descriptor tells has to be looked at."""
        if self._process.returncode is not None:
            self._group_look = min(self._group_look * 1.5, _LAST_GROUP_LOOK)
            return self._group_look
        looks = [] if sign.fd is not None else [_EXIT_LOOK]
        if kill_at is not None and not killed:
            looks.append(max(kill_at - self._clock.monotonic(), 0.0))
        return min(looks, default=None)

    def _read(self) -> bool:
        """One piece of output, if there is one now; False at its end."""
        assert self._process.stdout is not None
        try:
            piece = os.read(self._process.stdout.fileno(), _PIECE)
        except BlockingIOError:
            return True
        self.output.add(piece)
        return bool(piece)

    def _awake(self) -> bool:
        os.read(self._wake_in, _PIECE)
        return True

    def _signal(self, number: int) -> bool:
        """Send to the group; True, since it is done or nobody is left to get it."""
        self.stopped = self.stopped or self._process.returncode is None
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass
        except PermissionError:
            log.warning("process group %s runs as another user and cannot be ended by us", self.pid)
        return True

    def _close_wake(self) -> None:
        with self._lock:
            os.close(self._wake_in)
            os.close(self._wake_out)
            self._wake_in = self._wake_out = -1


class _ExitSign:
    """A descriptor that can be read once a process has ended; None where the system has no such thing."""

    def __init__(self, pid: int) -> None:
        self.fd: int | None = None
        self._registered = True
        with suppress(OSError, AttributeError):
            self.fd = os.pidfd_open(pid)

    def __enter__(self) -> "_ExitSign":
        return self

    def __exit__(self, *_: object) -> None:
        if self.fd is not None:
            os.close(self.fd)

    def leave(self, selector: selectors.BaseSelector) -> None:
        """It has told what it can: from now on it would only keep the selector from sleeping."""
        if self.fd is not None and self._registered:
            selector.unregister(self.fd)
            self._registered = False
