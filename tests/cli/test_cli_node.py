"""`qsched node` as a process: it applies its file, runs, drains when told, and logs lines that machines read."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import pytest
from qsched.scheduler.clock import SystemClock
from qsched.triggers.instant import SECOND, to_instant

from support.command_line import START, Command, clean_environment
from support.waiting import wait_until

FILE = """\
qsched: 1
jobs:
  j: {command: "echo ran"}
triggers:
  beat: {job: j, every: 1s}
"""


@contextmanager
def node(folder: Path, url: str, *options: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """A node on the file in `folder`; killed at the end if it is still there."""
    if not (folder / "qsched.yaml").exists():
        (folder / "qsched.yaml").write_text(FILE)
    with (folder / "log").open("w") as log:
        child = subprocess.Popen(
            [sys.executable, "-c", START, "node", "-f", "qsched.yaml", *options],
            cwd=folder,
            env=clean_environment(QSCHED_STORE=url, **environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            text=True,
        )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()


def ran(folder: Path) -> int:
    """How many times the job has said so in the node's log."""
    return (folder / "log").read_text().count("succeeded, wrote")


def test_signals_that_come_as_a_node_leaves_do_not_spoil_its_exit_code(
    sqlite_url: str, tmp_path: Path
) -> None:
    with node(tmp_path, sqlite_url) as child:
        wait_until(lambda: "node.ready" in (tmp_path / "log").read_text(), "the node")
        while child.poll() is None:
            child.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                child.wait(0.001)
        assert child.returncode in (0, 8)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_applies_its_file_runs_and_drains(
    qsched: Command, sqlite_url: str, tmp_path: Path, number: signal.Signals
) -> None:
    with node(tmp_path, sqlite_url, "--name", "first") as child:
        wait_until(lambda: ran(tmp_path) >= 2, "two firings")
        (item,) = qsched("nodes", "list", "-o", "json").items
        assert (item["name"], item["state"], item["pid"]) == ("first", "up", child.pid)
        child.send_signal(number)
        assert child.wait(timeout=30) == 0
    (item,) = qsched("nodes", "list", "-o", "json").items
    assert item["state"] == "stopped"
    assert qsched("firings", "list", "--state", "running", "-o", "json").items == []
    assert all(row["node"] == "first" for row in qsched("firings", "list", "-o", "json").items)


def test_its_log_is_json_where_no_terminal_looks(qsched: Command, sqlite_url: str, tmp_path: Path) -> None:
    with node(tmp_path, sqlite_url) as child:
        wait_until(lambda: ran(tmp_path) >= 1, "a firing")
        child.terminate()
        assert child.wait(timeout=30) == 0
    said = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    events = [line["event"] for line in said]
    assert "declarations.applied" in events
    assert events.index("node.ready") < events.index("node.drain") < events.index("node.stop")
    assert not any(event.startswith("firing.") for event in events), "each firing is said with --verbose only"


def test_verbose_says_each_firing_in_text(qsched: Command, sqlite_url: str, tmp_path: Path) -> None:
    with node(tmp_path, sqlite_url, "--verbose", QSCHED_LOG="text") as child:
        wait_until(
            lambda: "firing.succeeded trigger=beat" in (tmp_path / "log").read_text(), "a firing in the log"
        )
        child.terminate()
        assert child.wait(timeout=30) == 0


def test_settings_come_from_the_environment_too(qsched: Command, sqlite_url: str, tmp_path: Path) -> None:
    with node(tmp_path, sqlite_url, QSCHED_NODE_NAME="from-env", QSCHED_NODE_CAPACITY="3") as child:
        wait_until(lambda: ran(tmp_path) >= 1, "a firing")
        (item,) = qsched("nodes", "list", "-o", "json").items
        assert (item["name"], item["capacity"]) == ("from-env", 3)
        child.terminate()
        assert child.wait(timeout=30) == 0


def test_a_misfire_of_a_stopped_node_is_listed_as_node_down(
    qsched: Command, sqlite_url: str, tmp_path: Path
) -> None:
    (tmp_path / "qsched.yaml").write_text(FILE.replace("1s}", "1s, misfire: {threshold: 1s}}"))
    with node(tmp_path, sqlite_url) as child:
        wait_until(lambda: ran(tmp_path) >= 1, "a firing")
        child.terminate()
        assert child.wait(timeout=30) == 0
    due = qsched("triggers", "list", "-o", "json").items[0]["next_fire_at"]
    missed = to_instant(datetime.fromisoformat(due)) + 3 * SECOND
    wait_until(lambda: SystemClock().wall() > missed, "slots to be missed")
    with node(tmp_path, sqlite_url) as child:
        wait_until(
            lambda: "misfire trigger=beat" in (tmp_path / "log").read_text(), "a misfire to be noticed"
        )
        child.terminate()
        assert child.wait(timeout=30) == 0
    misfire = qsched("misfires", "list", "-o", "json").items[0]
    assert misfire["covers"] >= 2
    assert misfire["late"] > 1
    assert misfire["misfire"] == {
        "cause": "node_down",
        "policy": "fire_once",
        "decision": f"ran the last of {misfire['covers']}",
    }
    assert misfire["state"] == "succeeded"
