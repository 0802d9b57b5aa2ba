"""Four workers of an APScheduler application, and what their ledger says: which slot was run how often."""

import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Self

from .aps_app import JOBS
from .nodes import NodeProcess
from .waiting import wait_until

Slot = tuple[str, int]
"""A job's id, and its second."""


class Workers:
    """`count` processes of the same application with the same job store setting; a context manager."""

    def __init__(self, folder: Path, setting: str, count: int = 4) -> None:
        self._ledger = folder / "ledger"
        said = {"APP_LEDGER": str(self._ledger), "APP_JOBSTORE": setting}
        command = [sys.executable, "-m", "support.aps_app"]
        self.processes = [NodeProcess(folder / f"worker-{n}", command, said) for n in range(count)]

    def __enter__(self) -> Self:
        wait_until(
            lambda: len(self.lines("ready")) == len(self.processes), f"workers:\n{self.logs()}", within=60
        )
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()

    def lines(self, kind: str) -> list[list[str]]:
        """The words behind `kind` of each such line."""
        text = self._ledger.read_text() if self._ledger.exists() else ""
        told = [line.split() for line in text.splitlines() if line]
        return [words[1:] for words in told if words[0] == kind]

    def slots(self) -> Counter[Slot]:
        """How often each slot was run."""
        return Counter((name, int(second)) for name, second, _ in self.lines("slot"))

    def twice(self) -> list[Slot]:
        return [slot for slot, runs in self.slots().items() if runs > 1]

    def full_seconds(self) -> list[int]:
        """Seconds in which every job ran."""
        seconds = Counter(second for _, second in self.slots())
        return sorted(second for second, jobs in seconds.items() if jobs == JOBS)

    def wait_for(self, seconds: int) -> None:
        """Until so many more seconds have come in which every job ran."""
        before = len(self.full_seconds())
        wait_until(
            lambda: len(self.full_seconds()) >= before + seconds,
            f"{seconds} more seconds with all {JOBS} jobs",
            within=60,
        )

    def kill_one_at_work(self) -> int:
        """Kill -9 a worker that is in the middle of a job; answers its pid."""
        found: list[int] = []

        def busy() -> bool:
            open_runs = Counter(int(pid) for _, pid in self.lines("begin"))
            open_runs.subtract(int(pid) for _, pid in self.lines("end"))
            found[:] = [process.pid for process in self.processes if open_runs[process.pid] > 0]
            return bool(found)

        wait_until(busy, "a worker at work", within=30)
        killed = next(process for process in self.processes if process.pid == found[0])
        killed.signal(signal.SIGKILL)
        return killed.pid

    def logs(self) -> str:
        return "\n".join(process.log()[-1000:] for process in self.processes)
