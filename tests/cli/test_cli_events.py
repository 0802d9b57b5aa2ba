"""`qsched events`: what happened, what happens, and the manners of a command that does not end by itself."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from qsched.cli.events import FACTS
from qsched.scheduler.events import Fact
from qsched.triggers.instant import SECOND

from support.command_line import NOW, SHOP, START, Command, Filled, clean_environment, misfired


@contextmanager
def followed(filled: Filled, folder: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """`qsched events -f` in a process of its own; killed at the end if it is still there."""
    child = subprocess.Popen(
        [sys.executable, "-c", START, "events", "-f", "--interval", "20ms", *options],
        cwd=folder,
        env=clean_environment(QSCHED_STORE=filled.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()


def line(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    return child.stdout.readline()


def test_the_command_knows_every_fact() -> None:
    assert set(FACTS) == {str(fact) for fact in Fact}


def test_what_happened_as_a_list_and_as_json(qsched: Command, filled: Filled) -> None:
    number = misfired(filled)
    items = qsched("events", "-o", "json", "--trigger", "nightly").items
    assert [item["fact"] for item in items] == ["misfired", "planned", "started", "failed"]
    assert {item["firing"] for item in items} == {number}
    assert (items[0]["cause"], items[0]["policy"], items[0]["decision"]) == (
        "node_down",
        "fire_once",
        "ran the last of 9",
    )
    assert items[-1]["at"] == "2019-12-19T00:00:02Z"
    head, *lines = qsched("events", "--fact", "failed", "--fact", "started").out.splitlines()
    assert head.split() == ["AT", "FACT", "TRIGGER", "FIRING", "ATTEMPT", "NODE", "REASON"]
    assert [row.split()[3] for row in lines] == ["started", "failed"]
    assert qsched("events", "--limit", "1", "-o", "name").out == "failed\n"
    since = qsched("events", "--since", "2019-12-19T00:00:01Z", "-o", "json", "--trigger", "nightly").items
    assert [item["fact"] for item in since] == ["failed"]


def test_what_cannot_be_followed_says_so(qsched: Command, filled: Filled) -> None:
    filled.declare(SHOP)
    assert qsched("events", "--trigger", "nightli").code == 4
    assert qsched("events", "--fact", "fail").code == 2
    assert qsched("events", "-f", "-o", "yaml").code == 2
    assert "--interval" in qsched("events", "-f", "--interval", "2m").err
    assert qsched("events", "--store", "sqlite:///nowhere.db").code == 5


def test_what_happens_is_told_a_json_object_a_line(filled: Filled, tmp_path: Path) -> None:
    filled.declare(SHOP)
    old = filled.firing("nightly", started_at=NOW, finished_at=NOW, outcome="succeeded")
    with followed(filled, tmp_path, "-o", "json", "--trigger", "nightly") as child:
        told = [json.loads(line(child)) for _ in range(3)]
        assert [(item["fact"], item["firing"]) for item in told] == [
            ("planned", old),
            ("started", old),
            ("succeeded", old),
        ]
        later = NOW + SECOND
        new = filled.firing("nightly", scheduled_at=later, state="running", started_at=later)
        told = [json.loads(line(child)) for _ in range(2)]
        assert [(item["fact"], item["firing"]) for item in told] == [("planned", new), ("started", new)]
        filled.sql(
            "UPDATE qsched_firings SET state = 'succeeded', outcome = 'succeeded', finished_at = ? WHERE id = ?",
            *(later + SECOND, new),
        )
        assert json.loads(line(child))["fact"] == "succeeded"


def test_ctrl_c_ends_it_in_silence(filled: Filled, tmp_path: Path) -> None:
    misfired(filled)
    with followed(filled, tmp_path, "--limit", "1") as child:
        assert "failed" in line(child)
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
        assert child.stderr is not None
        assert child.stderr.read() == ""


@pytest.mark.skipif(sys.platform != "linux", reason="a pipe says there that its reader left")
def test_a_reader_that_has_seen_enough_ends_it_although_nothing_happens(
    filled: Filled, tmp_path: Path
) -> None:
    misfired(filled)
    with followed(filled, tmp_path) as child:
        assert line(child) != ""
        assert child.stdout is not None
        child.stdout.close()
        assert child.wait(60) == 0
        assert child.stderr is not None
        assert child.stderr.read() == ""
        child.stdout = None
