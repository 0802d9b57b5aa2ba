"""The guardian where the kernel does less than Linux: it looks at its lease itself, and sees its node's end on its channel."""

import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.clock import boottime
from qsched.scheduler.running.process_frames import MOST, BrokenFrame, FrameReader, framed

from support.process_kin import ended
from support.waiting import wait_until

# The guardian of a system that has neither timers for it nor signals for orphans.
_PLAIN = """
import sys
from qsched.scheduler.running import process_guardian

def no_timer():
    raise OSError("no such timer")

process_guardian.KernelTimer = no_timer
process_guardian.end_with_parent = lambda parent: None
process_guardian.end_group_with_pipe = lambda descriptor, group: None
process_guardian.main(["0"])
"""


class PlainGuardian:
    """One of these, whose node the test is."""

    def __init__(self) -> None:
        self.node, theirs = socket.socketpair()
        self.node.settimeout(30)
        self._frames = FrameReader()
        self._heard: list[dict[str, Any]] = []
        with theirs:
            self.process = subprocess.Popen([sys.executable, "-c", _PLAIN], stdin=theirs.fileno())
        assert "ready" in self.hear()

    def hear(self) -> dict[str, Any]:
        while not self._heard:
            self._heard += self._frames.feed(self.node.recv(65536))
        return self._heard.pop(0)

    def start(self, text: str) -> int:
        """A worker of that shell text; its process."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            message = framed({"start": 1, "argv": ["/bin/sh", "-c", text]})
            socket.send_fds(self.node, [message], [theirs.fileno()])
        return int(self.hear()["pid"])


@pytest.fixture
def guardian() -> Iterator[PlainGuardian]:
    made = PlainGuardian()
    with closing(made.node):
        yield made
        made.process.kill()
        made.process.wait()


def child_of(mark: Path) -> int:
    wait_until(lambda: mark.exists() and mark.read_text().strip(), "the child")
    return int(mark.read_text())


def test_the_guardian_ends_bodies_at_their_lease_where_the_kernel_does_not(
    guardian: PlainGuardian, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    guardian.node.sendall(framed({"lease": boottime() + 600}))
    assert "untimed" in guardian.hear()
    assert "armed" in guardian.hear()
    worker = guardian.start(f"trap '' TERM; sleep 600 & echo $! > {mark}; wait; sleep 600")
    child = child_of(mark)
    guardian.process.send_signal(signal.SIGTERM)  # a supervisor's, which is the node's to heed
    guardian.node.sendall(framed({"lease": boottime() + 0.2}))  # leases only grow: old news
    guardian.node.sendall(framed({"lease": boottime() + 600.5}))
    assert "armed" in guardian.hear()
    assert not ended(worker)
    guardian.node.close()
    wait_until(lambda: ended(worker) and ended(child), "both to end")
    assert guardian.process.wait(30) == 0


def test_a_lease_that_is_over_is_the_end_of_all(guardian: PlainGuardian) -> None:
    guardian.node.sendall(framed({"lease": boottime() + 1.0}))
    worker_said = [guardian.hear(), guardian.hear()]
    assert {next(iter(said)) for said in worker_said} == {"untimed", "armed"}
    worker = guardian.start("trap '' TERM; while :; do sleep 1; done")
    assert guardian.process.wait(30) == 0
    wait_until(lambda: ended(worker), "the worker to end")


def test_a_retired_worker_that_does_not_leave_is_killed_and_its_status_told(guardian: PlainGuardian) -> None:
    guardian.start("trap '' TERM; while :; do sleep 1; done")
    guardian.node.sendall(framed({"retire": 1, "within": 0.05}))
    assert guardian.hear() == {"gone": 1, "status": -signal.SIGKILL}


def test_what_cannot_be_started_is_told_and_the_guardian_lives_on(guardian: PlainGuardian) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        message = framed({"start": 7, "argv": ["/nowhere/python"]})
        socket.send_fds(guardian.node, [message], [theirs.fileno()])
    said = guardian.hear()
    assert said["unstarted"] == 7
    assert "/nowhere/python" in said["why"]
    guardian.start("exit 3")
    assert guardian.hear() == {"gone": 1, "status": 3}
    guardian.node.sendall(framed({"close": True}))
    assert guardian.process.wait(30) == 0


def test_frames_come_whole_however_they_are_cut() -> None:
    messages: list[dict[str, Any]] = [{"a": 1}, {"text": "ü\ud800\0" * 1000}, {}, {"list": [None, True, 1.5]}]
    data = b"".join(framed(message) for message in messages)
    for size in (1, 3, 7, 1000, len(data)):
        reader = FrameReader()
        heard = [message for at in range(0, len(data), size) for message in reader.feed(data[at : at + size])]
        assert heard == messages


@pytest.mark.parametrize(
    "frame",
    [b"\xff\xff\xff\xff", b"\0\0\0\2[]", b"\0\0\0\1{", b"\0\0\0\2\xff\xfe", struct.pack("!I", MOST + 1)],
)
def test_what_is_no_frame_is_refused(frame: bytes) -> None:
    with pytest.raises(BrokenFrame):
        list(FrameReader().feed(frame))


def test_nested_beyond_reason_is_no_frame_either() -> None:
    text = b"[" * 200_000 + b"]" * 200_000
    with pytest.raises(BrokenFrame):
        list(FrameReader().feed(struct.pack("!I", len(text)) + text))
