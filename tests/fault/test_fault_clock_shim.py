"""The shim moves a process's wall clock while it runs, and leaves its waiting alone."""

import subprocess
import sys
from pathlib import Path

import pytest
from qsched.scheduler.clock import SystemClock

from fault.clock_shim import MovedClock, built, compiler

_SCRIPT = """
import sys, threading
from qsched.scheduler.clock import SystemClock
clock = SystemClock()
for line in sys.stdin:
    before = clock.monotonic()
    threading.Event().wait(0.05)
    print(clock.wall(), clock.monotonic() - before, flush=True)
"""


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler on this machine")
def test_a_wall_clock_is_moved_while_its_process_runs(tmp_path: Path) -> None:
    shim = built(tmp_path)
    assert shim is not None
    clock = MovedClock(shim, tmp_path / "offset")
    moved = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**clock.environment, "PATH": "/usr/bin:/bin"},
    )
    with moved:
        assert moved.stdin is not None
        assert moved.stdout is not None
        for offset in (0.0, -60.0, 3600.0, 0.0):
            clock.move(offset)
            assert clock.seconds == offset
            moved.stdin.write("now\n")
            moved.stdin.flush()
            wall, waited = map(float, moved.stdout.readline().split())
            assert abs(wall / 1e6 - offset - SystemClock().wall() / 1e6) < 5.0
            assert 0.05 <= waited < 5.0
        moved.stdin.close()
