"""The node's side of its guardian process: starts it, tells it what to start and how long, hears what ended."""

import contextlib
import json
import logging
import os
import select
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..clock import Clock, boottime
from .kernel_lease import opened_again
from .process_frames import FrameReader, framed
from .process_group import group_lives

_PIECE = 64 * 1024
_TICK = 5.0
"""Seconds between calls of `tick`."""
_LAST_LOOK, _LAST_LOOKS = 0.01, 300
_RETIRED = 2.0
"""Seconds that a worker gets to leave by itself."""

log = logging.getLogger("qsched.runner")


class GuardianGone(Exception):
    """There is no guardian any more."""


class Fate(NamedTuple):
    """How a worker process ended."""

    status: int | None = None
    """As of Popen: −n for signal n; None where nobody saw it."""
    unstarted: str | None = None
    """Why it could not be started at all."""
    reason: str | None = None
    """Why all processes were ended, by the node or with its lease; None where it went by itself."""


class Ward:
    """One worker process as the guardian knows it; `fate` is set once it is gone, and then `gone` is called."""

    def __init__(self, number: int, gone: Callable[[], None]) -> None:
        self.number = number
        self.pid: int | None = None
        self.fate: Fate | None = None
        self._gone = gone

    def end(self, fate: Fate) -> None:
        if self.fate is None:
            self.fate = fate
            self._gone()


class Guardian:
    """One guardian process. The thread that starts it hears it and lives as long: the kernel ends the process with it."""

    def __init__(self, clock: Clock, lease: float | None, tick: Callable[[], object], lost: str) -> None:
        """`lease` is in boot time; `lost` is the reason of what ends when that is over."""
        self._clock = clock
        self._armed: float | None = None
        self._tick = tick
        self._lost = lost
        self._lock = threading.Lock()
        self._wards: dict[int, Ward] = {}
        self._numbers = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._killed: str | None = None
        self._over = False
        self._frames = FrameReader()
        self.reason: str | None = None
        """Why it ended all: the node's reason, or that of the lease; None where it was killed by somebody else."""
        self.gone = threading.Event()
        """Set once the process and all its workers are gone."""
        self._guards = False
        self._heard = threading.Event()
        """Set once it has begun to guard, or will not."""
        self._control, self._theirs = socket.socketpair()
        self._control.setblocking(False)
        _guardians.add(self)
        self._life, theirs = os.pipe()
        """The reading end of a pipe whose only writing end is the guardian's."""
        self._send({"life": True}, theirs)
        os.close(theirs)
        if lease is not None:
            self._send({"lease": lease})
        self._keeper = threading.Thread(target=self._keep, name="qsched-guardian", daemon=True)
        self._keeper.start()

    def ready(self, timeout: float) -> bool:
        """Wait until it has begun to guard; False where it has not."""
        self._clock.wait(self._heard, timeout)
        return self._guards

    def life(self) -> int:
        """A descriptor that can be read once the guardian has ended, an open file of its own; raises GuardianGone or OSError."""
        with self._lock:
            if self._over:
                raise GuardianGone
            return opened_again(self._life)

    def why_gone(self) -> str | None:
        """Why it ended all, once it has; None where it was killed by somebody else."""
        self._clock.wait(self.gone, _LAST_LOOK * _LAST_LOOKS)
        return self.reason

    def start(self, argv: Sequence[str], channel: socket.socket, gone: Callable[[], None]) -> Ward:
        """Have a worker started that has `channel` as its standard input; raises GuardianGone."""
        with self._lock:
            self._numbers += 1
            ward = Ward(self._numbers, gone)
            self._wards[ward.number] = ward
        try:
            self._send({"start": ward.number, "argv": list(argv)}, channel.fileno())
        except GuardianGone:
            with self._lock:
                self._wards.pop(ward.number, None)
            raise
        return ward

    def signal(self, ward: Ward, number: int) -> None:
        """Signal the worker's whole group; nothing happens where it is gone."""
        self._tell({"signal": ward.number, "number": number})

    def retire(self, ward: Ward) -> None:
        """Its channel is closed: it is killed if it has not left by itself in a moment."""
        self._tell({"retire": ward.number, "within": _RETIRED})

    def renew(self, lease: float) -> None:
        """Let it live until `lease` (boot time); never blocks."""
        self._tell({"lease": lease})

    def close(self) -> None:
        """Let it end as soon as no worker is left."""
        self._tell({"close": True})

    def kill(self, reason: str) -> int:
        """End it and all its workers by force, at once; answers how many those are."""
        with self._lock:
            if self._over:
                return 0
            self._killed = self._killed or reason
            if self._process is not None:
                self._process.kill()
            return len(self._wards)

    def _tell(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(GuardianGone):
            self._send(message)

    def _send(self, message: Mapping[str, Any], descriptor: int | None = None) -> None:
        data, sent = framed(message), 0
        with self._lock:
            if self._over:
                raise GuardianGone
            try:
                if descriptor is None:
                    sent = self._control.send(data)
                else:
                    sent = socket.send_fds(self._control, [data], [descriptor])
            except OSError:
                pass
            if sent == len(data):
                return
            # It has not listened for a long time, or is going: what it does not hear must not be done without it.
            self._killed = self._killed or self._lost
            if self._process is not None:
                self._process.kill()
        raise GuardianGone

    # -- the keeper's thread -------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        unstarted = None
        try:
            process = self._launch()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            unstarted = f"the guardian of process jobs cannot be started: {error}"
            log.error("process.no_guardian reason=%s", error)
        else:
            try:
                self._listen()
            except Exception:
                log.exception("process.guardian_unheard")
            process.kill()
            process.wait()
        finally:
            self._theirs.close()
        self._finish(unstarted)

    def _launch(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            python_argv("process_guardian", str(os.getpid())),
            stdin=self._theirs.fileno(),
            start_new_session=True,
            # as commands have it: the store's password is no job's business
            env={name: value for name, value in os.environ.items() if not name.startswith("QSCHED_")},
        )
        self._theirs.close()  # its end must be seen when it goes
        with self._lock:
            self._process = process
            if self._killed is not None:
                process.kill()
        return process

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            if not poll.poll(_TICK * 1000):
                self._tick()
                continue
            try:
                piece = self._control.recv(_PIECE)
            except OSError:
                return
            if not piece:
                return
            for message in self._frames.feed(piece):
                self._hear(message)

    def _hear(self, message: Mapping[str, Any]) -> None:
        if "untimed" in message:
            log.warning(
                "process.untimed reason=%s: this system keeps no timer for the lease; bodies of a stopped node may outlast it",
                message["untimed"],
            )
            return
        if "ready" in message:
            self._guards = True
            self._heard.set()
            return
        if "armed" in message:
            self._armed = message["armed"]
            return
        number = message.get("started") or message.get("unstarted") or message.get("gone")
        ward = self._wards.get(number) if isinstance(number, int) else None
        if ward is None:
            return
        if "started" in message:
            ward.pid = message["pid"]
            return
        with self._lock:
            del self._wards[ward.number]
        ward.end(Fate(message.get("status"), message.get("why")))

    def _finish(self, unstarted: str | None) -> None:
        """The process is gone: so are its workers, or will be in a moment, and then they are told of."""
        over = self._armed is not None and boottime() >= self._armed
        with self._lock:
            self._over = True
            self._control.close()
            os.close(self._life)
            wards = list(self._wards.values())
            self._wards.clear()
            self.reason = reason = self._killed or (self._lost if over else None)
        for ward in wards:
            if ward.pid is not None:
                self._wait_for_group(ward.pid)
        if wards and unstarted is None:
            log.warning("process.guardian_gone workers=%s reason=%s", len(wards), reason or "it was killed")
        for ward in wards:
            ward.end(Fate(unstarted=unstarted, reason=reason))
        self.gone.set()
        self._heard.set()

    def _wait_for_group(self, group: int) -> None:
        """Until the kernel has ended a worker's group; where this process is the first of all it also reaps it."""
        never = threading.Event()
        for _ in range(_LAST_LOOKS):
            if not group_lives(group):
                return
            self._clock.wait(never, _LAST_LOOK)
        log.error("process.left group=%s: it outlived its guardian", group)


def python_argv(module: str, *arguments: str) -> list[str]:
    """The command that calls `main` of a module beside this one in a fresh interpreter, which imports as this one does."""
    path = json.dumps([each or os.getcwd() for each in sys.path if isinstance(each, str)])
    code = f"import sys, json; sys.path[:] = json.loads(sys.argv[1]); from {__package__}.{module} import main; main(sys.argv[2:])"
    if not sys.executable:
        raise OSError("it is not known where this Python interpreter is (sys.executable)")
    return [sys.executable, "-c", code, path, *arguments]


_guardians: "weakref.WeakSet[Guardian]" = weakref.WeakSet()


def _leave_to_parent() -> None:
    """In a forked child: the guardian belongs to the parent, and must see its sockets end with that one."""
    for guardian in list(_guardians):
        guardian._control.close()
        guardian._theirs.close()
        if not guardian._over:
            os.close(guardian._life)
        if guardian._process is not None:
            guardian._process.returncode = 0  # not ours to wait for
    _guardians.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
