"""Real node processes: started in folders of their own, ended by their pid, gone when the test process is."""

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from .house import search_path
from .processes import Account, launch, signal_family
from .waiting import wait_until

JOBS = "support.ledger_jobs"


class NodeProcess:
    """One process. Its log is in `folder`/log."""

    def __init__(
        self, folder: Path, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        said = {
            "PYTHONPATH": search_path(),
            "PYTHONUNBUFFERED": "1",
            "QSCHED_LOG": "text",
            **(environment or {}),
        }
        words = ["/usr/bin/env", *(f"{name}={value}" for name, value in said.items()), *command]
        # Whoever starts it must outlive it: it is killed when the starting thread ends.
        self._process = launch(words, Account(), folder, death_signal=signal.SIGKILL)

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def wait_ready(self, times: int = 1) -> None:
        """Until it takes work: `times` nodes in it, where it holds more than one."""
        wait_until(
            lambda: self.log().count("node.ready") >= times or self._process.poll() is not None,
            f"node {self.folder.name} to be ready:\n{self.log()[-3000:]}",
            within=60,
        )
        assert self._process.poll() is None, f"node {self.folder.name} ended:\n{self.log()[-3000:]}"

    def signal(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def wait(self, within: float = 60.0) -> int:
        """Its exit code, once it has ended."""
        try:
            return self._process.wait(timeout=within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.folder.name} did not end:\n{self.log()[-3000:]}") from None

    def kill(self) -> None:
        """End it and all its children at once."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                signal_family(self.pid, signal.SIGKILL)
            self._process.wait(timeout=30)


class Nodes:
    """The nodes of one test, on one store; a context manager that leaves none behind."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.all: list[NodeProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.all:
            node.kill()

    def start(
        self,
        name: str,
        *arguments: str,
        file: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> NodeProcess:
        """`qsched node`, with the ledger's jobs."""
        command = [sys.executable, "-m", "qsched", "--store", self.url, "node", "--app", JOBS, "--name", name]
        if file is not None:
            command += ["-f", str(file)]
        return self.launch(name, [*command, *arguments], environment)

    def start_forked(self, name: str, *arguments: str) -> NodeProcess:
        """One process that embeds nodes and forks (support/forked_nodes.py)."""
        return self.launch(name, [sys.executable, "-m", "support.forked_nodes", self.url, *arguments])

    def launch(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> NodeProcess:
        node = NodeProcess(self.folder / name, command, environment)
        self.all.append(node)
        return node

    def stop(self, within: float = 60.0) -> list[int]:
        """SIGTERM to all of them together; their exit codes."""
        for node in self.all:
            node.signal()
        return [node.wait(within) for node in self.all]

    def troubles(self) -> list[str]:
        """Lines of errors and tracebacks in the logs."""
        return [
            f"{node.folder.name}: {line}"
            for node in self.all
            for line in node.log().splitlines()
            if " ERROR " in line or " CRITICAL " in line or line.startswith("Traceback")
        ]
