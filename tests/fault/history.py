"""The history of a run: one JSON object a line, appended by every process with one write, stamped by one monotonic clock."""

import json
import os
from pathlib import Path
from typing import Any

from qsched.scheduler.clock import SystemClock

_clock = SystemClock()


def append(path: str | Path, what: str, **said: Any) -> None:
    """Add one line, whole or not at all; `mono` (seconds, the same for every process of a machine) is added."""
    line = json.dumps({"what": what, "mono": round(_clock.monotonic(), 6), **said}, separators=(",", ":"))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode() + b"\n")
    finally:
        os.close(descriptor)


class History:
    """What the harness itself does and sees, in `folder`/history.jsonl; thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "history.jsonl"

    def say(self, what: str, **said: Any) -> None:
        append(self.path, what, **said)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of one file, in order; a torn last line (the disk was full) is left out."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found
