"""A store with one trigger for each way in which a body may meet the end of its node, and the nodes of one test."""

from pathlib import Path
from typing import Any

from qsched.scheduler.apply import apply
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.control import fire
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.triggers.declaration import load

from .declared import rows
from .ledger import Ledger
from .nodes import JOBS, NodeProcess, Nodes
from .waiting import wait_until

YAML = """
qsched: 1
jobs:
  polite: {{python: "{jobs}:linger", data: {{ledger: "{ledger}", seconds: 1}}}}
  long: {{python: "{jobs}:linger", data: {{ledger: "{ledger}", seconds: 20}}}}
  long_recoverable: {{python: "{jobs}:linger", data: {{ledger: "{ledger}", seconds: 20}}, request_recovery: true}}
  on_loop: {{python: "{jobs}:linger_on_loop", data: {{ledger: "{ledger}", seconds: 20}}, request_recovery: true}}
  deaf: {{python: "{jobs}:linger", data: {{ledger: "{ledger}", seconds: 20, deaf: true}}}}
  deaf_recoverable:
    python: "{jobs}:linger"
    data: {{ledger: "{ledger}", seconds: 20, deaf: true}}
    request_recovery: true
  deaf_process:
    python: "{jobs}:linger"
    run_in: process
    data: {{ledger: "{ledger}", seconds: 60, deaf: true}}
    request_recovery: true
  leaves_a_thread: {{python: "{jobs}:leave_a_thread", data: {{ledger: "{ledger}"}}}}
  command: {{command: "echo $$ > {pid}; sleep 60"}}
  deaf_command: {{command: "trap '' TERM; echo $$ > {pid}; while :; do sleep 1; done", request_recovery: true}}
triggers:
  polite: {{job: polite, cron: "0 0 1 1 *"}}
  long: {{job: long, cron: "0 0 1 1 *"}}
  long_recoverable: {{job: long_recoverable, cron: "0 0 1 1 *"}}
  on_loop: {{job: on_loop, cron: "0 0 1 1 *"}}
  deaf: {{job: deaf, cron: "0 0 1 1 *"}}
  deaf_recoverable: {{job: deaf_recoverable, cron: "0 0 1 1 *"}}
  deaf_process: {{job: deaf_process, cron: "0 0 1 1 *"}}
  leaves_a_thread: {{job: leaves_a_thread, cron: "0 0 1 1 *"}}
  command: {{job: command, cron: "0 0 1 1 *"}}
  deaf_command: {{job: deaf_command, cron: "0 0 1 1 *"}}
"""


class Stage:
    """The store, its ledger and its nodes."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        folder = nodes.folder
        self.ledger = Ledger(folder / "ledger")
        self.command_pid = folder / "command.pid"
        self.file: Path = folder / "qsched.yaml"
        self.file.write_text(YAML.format(jobs=JOBS, ledger=self.ledger.path, pid=self.command_pid))
        self.store: Store = open_store(nodes.url, create=True)
        apply(self.store, load([self.file], now=SystemClock().wall()), who="test")

    def node(self, name: str, timeout: str = "500ms", *options: str) -> NodeProcess:
        node = self.nodes.start(name, "--drain-timeout", timeout, *options, file=self.file)
        node.wait_ready()
        return node

    def begin(self, *triggers: str) -> list[int]:
        """Fire these, and wait until each has begun."""
        before = len(self.ledger.lines("began"))
        ids = [fire(self.store, trigger) for trigger in triggers]
        wait_until(lambda: len(self.ledger.lines("began")) == before + len(ids), f"{triggers} to begin")
        return ids

    def begin_command(self, trigger: str) -> tuple[int, int]:
        """Fire this command; its firing and its process, once it runs."""
        firing = fire(self.store, trigger)
        wait_until(lambda: self.command_pid.exists() and self.command_pid.read_text().strip(), "the command")
        return firing, int(self.command_pid.read_text())

    def row(self, firing: int, columns: str) -> tuple[Any, ...]:
        (found,) = rows(self.store, f"SELECT {columns} FROM qsched_firings WHERE id = ?", firing)
        return found

    def nodes_rows(self, columns: str = "name, state, renew_seq") -> list[tuple[Any, ...]]:
        return rows(self.store, f"SELECT {columns} FROM qsched_nodes ORDER BY incarnation")

    def wait_draining(self) -> None:
        wait_until(lambda: self.nodes_rows("state")[0][0] == "draining", "the drain to begin")

    def ended(self) -> list[int]:
        return [line["firing"] for line in self.ledger.lines("ended")]
