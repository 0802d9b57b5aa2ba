"""A private server: its own folder, its own port on 127.0.0.1, started and ended by us alone."""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from .processes import Account, free_port, launch, log_end, signal_family

_PREFIX = "qsched-server-"
_TRIES = 1500
_TRY_SECONDS = 0.02


class ServerMissing(Exception):
    """The binaries of a server are not on this machine."""


class Server(ABC):
    """One server process; a context manager that starts it and, at the end, removes it with its data."""

    stop_signal: int = signal.SIGTERM
    death_signal: int = signal.SIGKILL

    def __init__(self, account: Account) -> None:
        _sweep_abandoned_folders()
        self.account = account
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self.folder.chmod(0o755)
        account.own(self.folder)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        atexit.register(self.remove)

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self).__name__

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients connect, without a particular database of ours."""

    @abstractmethod
    def _command(self) -> list[str]:
        """The command line that runs the server in the foreground."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the server accepts work now."""

    @abstractmethod
    def _prepare(self) -> None:
        """Make the data folder, once."""

    @property
    def pid(self) -> int:
        """The server's main process."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running: call start() first")
        return self._process.pid

    def start(self) -> None:
        """Start the server on its old data and port, and return when it accepts work."""
        if self._process is not None:
            raise RuntimeError(f"{self.name} already runs as {self.pid}: call stop() or kill() first")
        if not (self.folder / "data").exists():
            self._prepare()
        self._process = launch(self._command(), self.account, self.folder, death_signal=self.death_signal)
        for _ in range(_TRIES):
            try:
                code = self._process.wait(timeout=_TRY_SECONDS)
            except subprocess.TimeoutExpired:
                if self._answers():
                    return
            else:
                self._process = None
                raise RuntimeError(f"{self.name} ended at once with {code}:\n{log_end(self.folder)}")
        self.kill()
        raise RuntimeError(f"{self.name} did not answer:\n{log_end(self.folder)}")

    def stop(self) -> None:
        """End it cleanly: what was committed is there after the next start."""
        self.resume()
        os.kill(self.pid, self.stop_signal)
        self._await_end()

    def kill(self) -> None:
        """End it as a power cut would, all its processes at once."""
        signal_family(self.pid, signal.SIGKILL)
        self._await_end()

    def pause(self) -> None:
        """Freeze every process of it: connections stay open and nothing answers."""
        signal_family(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after pause()."""
        signal_family(self.pid, signal.SIGCONT)

    def remove(self) -> None:
        """Kill it if it runs, and delete its folder."""
        atexit.unregister(self.remove)
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _await_end(self) -> None:
        if self._process is not None:
            self._process.wait(timeout=60)
            self._process = None

    def _next_name(self) -> str:
        self._databases += 1
        return f"t{self._databases}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def _sweep_abandoned_folders() -> None:
    """Delete what test runs that were killed could not delete themselves."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(IndexError, ValueError):
            if not psutil.pid_exists(int(folder.name.removeprefix(_PREFIX).split("-")[0])):
                shutil.rmtree(folder, ignore_errors=True)
