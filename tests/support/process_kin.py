"""Which processes of this machine run: by their number, and by whose they are."""

import psutil


def ended(pid: int) -> bool:
    """Whether a process runs no more, be it a zombie."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def children_of(pid: int) -> list[psutil.Process]:
    """All that a process started and that is still there, zombies too."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
