"""Whether a process of this host is gone: known by its id and a mark that no later process of that id shares.

The mark holds when the process started and in whose sight: a container that shares the host's name and a file with another
does not see the other's processes, and must not take them for gone. Where a host does not tell, nothing is known.
"""

import hashlib
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_TICKS = 42
"""Bits of the mark for the start (clock ticks since the host's): the 20 above them say in whose sight."""
_ENDED = {"Z", "X"}


def mark_of(pid: int) -> int | None:
    """The mark of a process that runs here now; None where this host does not tell."""
    sight, started = _sight(), _started(pid)
    return None if sight is None or started is None else sight << _TICKS | started % (1 << _TICKS)


def is_gone(pid: int, mark: int) -> bool | None:
    """Whether the process that bore this mark has ended; None where that cannot be known from here."""
    sight = _sight()
    if sight is None or mark >> _TICKS != sight:
        return None
    found = mark_of(pid)
    if found is None and _hidden(pid):
        return None
    return found != mark


def _hidden(pid: int) -> bool:
    """Whether there is such a process, of another user, about which this host says no more to us."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return not (_PROC / str(pid)).exists()
    except (OSError, OverflowError):
        return False
    return False


def _started(pid: int) -> int | None:
    """When a process started, in ticks; None when there is none, or only its corpse (killed, and not yet waited for)."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text[text.rfind(")") + 2 :].split()  # its name, in brackets, may hold anything
    state, threads, started = fields[0], int(fields[17]), int(fields[19])
    return None if state in _ENDED and threads <= 1 else started


@cache
def _sight() -> int | None:
    """This boot of this host, and the processes that can be seen from here, as 20 bits."""
    with suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()
        seen = (_PROC / "self/ns/pid").readlink()
        return int.from_bytes(hashlib.sha256(f"{boot}{seen}".encode()).digest()[:3]) >> 4
    return None
