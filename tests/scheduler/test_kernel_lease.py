"""The kernel lease: bodies in processes end with it, whoever is stopped, killed or busy at that time."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from qsched.scheduler.clock import boottime
from qsched.scheduler.running.kernel_lease import LeaseDeadline
from qsched.scheduler.testing import ManualClock

from support.nodes import NodeProcess
from support.process_kin import children_of, ended
from support.waiting import wait_until

LEASE = 1.5

# Looks for what the kernel did; it must not be what kills.
_STOPPED = """
import os, signal, sys
from qsched.scheduler.clock import boottime
from qsched.scheduler.running.kernel_lease import KernelTimer
timer = KernelTimer()
timer.set(boottime() + 600)
timer.set(boottime() + float(sys.argv[1]))
os.kill(os.getpid(), signal.SIGSTOP)
print("went on")
"""


class Clocks:
    """Boot time and monotonic time, which part while the machine sleeps."""

    def __init__(self) -> None:
        self.monotonic = ManualClock(monotonic=50.0)
        self.boot = 1000.0

    def pass_time(self, seconds: float) -> None:
        self.monotonic.advance_monotonic(seconds)
        self.boot += seconds

    def sleep(self, seconds: float) -> None:
        self.boot += seconds

    def deadline(self) -> LeaseDeadline:
        return LeaseDeadline(self.monotonic, lambda: self.boot)


def test_a_lease_ends_at_the_same_instant_by_both_clocks() -> None:
    clocks = Clocks()
    deadline = clocks.deadline()
    clocks.pass_time(5)
    assert deadline.of(55.0 + 14) == clocks.boot + 14


def test_a_sleep_of_the_machine_before_a_renewal_was_asked_for_changes_nothing() -> None:
    clocks = Clocks()
    deadline = clocks.deadline()
    deadline.of(64.0)
    clocks.sleep(3600)
    deadline.of(clocks.monotonic.monotonic() + 14)  # may be too early by what was slept, never too late
    clocks.pass_time(1)
    assert deadline.of(clocks.monotonic.monotonic() + 14) == clocks.boot + 14


def test_a_sleep_between_a_renewals_question_and_its_answer_counts_against_the_lease() -> None:
    clocks = Clocks()
    deadline = clocks.deadline()
    sent = clocks.monotonic.monotonic()
    granted_until = clocks.boot + 14
    clocks.sleep(3600)
    assert deadline.of(sent + 14) <= granted_until


def test_a_slow_look_at_the_clocks_makes_no_later_renewal_too_early() -> None:
    clocks = Clocks()

    def slow() -> float:
        seen = clocks.boot
        clocks.pass_time(delays.pop() if delays else 0.0)
        return seen

    delays: list[float] = []
    deadline = LeaseDeadline(clocks.monotonic, slow)
    delays.append(10.0)
    deadline.of(64.0)
    assert deadline.of(clocks.monotonic.monotonic() + 14) == clocks.boot + 14


@pytest.mark.parametrize("seconds", [0.3, -5.0])
def test_the_kernels_timer_kills_a_stopped_process(seconds: float) -> None:
    process = subprocess.run(
        [sys.executable, "-c", _STOPPED, str(seconds)], capture_output=True, timeout=60, check=False
    )
    assert (process.returncode, process.stdout) == (-signal.SIGKILL, b"")


class Host:
    """support/process_host.py in a process of its own, with a body begun in a worker."""

    def __init__(self, folder: Path, lease: float, how: str, job: str = "clean_up") -> None:
        self.folder = folder
        words = [sys.executable, "-m", "support.process_host", str(folder), str(lease), how, job]
        self.node = NodeProcess(folder, words)
        wait_until((folder / "began").exists, f"the body to begin:\n{self.node.log()}", within=60)
        (self.host,) = [
            process
            for process in (psutil.Process(self.node.pid), *children_of(self.node.pid))
            if process.pid == int((folder / "began").read_text())
        ]
        children = self.host.children()
        self.guardians = [child for child in children if "process_guardian" in " ".join(child.cmdline())]
        (self.worker,) = [
            *(child for guardian in self.guardians for child in guardian.children()),
            *(child for child in children if child not in self.guardians),
        ]
        """What runs the body: a child of the guardian, or a command, which is the node's own."""

    def outcome(self) -> tuple[str, str]:
        wait_until((self.folder / "outcome").exists, f"the outcome:\n{self.node.log()}")
        kind, message = json.loads((self.folder / "outcome").read_text())
        return kind, message


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    hosts: list[Host] = []

    def start(*arguments: object) -> Host:
        hosts.append(Host(tmp_path / str(len(hosts)), *arguments))  # type: ignore[arg-type]
        return hosts[-1]

    yield start
    for each in hosts:
        each.node.kill()


@pytest.mark.parametrize("job", ["breed", "recoverable command"])
def test_a_stopped_nodes_body_is_killed_within_its_lease_and_with_it_all_that_it_started(
    host: Callable[..., Host], job: str
) -> None:
    node = host(LEASE, "renews", job)
    wait_until(node.worker.children, "what the body starts")
    started = node.worker.children(recursive=True)
    node.host.send_signal(signal.SIGSTOP)
    _wait_for_end(node.worker, *started)
    assert ended(node.guardians[0].pid)
    assert node.host.status() == psutil.STATUS_STOPPED
    node.host.send_signal(signal.SIGCONT)
    assert node.outcome() == ("lost", "lease_lost")
    wait_until((node.folder / "again").exists, "another body")
    assert (node.folder / "again").read_text() == "succeeded", "the node that comes back has another guardian"


def test_a_body_is_killed_also_when_all_are_stopped(host: Callable[..., Host]) -> None:
    node = host(LEASE, "renews", "breed")
    started = node.worker.children(recursive=True)
    for process in (node.host, *node.guardians, node.worker, *started):
        process.send_signal(signal.SIGSTOP)
    _wait_for_end(*node.guardians, node.worker, *started)
    assert node.host.status() == psutil.STATUS_STOPPED


def test_a_renewed_lease_lets_a_body_run_on_that_holds_the_interpreters_lock(
    host: Callable[..., Host],
) -> None:
    node = host(0.5, "renews", "hold_gil")
    ending = boottime() + 1.6
    wait_until(lambda: boottime() > ending or ended(node.worker.pid), "three leases to pass")
    assert not ended(node.worker.pid)


@pytest.mark.parametrize("job", ["clean_up", "recoverable command"])
def test_a_lease_that_is_not_renewed_ends_bodies_while_the_node_lives(
    host: Callable[..., Host], job: str
) -> None:
    node = host(LEASE, "once", job)
    assert node.outcome() == ("lost", "lease_lost")


@pytest.mark.parametrize(
    ("how", "job"),
    [("renews", "breed"), ("never", "breed"), ("never", "recoverable command"), ("never", "command")],
)
def test_a_killed_node_takes_its_bodies_along_at_once(host: Callable[..., Host], how: str, job: str) -> None:
    node = host(600, how, job)
    started = node.worker.children(recursive=True)
    if how == "never":
        for process in (*node.guardians, node.worker, *started):
            process.send_signal(signal.SIGSTOP)  # so that they see nothing of it themselves
    node.host.send_signal(signal.SIGKILL)
    _wait_for_end(*node.guardians, node.worker, *started)


def test_a_command_that_nobody_else_may_run_outlasts_a_lease_and_needs_no_guardian(
    host: Callable[..., Host],
) -> None:
    node = host(0.5, "once", "command")
    assert node.guardians == []
    over = boottime() + 1.0
    wait_until(lambda: boottime() > over or ended(node.worker.pid), "two leases to pass")
    assert not ended(node.worker.pid)


def test_a_stopped_guardian_holds_nobody_up(host: Callable[..., Host]) -> None:
    node = host(LEASE, "renews")
    node.guardians[0].send_signal(signal.SIGSTOP)
    assert node.outcome() == ("lost", "lease_lost")


def _wait_for_end(*processes: psutil.Process) -> None:
    def left() -> list[psutil.Process]:
        return [process for process in processes if not ended(process.pid)]

    try:
        wait_until(lambda: not left(), "the end", within=10)
    except AssertionError:
        raise AssertionError(f"still there: {left()}") from None
