"""Whether anybody of a process group is left, when its leader is gone and nobody tells."""

import os
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def group_lives(group: int) -> bool:
    """Whether a process of the group still runs. Ask only once its leader is reaped: a zombie leader counts.

    Orphans that became our own children are reaped here (we may be PID 1). Those of somebody else are dead when
    they are zombies, however long their new parent takes to notice.
    """
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _all_zombies(group)


def _all_zombies(group: int) -> bool:
    """Whether the system shows its processes (Linux), and all of this group there are zombies."""
    try:
        numbers = [name for name in os.listdir(_PROC) if name.isdigit()]
    except OSError:
        return False
    if str(os.getpid()) not in numbers:
        return False
    for number in numbers:
        with suppress(OSError, ValueError, IndexError):
            # "pid (name, with any character) state parent group …"
            state, _, its_group = (
                (_PROC / number / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
            )
            if int(its_group) == group and state not in "ZX":
                return False
    return True
