"""SIGTERM on real processes: what runs may end, what does not is handed over, and nobody runs beside a successor."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from qsched.scheduler.apply import apply
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.control import fire
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.triggers.declaration import load
from qsched.triggers.instant import SECOND

from support.declared import rows
from support.ledger import Ledger
from support.nodes import JOBS, NodeProcess, Nodes
from support.waiting import wait_until

YAML = """
qsched: 1
jobs:
  polite: {{python: "{jobs}:linger", data: {{ledger: "{ledger}", seconds: 1}}}}
  long: {{python: "{jobs}:linger", data: {{ledger: "{ledger}", seconds: 20}}}}
  long_recoverable: {{python: "{jobs}:linger", data: {{ledger: "{ledger}", seconds: 20}}, request_recovery: true}}
  deaf: {{python: "{jobs}:linger", data: {{ledger: "{ledger}", seconds: 20, deaf: true}}}}
  deaf_recoverable:
    python: "{jobs}:linger"
    data: {{ledger: "{ledger}", seconds: 20, deaf: true}}
    request_recovery: true
  command: {{command: "echo $$ > {pid}; sleep 60"}}
triggers:
  polite: {{job: polite, cron: "0 0 1 1 *"}}
  long: {{job: long, cron: "0 0 1 1 *"}}
  long_recoverable: {{job: long_recoverable, cron: "0 0 1 1 *"}}
  deaf: {{job: deaf, cron: "0 0 1 1 *"}}
  deaf_recoverable: {{job: deaf_recoverable, cron: "0 0 1 1 *"}}
  command: {{job: command, cron: "0 0 1 1 *"}}
"""


class Stage:
    """A store with these triggers, and the nodes of one test."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        folder = nodes.folder
        self.ledger = Ledger(folder / "ledger")
        self.command_pid = folder / "command.pid"
        self.file = folder / "qsched.yaml"
        self.file.write_text(YAML.format(jobs=JOBS, ledger=self.ledger.path, pid=self.command_pid))
        self.store: Store = open_store(nodes.url, create=True)
        apply(self.store, load([self.file], now=SystemClock().wall()), who="test")

    def node(self, name: str, timeout: str = "500ms") -> NodeProcess:
        node = self.nodes.start(name, "--drain-timeout", timeout, file=self.file)
        node.wait_ready()
        return node

    def begin(self, *triggers: str) -> list[int]:
        """Fire these, and wait until each has begun."""
        before = len(self.ledger.lines("began"))
        ids = [fire(self.store, trigger) for trigger in triggers]
        wait_until(lambda: len(self.ledger.lines("began")) == before + len(ids), f"{triggers} to begin")
        return ids

    def row(self, firing: int, columns: str) -> tuple[Any, ...]:
        (found,) = rows(self.store, f"SELECT {columns} FROM qsched_firings WHERE id = ?", firing)
        return found

    def nodes_rows(self) -> list[tuple[Any, ...]]:
        return rows(self.store, "SELECT name, state, renew_seq FROM qsched_nodes ORDER BY incarnation")

    def ended(self) -> list[int]:
        return [line["firing"] for line in self.ledger.lines("ended")]


@pytest.fixture
def stage(sqlite_url: str, tmp_path: Path) -> Iterator[Stage]:
    with Nodes(tmp_path, sqlite_url) as nodes:
        stage = Stage(nodes)
        yield stage
        stage.store.close()


@pytest.fixture
def any_stage(store_url: str, tmp_path: Path) -> Iterator[Stage]:
    """The same on each of the three databases."""
    with Nodes(tmp_path, store_url) as nodes:
        stage = Stage(nodes)
        yield stage
        stage.store.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_ends_in_time_ends_well_and_the_exit_code_is_0(stage: Stage, number: signal.Signals) -> None:
    node = stage.node("one", timeout="20s")
    (firing,) = stage.begin("polite")
    node.signal(number)
    later = fire(stage.store, "polite")
    assert node.wait() == 0
    assert stage.ended() == [firing]
    assert stage.row(firing, "state, outcome, attempt") == ("succeeded", "succeeded", 0)
    assert stage.row(later, "state, fence") == ("due", 0)  # nothing is taken any more
    assert [row[:2] for row in stage.nodes_rows()] == [("one", "stopped")]
    assert stage.nodes.troubles() == []


@pytest.mark.long
def test_a_recoverable_job_is_handed_over_on_any_database(any_stage: Stage) -> None:
    hand_over(any_stage)


def test_a_recoverable_job_that_hears_the_end_is_handed_over_at_once(stage: Stage) -> None:
    hand_over(stage)


def hand_over(stage: Stage) -> None:
    one = stage.node("one")
    (firing,) = stage.begin("long_recoverable")
    two = stage.node("two")
    one.signal()
    assert one.wait() == 8
    wait_until(lambda: len(stage.ledger.lines("began")) == 2, "the second run")
    first, second = stage.ledger.lines("began")
    assert (first["node"], second["node"]) == ("one", "two")
    assert (second["firing"], second["fence"], second["attempt"]) == (firing, 2, 0)
    (attempt,) = rows(
        stage.store, "SELECT firing_id, attempt, outcome, next_run_at, finished_at FROM qsched_attempts"
    )
    assert attempt[:3] == (firing, 0, "interrupted")
    assert attempt[3] == attempt[4]
    two.signal()
    assert two.wait() == 8


def test_a_job_that_is_not_recoverable_is_cancelled(stage: Stage) -> None:
    node = stage.node("one")
    (firing,) = stage.begin("long")
    node.signal()
    assert node.wait() == 8
    assert stage.row(firing, "state, outcome") == ("cancelled", "interrupted")
    assert stage.ended() == []


@pytest.mark.long
def test_threads_that_do_not_end_are_left_on_any_database(any_stage: Stage) -> None:
    leave_threads(any_stage)


def test_threads_that_do_not_end_are_settled_and_left_by_leaving_the_process(stage: Stage) -> None:
    leave_threads(stage)


def leave_threads(stage: Stage) -> None:
    node = stage.node("one")
    recoverable, lost = stage.begin("deaf_recoverable", "deaf")
    node.signal()
    assert node.wait(within=20) == 8
    columns = "state, run_at, attempt, fence, incarnation"
    ((ended_at,),) = rows(stage.store, "SELECT ended_at FROM qsched_nodes")
    assert stage.row(recoverable, columns) == ("due", ended_at + SECOND, 0, 1, None)
    assert stage.row(lost, "state, outcome") == ("lost", "lost")
    assert [row[:2] for row in stage.nodes_rows()] == [("one", "stopped")]
    assert stage.ended() == []


def test_a_second_signal_ends_the_drain(stage: Stage) -> None:
    node = stage.node("one", timeout="60s")
    (firing,) = stage.begin("long_recoverable")
    node.signal()
    wait_until(lambda: stage.nodes_rows()[0][1] == "draining", "the drain to begin")
    node.signal()
    assert node.wait(within=20) == 8
    assert stage.row(firing, "state, attempt") == ("due", 0)


def test_check_ins_go_on_to_the_end_of_a_drain(stage: Stage) -> None:
    node = stage.node("one", timeout="2s")
    stage.begin("deaf")
    node.signal()
    wait_until(lambda: stage.nodes_rows()[0][1] == "draining", "the drain to begin")
    before = stage.nodes_rows()[0][2]
    assert node.wait(within=20) == 8
    assert stage.nodes_rows()[0][2] >= before + 2


def test_a_command_does_not_outlive_its_node(stage: Stage) -> None:
    node = stage.node("one")
    firing = fire(stage.store, "command")
    wait_until(lambda: stage.command_pid.exists() and stage.command_pid.read_text().strip(), "the command")
    pid = int(stage.command_pid.read_text())
    node.signal()
    assert node.wait(within=20) == 8
    wait_until(lambda: not psutil.pid_exists(pid), "the command to be gone")
    assert stage.row(firing, "state")[0] == "cancelled"


def test_an_idle_node_ends_at_once(stage: Stage) -> None:
    node = stage.node("one", timeout="60s")
    node.signal()
    assert node.wait(within=10) == 0
