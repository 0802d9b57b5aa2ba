"""Jobs in processes on real nodes: no body runs beside its successor, and none disturbs its node."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.apply import apply
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.control import fire
from qsched.scheduler.store.schema import open_store
from qsched.triggers.declaration import load

from support.declared import rows
from support.ledger import Ledger
from support.nodes import JOBS, NodeProcess, Nodes
from support.process_kin import children_of, ended
from support.waiting import wait_until

FAST = ("--check-in", "500ms", "--lease", "1500ms")
PROCESS_JOBS = "support.process_jobs"

YAML = """
qsched: 1
jobs:
  beat: {{python: "{here}:beat", data: {{ledger: "{ledger}"}}, request_recovery: true}}
  deaf_beat: {{python: "{here}:beat", data: {{ledger: "{ledger}", deaf: true}}, request_recovery: true}}
  in_process: {{python: "{jobs}:note", run_in: process, data: {{ledger: "{ledger}"}}}}
  spin: {{python: "{here}:spin", data: {{mark: "{folder}/spinning"}}}}
  note: {{python: "{jobs}:note", data: {{ledger: "{ledger}"}}}}
  use_store: {{python: "{here}:use_store", data: {{url: "{url}"}}}}
  dies: {{python: "{here}:leave", data: {{status: 3}}, retry: {{max_retries: 2, delay: 10ms, retry_on: ExitCode}}}}
  fails:
    python: "{here}:fail"
    data: {{kind: StockError}}
    retry: {{max_retries: 2, delay: 10ms, retry_on: [ValueError, KilledBySignal]}}
triggers:
  beat: {{job: beat, cron: "0 0 1 1 *"}}
  deaf_beat: {{job: deaf_beat, cron: "0 0 1 1 *"}}
  in_process: {{job: in_process, cron: "0 0 1 1 *"}}
  spin: {{job: spin, cron: "0 0 1 1 *"}}
  dies: {{job: dies, cron: "0 0 1 1 *"}}
  fails: {{job: fails, cron: "0 0 1 1 *"}}
  use_store: {{job: use_store, cron: "0 0 1 1 *"}}
  note: {{job: note, every: 1s, misfire: skip}}
"""


class Stage:
    """The store, its ledger and its nodes."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.ledger = Ledger(nodes.folder / "ledger")
        self.spinning = nodes.folder / "spinning"
        file = nodes.folder / "qsched.yaml"
        names = {"here": PROCESS_JOBS, "jobs": JOBS, "ledger": self.ledger.path, "folder": nodes.folder}
        names["url"] = nodes.url
        file.write_text(YAML.format(**names))
        self.store = open_store(nodes.url, create=True)
        apply(self.store, load([file], now=SystemClock().wall()), who="test")

    def node(self, name: str, *options: str) -> NodeProcess:
        node = self.nodes.start(name, "--app", PROCESS_JOBS, "--verbose", *options)
        node.wait_ready()
        return node

    def begin(self, trigger: str) -> int:
        """Fire it; the process that its body runs in."""
        before = len(self.ledger.lines("began"))
        fire(self.store, trigger)
        wait_until(lambda: len(self.ledger.lines("began")) > before, f"{trigger} to begin", within=60)
        return int(self.ledger.lines("began")[-1]["pid"])

    def beats(self, pid: int) -> list[float]:
        return [line["at"] for line in self.ledger.lines("beat") if line["pid"] == pid]

    def firing(self, trigger: str, columns: str) -> tuple[Any, ...]:
        (found,) = rows(self.store, f"SELECT {columns} FROM qsched_firings WHERE trigger_name = ?", trigger)
        return found


@pytest.fixture
def stage(sqlite_url: str, tmp_path: Path) -> Iterator[Stage]:
    with Nodes(tmp_path, sqlite_url) as nodes:
        stage = Stage(nodes)
        yield stage
        stage.store.close()


def test_the_body_of_a_stopped_node_has_ended_before_its_successor_begins(stage: Stage) -> None:
    one = stage.node("one", *FAST)
    first = stage.begin("deaf_beat")
    stage.node("two", *FAST)
    stop_between_writes(one, stage)
    wait_until(lambda: len(stage.ledger.lines("began")) == 2, "the recovery")
    assert ended(first)
    (_, second) = stage.ledger.lines("began")
    assert (second["node"], second["fence"], second["recovering"]) == ("two", 2, True)
    assert max(stage.beats(first)) < second["at"]
    one.signal(signal.SIGCONT)
    wait_until(lambda: "node.rejoined" in one.log(), "the stopped node to come back")
    wait_until(lambda: len(stage.beats(second["pid"])) > 100, "the successor to run on")
    assert len(stage.ledger.lines("began")) == 2


def stop_between_writes(node: NodeProcess, stage: Stage) -> None:
    """SIGSTOP, but not inside a transaction: a stopped writer would hold the SQLite file against all others."""
    file = stage.nodes.url.removeprefix("sqlite:///")
    while True:
        node.signal(signal.SIGSTOP)
        with closing(sqlite3.connect(file, timeout=0.2, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:
                node.signal(signal.SIGCONT)


@pytest.mark.long  # the short form, without a second node: test_kernel_lease
def test_the_body_of_a_killed_node_is_gone_with_it(stage: Stage) -> None:
    one = stage.node("one")
    first = stage.begin("deaf_beat")
    stage.node("two")
    one.signal(signal.SIGKILL)
    wait_until(lambda: ended(first), "the body to end", within=5)
    wait_until(lambda: len(stage.ledger.lines("began")) == 2, "the recovery")
    assert max(stage.beats(first)) < stage.ledger.lines("began")[1]["at"]


def test_a_busy_body_disturbs_no_other_firing_and_how_one_died_decides_on_its_retry(stage: Stage) -> None:
    node = stage.node("one", "--capacity", "4", *FAST)
    fire(stage.store, "spin")
    wait_until(stage.spinning.exists, "the busy body")
    before = len(stage.ledger.lines("ran"))
    for trigger in ("dies", "fails", "in_process"):
        fire(stage.store, trigger)
    wait_until(lambda: stage.firing("dies", "state") == ("failed",), "the last retry")
    wait_until(lambda: stage.firing("fails", "state") == ("failed",), "the only run")
    assert stage.firing("dies", "attempt, fence") == (2, 3)
    assert "its process died: exit code 3" in stage.firing("dies", "error")[0]
    assert stage.firing("fails", "attempt, fence") == (0, 1)
    assert "StockError" in stage.firing("fails", "error")[0]
    wait_until(
        lambda: stage.firing("in_process", "state") == ("succeeded",), "a thread's function in a process"
    )
    wait_until(lambda: len(stage.ledger.lines("ran")) >= before + 3, "others beside it")
    assert "node.fenced" not in node.log()
    assert stage.firing("spin", "state") == ("running",)
    assert rows(stage.store, "SELECT count(*) FROM qsched_firings WHERE reason = 'misfire'") == [(0,)]


def test_a_terminals_interrupt_is_a_drain_which_ends_bodies_that_hear_and_then_those_that_do_not(
    stage: Stage,
) -> None:
    node = stage.node("one", "--drain-timeout", "30s")
    deaf = stage.begin("deaf_beat")
    hears = stage.begin("beat")
    kin = [child.pid for child in children_of(node.pid)]
    assert {deaf, hears} <= set(kin)
    os.killpg(os.getpgid(node.pid), signal.SIGINT)
    wait_until(lambda: "node.drain" in node.log(), "the drain")
    beats = len(stage.beats(deaf))
    wait_until(lambda: len(stage.beats(deaf)) > beats + 20, "bodies to run on in it")
    node.signal(signal.SIGINT)  # in a hurry now
    assert node.wait() == 8
    assert all(ended(pid) for pid in kin)
    for trigger in ("beat", "deaf_beat"):
        assert stage.firing(trigger, "state, outcome, attempt") == ("due", None, 0)
    outcomes = rows(stage.store, "SELECT outcome FROM qsched_attempts")
    assert outcomes == [("interrupted",), ("interrupted",)]


@pytest.mark.long
def test_two_hundred_bodies_that_use_the_store_disturb_nobodys_connections(
    store_url: str, tmp_path: Path
) -> None:
    """B51: nothing of the node's connections is in its workers."""
    with Nodes(tmp_path, store_url) as nodes:
        stage = Stage(nodes)
        stage.node("one", "--capacity", "4")
        for _ in range(200):
            fire(stage.store, "use_store")
        ended = "SELECT count(*) FROM qsched_firings WHERE trigger_name = 'use_store' AND state = 'succeeded'"
        wait_until(lambda: rows(stage.store, ended) == [(200,)], "all of them", within=180)
        assert nodes.troubles() == []
        assert nodes.stop() == [0]
        stage.store.close()
