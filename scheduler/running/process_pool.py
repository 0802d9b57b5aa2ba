"""A node's worker processes: started when they are needed, kept for the next body for a while, ended with the lease."""

import logging
import sys
import threading
from typing import Final

from ..clock import Clock
from ..errors import LEASE_LOST, SHUTDOWN
from ..loaded_job import Allowed
from .guardian import Guardian, GuardianGone
from .kernel_lease import LeaseDeadline
from .process_channel import ProcessChannel
from .tether import NodeLife, Tether

KEEP: Final = 60.0
"""Seconds for which an idle worker is kept."""
_LAST_WAIT: Final = 3.0
_START_WITHIN: Final = 10.0
_MOST_TOLD: Final = 100

log = logging.getLogger("qsched.runner")


class NotBegun(Exception):
    """The body was not begun here, and is not going to be: others may run it."""


class ProcessPool:
    """One per node. There are as many workers as bodies run at once: a worker that is free is used again."""

    def __init__(self, clock: Clock, *, keep: float = KEEP) -> None:
        self.clock = clock
        self._keep = keep
        self._deadline = LeaseDeadline(clock)
        self._lease: float | None = None
        self._lock = threading.Lock()
        self._guardian: Guardian | None = None
        self._idle: list[tuple[ProcessChannel, float]] = []
        self._busy = 0
        self._closed = self._unguarded = False
        self._life: NodeLife | None = None
        self._told: set[str] = set()

    def take(self, allowed: Allowed) -> ProcessChannel:
        """A worker for one body, an idle one if there is; raises NotBegun, GuardianGone, or OSError."""
        with self._lock:
            if self._closed:
                raise NotBegun("the node takes no more work")
            while self._idle:
                channel, _ = self._idle.pop()  # the one that was used last: the others may grow old
                if channel.alive and channel.allowed == allowed:
                    break
                channel.retire()
            else:
                channel = ProcessChannel(self._guard(), allowed, self.clock)
            self._busy += 1
        return channel

    def give_back(self, channel: ProcessChannel, *, again: bool) -> None:
        """Its body has ended; `again`: it may be used for another."""
        with self._lock:
            kept = again and channel.alive and not self._closed
            if kept:
                self._idle.append((channel, self.clock.monotonic()))
        if not kept:
            channel.retire()
        self._less_busy()

    def tether(self, *, leased: bool) -> Tether | None:
        """What ends a command with the node, and with its lease where it is `leased`.

        None where this system has no such thing, or no guardian can be started. Raises GuardianGone where the lease has
        just ended.
        """
        if sys.platform != "linux":
            return None
        with self._lock:
            if self._closed:
                return None  # it is not started either
            guardian = self._guard() if leased and not self._unguarded else None
            self._busy += 1
        try:
            if guardian is None or not self._guards(guardian):
                return Tether(self._own_life(), lambda: None, self._less_busy)
            return Tether(guardian.life(), guardian.why_gone, self._less_busy)
        except OSError as error:
            self.tell_once(f"{error}: commands may outlive this node", "command.untethered")
        except GuardianGone:
            self._less_busy()
            raise
        self._less_busy()
        return None

    def _guards(self, guardian: Guardian) -> bool:
        if guardian.ready(_START_WITHIN):
            return True
        if guardian.reason is not None:  # it had no time to
            raise GuardianGone
        self._unguarded = True
        self.tell_once(
            "its guardian does not start: commands may outlive this node's lease", "command.unleased"
        )
        return False

    def _own_life(self) -> int:
        with self._lock:
            if self._life is None:
                self._life = NodeLife()
            return self._life.opened()

    def renew(self, trusted_until: float) -> None:
        """What runs may run until then, by the monotonic clock; never blocks. Without it there is no lease to end with."""
        until = self._deadline.of(trusted_until)
        with self._lock:
            self._lease = until if self._lease is None else max(self._lease, until)
            guardian = self._guardian
        if guardian is not None:
            guardian.renew(until)

    def kill(self, *, leaving: bool) -> int:
        """End all workers by force, at once; answers how many there were.

        When `leaving`, none is started any more, and it returns when they are gone.
        """
        with self._lock:
            self._closed = self._closed or leaving
            guardian, self._guardian = self._guardian, None
            idle, self._idle = self._idle, []
        for channel, _ in idle:
            channel.close()
        if guardian is None:
            return 0
        killed = guardian.kill(SHUTDOWN if leaving else LEASE_LOST)
        if leaving:
            self.clock.wait(guardian.gone, _LAST_WAIT)
        return killed

    def close(self) -> None:
        """Take nothing more; workers leave, those that have a body when that has ended."""
        with self._lock:
            self._closed = True
            self._busy += 1
            guardian, idle, self._idle = self._guardian, self._idle, []
        for channel, _ in idle:
            channel.retire()
        if not self._less_busy() and guardian is not None:
            self.clock.wait(guardian.gone, _LAST_WAIT)

    def _less_busy(self) -> int:
        """Something that needed the guardian has ended; the last of all lets it leave. Answers how much is left."""
        with self._lock:
            self._busy -= 1
            busy, guardian, life = self._busy, self._guardian, self._life
            leaves = self._closed and not busy
            if leaves:
                self._life = None
        if leaves and guardian is not None:
            guardian.close()
        if leaves and life is not None:
            life.close()
        return busy

    def retire_idle(self) -> int:
        """Let those leave that nobody has needed for a while; answers how many."""
        before = self.clock.monotonic() - self._keep
        with self._lock:
            old = [channel for channel, since in self._idle if since <= before or not channel.alive]
            self._idle = [(channel, since) for channel, since in self._idle if channel not in old]
        for channel in old:
            channel.retire()
        return len(old)

    def tell_once(self, reason: str, event: str = "process.cannot_load") -> None:
        """Log what is wrong with processes here, once for each reason."""
        if reason not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(reason)
            log.error("%s reason=%s", event, reason)

    def _guard(self) -> Guardian:
        if self._guardian is None or self._guardian.gone.is_set():
            self._guardian = Guardian(self.clock, self._lease, self.retire_idle, LEASE_LOST)
        return self._guardian
