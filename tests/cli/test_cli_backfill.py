"""`qsched triggers backfill`: the bill, the question, the bar, and Ctrl-C."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from qsched.cli.bar import Bar

from support.command_line import Command

FILE = """\
qsched: 1
jobs: {j: {command: "true"}}
triggers:
  a: {job: j, cron: "* * * * *"}
"""
FROM, TO = "2024-01-10T09:00:00Z", "2024-01-10T09:09:00Z"


@pytest.fixture(autouse=True)
def _declared(qsched: Command, tmp_path: Path) -> None:
    (tmp_path / "qsched.yaml").write_text(FILE)
    assert qsched("apply").code == 0


def count(qsched: Command) -> int:
    return len(qsched("firings", "list", "-o", "json").items)


def test_a_dry_run_says_the_bill_and_writes_nothing(qsched: Command) -> None:
    said = qsched("triggers", "backfill", "a", "--from", FROM, "--to", TO, "--dry-run")
    assert (said.code, said.out) == (0, "")
    assert "a: 10 slots in the range · 10 to start, Wed 10 Jan" in said.err
    assert count(qsched) == 0


def test_what_was_backfilled_is_left_out(qsched: Command) -> None:
    said = qsched("triggers", "backfill", "a", "--from", FROM, "--to", TO)
    assert (said.code, said.out) == (0, "a backfilled: 10 firings\n")
    again = qsched("triggers", "backfill", "a", "--from", FROM, "--to", TO, "-o", "json")
    (item,) = again.items
    assert (item["trigger"], item["to_start"], item["open"], item["started"]) == ("a", 0, 10, 0)
    assert "none to start · 10 waiting or running" in again.err
    assert count(qsched) == 10


def test_more_than_twenty_firings_are_asked_about(qsched: Command) -> None:
    many = ("triggers", "backfill", "a", "--from", "2024-01-10T08:00:00Z", "--to", TO)
    said = qsched(*many)
    assert said.code == 7
    assert "add -y to say yes" in said.err
    assert count(qsched) == 0
    said = qsched(*many, "-y", "--batch", "7")
    assert (said.code, said.out) == (0, "a backfilled: 70 firings\n")
    assert [
        line.split(" (")[1].split(" %")[0] for line in said.err.splitlines() if line.startswith("back")
    ] == [str(percent) for percent in range(10, 101, 10)]


@pytest.mark.parametrize(
    ("first", "last", "says"),
    [
        ("2024-01-10T09:00:00", TO, "has no zone"),
        (TO, FROM, "--to lies before --from"),
        ("2024-01-10T09:00:00Z", "2024-01-10", "has no zone"),
    ],
)
def test_a_range_that_is_none_is_refused(qsched: Command, first: str, last: str, says: str) -> None:
    said = qsched("triggers", "backfill", "a", "--from", first, "--to", last)
    assert (said.code, said.out) == (2, "")
    assert says in said.err


def test_who_is_stopped_is_refused_and_forced(qsched: Command) -> None:
    qsched("triggers", "pause", "a")
    said = qsched("triggers", "backfill", "a", "--from", FROM, "--to", TO)
    assert said.code == 7
    assert "backfill it all the same with --force" in said.err
    assert qsched("triggers", "backfill", "a", "--from", FROM, "--to", TO, "--force").code == 0
    assert qsched("triggers", "backfill", "b", "--from", FROM, "--to", TO).code == 4


@pytest.fixture
def listening() -> Iterator[None]:
    """Ctrl-C is heard: who starts a test run in the background has it ignored, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_ctrl_c_stops_at_the_edge_of_a_batch_and_says_how_to_go_on(qsched: Command) -> None:
    class Impatient(Bar):
        def at(self, done: int) -> None:
            if done == 4:
                os.kill(os.getpid(), signal.SIGINT)
            super().at(done)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qsched.cli.bar.Bar", Impatient)
        said = qsched("triggers", "backfill", "a", "--from", FROM, "--to", TO, "--batch", "2")
    assert said.code == 130
    assert "stopped: 4 firings written; go on with" in said.err
    rest = said.err.strip().splitlines()[-1].split()
    assert rest == ["qsched", "triggers", "backfill", "a", "--from", "2024-01-10T09:04:00Z", "--to", TO]
    assert count(qsched) == 4
    assert qsched(*rest[1:]).out == "a backfilled: 6 firings\n"
    assert count(qsched) == 10
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
