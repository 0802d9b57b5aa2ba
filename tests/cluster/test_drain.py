"""The end of real processes: what runs may end, what does not is handed over, and nobody runs beside a successor."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.control import fire
from qsched.triggers.instant import SECOND

from support.command_line import Command
from support.declared import rows
from support.drain_stage import Stage
from support.nodes import Nodes
from support.waiting import wait_until


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
    assert stage.nodes_rows("name, state, handed_over") == [("one", "stopped", 0)]
    assert stage.nodes.troubles() == []


@pytest.mark.long
def test_a_recoverable_job_is_handed_over_on_any_database(any_stage: Stage) -> None:
    hand_over(any_stage)


def test_a_recoverable_job_that_hears_the_end_is_handed_over_at_once(stage: Stage) -> None:
    hand_over(stage)


def hand_over(stage: Stage) -> None:
    """Nobody waits for a lease: it is a minute long here, and the second run begins at once."""
    one = stage.node("one", "500ms", "--lease", "1m")
    (firing,) = stage.begin("long_recoverable")
    two = stage.node("two", "500ms", "--lease", "1m")
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
    assert second["at"] - attempt[4] < 10 * SECOND
    two.signal()
    assert two.wait() == 8


def test_being_broken_off_is_nobodys_error_whatever_kind_of_job_it_is(stage: Stage) -> None:
    """Hand-over and cancel are told once each, as warnings: no error lines, no tracebacks out of any executor."""
    node = stage.node("one")
    stage.begin("long", "long_recoverable", "on_loop")
    stage.begin_command("command")
    node.signal()
    assert node.wait() == 8
    assert stage.nodes.troubles() == []
    assert node.log().count("firing.handed_over") == 2
    assert node.log().count("firing.cancelled") == 2
    assert stage.nodes_rows("state, handed_over") == [("stopped", 4)]


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
    ((ended_at,),) = stage.nodes_rows("ended_at")
    assert stage.row(recoverable, columns) == ("due", ended_at + SECOND, 0, 1, None)
    assert stage.row(lost, "state, outcome") == ("lost", "lost")
    assert stage.nodes_rows("name, state, handed_over") == [("one", "stopped", 2)]
    assert stage.ended() == []


def test_a_body_that_hears_nothing_runs_elsewhere_once_its_process_is_gone(stage: Stage) -> None:
    one = stage.node("one")
    (firing,) = stage.begin("deaf_recoverable")
    two = stage.node("two")
    one.signal()
    assert one.wait(within=20) == 8
    ((left_at,),) = rows(stage.store, "SELECT ended_at FROM qsched_nodes WHERE name = 'one'")
    wait_until(lambda: len(stage.ledger.lines("began")) == 2, "the second run")
    second = stage.ledger.lines("began")[1]
    assert (second["node"], second["firing"], second["fence"], second["attempt"]) == ("two", firing, 2, 0)
    assert second["at"] >= left_at + SECOND
    two.signal()
    two.signal()
    assert two.wait(within=20) == 8


def test_a_second_signal_ends_the_drain(stage: Stage) -> None:
    node = stage.node("one", timeout="60s")
    (firing,) = stage.begin("long_recoverable")
    node.signal()
    stage.wait_draining()
    node.signal()
    assert node.wait(within=20) == 8
    assert stage.row(firing, "state, attempt") == ("due", 0)


def test_check_ins_go_on_to_the_end_of_a_drain(stage: Stage) -> None:
    node = stage.node("one", timeout="2s")
    stage.begin("deaf")
    node.signal()
    stage.wait_draining()
    before = stage.nodes_rows()[0][2]
    assert node.wait(within=20) == 8
    assert stage.nodes_rows()[0][2] >= before + 2


def test_a_command_does_not_outlive_its_node(stage: Stage) -> None:
    node = stage.node("one")
    firing, pid = stage.begin_command("command")
    node.signal()
    assert node.wait(within=20) == 8
    wait_until(lambda: not psutil.pid_exists(pid), "the command to be gone")
    assert stage.row(firing, "state")[0] == "cancelled"


def test_a_command_that_hears_nothing_is_killed_and_then_handed_over_as_ended(stage: Stage) -> None:
    """Its body can be ended for certain, so another node need not wait a second for it, and no run of it is lost."""
    node = stage.node("one")
    firing, pid = stage.begin_command("deaf_command")
    node.signal()
    assert node.wait(within=20) == 8
    wait_until(lambda: not psutil.pid_exists(pid), "the command to be gone")
    assert stage.row(firing, "state, attempt") == ("due", 0)
    ((outcome, ended_at, due_at),) = rows(
        stage.store, "SELECT outcome, finished_at, next_run_at FROM qsched_attempts"
    )
    assert (outcome, due_at) == ("interrupted", ended_at)


def test_a_body_in_a_process_is_killed_likewise(stage: Stage) -> None:
    node = stage.node("one")
    (firing,) = stage.begin("deaf_process")
    pid = stage.ledger.lines("began")[0]["pid"]
    assert pid != node.pid
    node.signal()
    assert node.wait(within=20) == 8
    wait_until(lambda: not psutil.pid_exists(pid), "the process to be gone")
    assert stage.row(firing, "state, attempt") == ("due", 0)
    assert rows(stage.store, "SELECT outcome FROM qsched_attempts") == [("interrupted",)]
    assert stage.nodes.troubles() == []


def test_an_idle_node_ends_at_once(stage: Stage) -> None:
    node = stage.node("one", timeout="60s")
    node.signal()
    assert node.wait(within=10) == 0


def test_a_thread_that_a_job_left_behind_does_not_hold_up_the_end(stage: Stage) -> None:
    """Python waits at its end for every thread that is no daemon."""
    node = stage.node("one")
    stage.begin("leaves_a_thread")
    node.signal()
    assert node.wait(within=20) == 0
    assert stage.nodes_rows("state") == [("stopped",)]
    assert "node.left_threads" in node.log()


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("seconds", [1, 3, 6])
def test_a_process_whose_jobs_hear_nothing_is_gone_within_a_second_of_its_time(
    stage: Stage, seconds: int
) -> None:
    clock = SystemClock()
    node = stage.node("one", timeout=f"{seconds}s")
    stage.begin("deaf", "deaf_recoverable")
    began = clock.monotonic()
    node.signal()
    assert node.wait(within=30) == 8
    assert seconds <= clock.monotonic() - began <= seconds + 1.1


def test_a_node_drains_when_it_is_asked_to_from_elsewhere(stage: Stage, qsched: Command) -> None:
    node = stage.node("one", "500ms", "--check-in", "100ms")
    stage.node("two")
    (firing,) = stage.begin("long")
    assert stage.row(firing, "incarnation") in [(1,), (2,)]
    name = "one" if stage.row(firing, "incarnation") == (1,) else "two"
    said = qsched("--store", stage.nodes.url, "nodes", "drain", name, "--wait")
    assert (said.code, said.out) == (8, f"{name} stopped, 1 handed over or cancelled\n")
    drained, other = stage.nodes.all if name == "one" else stage.nodes.all[::-1]
    assert drained.wait() == 8
    assert "node.drain_requested by=" in drained.log()
    said = qsched("--store", stage.nodes.url, "nodes", "drain", name)
    assert said.code == 4
    other.signal()
    assert other.wait() == 0
    assert stage.nodes.troubles() == []
    assert node in stage.nodes.all
