"""The commands that run now, so that none is left behind when the process leaves."""

import threading
from collections.abc import Callable

from ..errors import SHUTDOWN, JobCancelled
from .command_process import CommandProcess
from .process_pool import ProcessPool


class LiveCommands:
    """Knows each command from its start; starting and killing exclude each other, so that none slips between."""

    def __init__(self, processes: ProcessPool) -> None:
        self.processes = processes
        self._lock = threading.Lock()
        self._processes: set[CommandProcess] = set()
        self._leaving = False

    def start(self, start: Callable[[], CommandProcess]) -> CommandProcess:
        """Start one; raises what `start` raises, or JobCancelled when the process is leaving."""
        with self._lock:
            if self._leaving:
                raise JobCancelled(SHUTDOWN)
            process = start()
            self._processes.add(process)
        return process

    def ended(self, process: CommandProcess) -> None:
        """It has ended, and its group with it."""
        with self._lock:
            self._processes.discard(process)

    def kill(self, *, leaving: bool) -> int:
        """SIGKILL to the group of each, at once; answers how many. When `leaving`, none is started after that."""
        with self._lock:
            self._leaving = self._leaving or leaving
            for process in self._processes:
                process.kill_group()
            return len(self._processes)
