"""Child processes that run as an unprivileged account and cannot outlive the process that started them."""

import os
import pwd
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from .waiting import wait_until

# Runs first in the child, as the starter's own account, so that it needs nothing the unprivileged account
# could not read; the death signal is set after the change of account, because changing it clears the signal.
_LAUNCH = """
import ctypes, os, sys
starter, uid, gid, death_signal, *command = sys.argv[1:]
prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
os.setsid()
if int(uid) >= 0:
    os.setgroups([])
    os.setgid(int(gid))
    os.setuid(int(uid))
if prctl:
    prctl(1, int(death_signal), 0, 0, 0)
    if os.getppid() != int(starter):
        sys.exit("the starter is gone")
os.execv(command[0], command)
"""


@dataclass(frozen=True)
class Account:
    """The user a server runs as; -1 means whoever runs the tests."""

    uid: int = -1
    gid: int = -1

    def own(self, path: Path) -> None:
        """Give `path` to this account."""
        if self.uid >= 0:
            os.chown(path, self.uid, self.gid)


def unprivileged(*names: str) -> Account:
    """The first of `names` that exists, else nobody, when we are root; our own account otherwise."""
    if os.geteuid() != 0:
        return Account()
    for name in (*names, "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_uid, entry.pw_gid)
    raise LookupError("no unprivileged account on this machine: create a user named nobody")


def launch(
    command: Sequence[str], account: Account, folder: Path, *, death_signal: int
) -> subprocess.Popen[bytes]:
    """Start `command` in `folder`, its output in folder/log.

    It gets `death_signal` when the starting *thread* ends: start a server from a thread that outlives it.
    """
    first = [str(os.getpid()), str(account.uid), str(account.gid), str(death_signal)]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LAUNCH, *first, *command],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def run(command: Sequence[str], account: Account, folder: Path) -> None:
    """Run `command` to its end; a failure shows the end of its output."""
    code = launch(command, account, folder, death_signal=signal.SIGKILL).wait(timeout=120)
    if code != 0:
        raise RuntimeError(f"{command[0]} ended with {code}:\n{log_end(folder)}")


def log_end(folder: Path) -> str:
    """The last lines a server or set-up command wrote."""
    return (folder / "log").read_text(errors="replace")[-3000:]


def family(pid: int) -> list[psutil.Process]:
    """The process and all its descendants, parents first; empty when it is gone."""
    try:
        head = psutil.Process(pid)
        return [head, *head.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def signal_family(pid: int, number: int) -> None:
    """Send a signal to the process and all its descendants, and return when killed ones run no more."""
    members = family(pid)
    for member in members:
        with suppress(psutil.NoSuchProcess):
            member.send_signal(number)
    if number == signal.SIGSTOP:  # thread by thread: one that has not stopped yet may still answer
        wait_until(lambda: all(map(_stands, members)), f"process {pid} and its children to stand")
    if number == signal.SIGKILL:
        wait_until(lambda: not any(map(_runs, members)), f"process {pid} and its children to end")


def _runs(process: psutil.Process) -> bool:
    # A zombie waits only for its new parent to notice: it holds no memory, file or lock.
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _stands(process: psutil.Process) -> bool:
    """Whether every thread of it is stopped (or it has ended)."""
    try:
        states = [
            Path(f"/proc/{process.pid}/task/{thread.id}/stat").read_text().rpartition(")")[2].split()[0]
            for thread in process.threads()
        ]
    except (psutil.NoSuchProcess, psutil.ZombieProcess, OSError):
        return True
    return all(state in "TtZX" for state in states)


def free_port() -> int:
    """A port on 127.0.0.1 that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment(folder: Path) -> dict[str, str]:
    # A developer's PGDATA or MYSQL_HOME must not reach a private server.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "MYSQL", "MARIADB"))}
    return kept | {"LC_ALL": "C", "HOME": str(folder), "TMPDIR": str(folder)}
