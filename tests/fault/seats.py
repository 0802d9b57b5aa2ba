"""The node processes of a run: each has a seat with its own ways to the servers, its own clock, and lives one after another."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from support.house import search_path
from support.nodes import NodeProcess

from .clock_shim import MovedClock
from .fault_elsewhere import SEAT
from .fault_jobs import BODIES
from .history import History
from .proxy import Link
from .workload import JOBS

# A process of root minds no file's permissions; without these two rights (DAC_OVERRIDE, DAC_READ_SEARCH) it does.
_AS_ANYBODY = """
import ctypes, os, sys
for right in (1, 2):
    ctypes.CDLL(None).prctl(24, right, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Life(NodeProcess):
    """One process of a seat, from its start to its end."""

    @property
    def code(self) -> int | None:
        """Its exit code; None while it lives."""
        return self._process.poll()

    @property
    def ready(self) -> bool:
        return "node.ready" in self.log()


class Seat:
    """One node of the cluster by its name."""

    def __init__(
        self,
        name: str,
        folder: Path,
        history: History,
        command: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        self.name = name
        self._folder = folder
        self._history = history
        self._command = list(command)
        self._environment = dict(environment)
        self.database: Link | None = None
        self.redis: Link | None = None
        self.clock: MovedClock | None = None
        self.life: Life | None = None
        self.lives: list[Life] = []
        self.wanted = True
        """Whether a process that ends is started again."""
        self.minds_permissions = False
        self._stopped = 0

    # -- one life after another ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin a new life, under the same name."""
        self.wanted = True
        if self.life is not None:
            return
        folder = self._folder / f"{self.name}-{len(self.lives) + 1:02}"
        environment = {
            **self._environment,
            BODIES: str(folder / "bodies.jsonl"),
            SEAT: self.name,
            "PYTHONPATH": search_path(),
        }
        if self.clock is not None:
            environment |= self.clock.environment
        command = [sys.executable, "-m", "qsched", "node", "--app", JOBS, "--name", self.name, *self._command]
        if self.minds_permissions and os.geteuid() == 0:
            command = [sys.executable, "-I", "-S", "-c", _AS_ANYBODY, *command]
        self._stopped = 0
        self.life = Life(folder, command, environment)
        self.lives.append(self.life)
        self._history.say("started", node=self.name, pid=self.life.pid, life=len(self.lives))

    def look(self) -> int | None:
        """Notice an end; answers the exit code the first time it is seen."""
        if self.life is None or (code := self.life.code) is None:
            return None
        self._history.say("ended", node=self.name, pid=self.life.pid, life=len(self.lives), code=code)
        self.life = None
        return code

    @property
    def running(self) -> bool:
        return self.life is not None and self.life.code is None

    # -- what is done to it --------------------------------------------------------------------------------------------

    def kill(self) -> bool:
        """kill -9, and no new life before `start`; False when there is nothing to kill."""
        if not self._signal(signal.SIGKILL):
            return False
        assert self.life is not None
        self.wanted = False
        self._history.say("killed", node=self.name, pid=self.life.pid, life=len(self.lives))
        self.life.wait()
        self.look()
        return True

    def terminate(self) -> bool:
        """SIGTERM: it drains."""
        done = self._signal(signal.SIGTERM)
        if done:
            assert self.life is not None
            self._history.say("told_to_stop", node=self.name, pid=self.life.pid, life=len(self.lives))
        return done

    def stop(self, *, family: bool) -> bool:
        """SIGSTOP, to its children too if `family`; stops add up, and the last `go_on` counts."""
        if not self._signal(signal.SIGSTOP, family=family):
            return False
        self._stopped += 1
        return True

    def go_on(self, life: Life) -> None:
        """SIGCONT, if the life that was stopped is still this seat's, and nobody else wants it stopped."""
        if self.life is not life:
            return
        self._stopped -= 1
        if self._stopped <= 0:
            self._stopped = 0
            self._signal(signal.SIGCONT, family=True)

    def _signal(self, number: int, *, family: bool = False) -> bool:
        if self.life is None or self.life.code is not None:
            return False
        members = [psutil.Process(self.life.pid)]
        if family:
            with suppress(psutil.NoSuchProcess):
                members += members[0].children(recursive=True)
        for member in members:
            with suppress(psutil.NoSuchProcess):
                member.send_signal(number)
        return True

    # -- the end -------------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Kill what is left of all its lives, children of killed ones included."""
        self.wanted = False
        sessions = {life.pid for life in self.lives}
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                if process.pid != os.getpid() and os.getsid(process.pid) in sessions:
                    process.send_signal(signal.SIGKILL)
        for life in self.lives:
            life.kill()

    def logs(self) -> dict[str, str]:
        return {life.folder.name: life.log() for life in self.lives}
