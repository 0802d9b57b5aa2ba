"""How a node is set up: plain values, checked once, owned by the node that is made of them."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..scheduler.running.http_address import HttpAllow
from ..scheduler.store.cluster_rows import LEADER, REDIS, ROW_LOCKS, SQL
from ..triggers.duration import format_duration
from ..triggers.instant import SECOND
from .errors import NodeSettingsError
from .redis_url import check_redis_url

APPLY = ("if-newer", "always", "never")
STOP = "stop"
LEADER_TTL = 5 * SECOND


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """One node's settings; durations in µs. Raises NodeSettingsError for what makes no sense."""

    name: str | None = None
    """A label; None: host name and process id."""
    capacity: int = 20
    apps: Sequence[str] = ()
    files: Sequence[Path] = ()
    apply: str = "if-newer"
    allow: Sequence[str] = ()
    http_allow: Sequence[str] = ()
    """Hosts, addresses and ranges that http jobs may reach besides the public internet."""
    tags: Sequence[str] = ()
    check_in: int = SECOND
    lease: int = 15 * SECOND
    drain_timeout: int = 25 * SECOND
    cluster: str = "default"
    coordination: str | None = None
    """row_locks or leader; None: leader where a Redis is named, else the cluster's way."""
    redis: str | None = field(default=None, repr=False)  # it may hold a password
    """The URL of the Redis that elects the leader; with row_locks it only carries wake-ups."""
    leader_ttl: int | None = None
    """How long a leader's lease lasts; None: 5 s, or three check-ins where that is more. The same on all nodes."""
    on_redis_loss: str = ROW_LOCKS
    """What a cluster does that has lost its Redis: go on with row_locks, or stop deciding. The same on all nodes."""
    embedded: bool = False
    """Inside somebody's application: never ends the process, installs no signal handlers."""
    host: str = field(default_factory=socket.gethostname)

    def __post_init__(self) -> None:
        if not 1 <= self.capacity <= 10_000:
            raise NodeSettingsError(
                f"capacity must be 1 to 10000, and {self.capacity} is not: write --capacity 20"
            )
        if self.apply not in APPLY:
            raise NodeSettingsError(f"apply must be one of {', '.join(APPLY)}, and {self.apply!r} is not")
        if self.check_in < SECOND // 20:
            raise NodeSettingsError(
                f"check-in must be at least 50ms, and {format_duration(self.check_in)} is not"
            )
        if self.lease < 3 * self.check_in:
            raise NodeSettingsError(
                f"lease must be at least three check-ins, and {format_duration(self.lease)} is less than"
                f" 3 x {format_duration(self.check_in)}: raise --lease or lower --check-in"
            )
        if self.drain_timeout < 0:
            raise NodeSettingsError("drain timeout must not be negative")
        try:
            HttpAllow.of(self.http_allow)
        except ValueError as error:
            raise NodeSettingsError(f"http-allow: {error}") from error
        self._check_coordination()

    def _check_coordination(self) -> None:
        if self.coordination not in (None, ROW_LOCKS, LEADER):
            raise NodeSettingsError(
                f"coordination must be {ROW_LOCKS} or {LEADER}, and {self.coordination!r} is not"
            )
        if self.on_redis_loss not in (ROW_LOCKS, STOP):
            raise NodeSettingsError(
                f"on-redis-loss must be {ROW_LOCKS} or {STOP}, and {self.on_redis_loss!r} is not"
            )
        if self.leader_ttl is not None and self.leader_ttl < 3 * self.check_in:
            raise NodeSettingsError(
                f"leader-ttl must be at least three check-ins, and {format_duration(self.leader_ttl)} is less than"
                f" 3 x {format_duration(self.check_in)}: raise --leader-ttl or lower --check-in"
            )
        if self.redis is not None:
            check_redis_url(self.redis)

    @property
    def ttl(self) -> int:
        """How long a leader's lease lasts, µs."""
        return max(LEADER_TTL, 3 * self.check_in) if self.leader_ttl is None else self.leader_ttl

    @property
    def mode(self) -> str | None:
        """The mode this node asks for; None: whatever the cluster's is."""
        return LEADER if self.coordination is None and self.redis is not None else self.coordination

    @property
    def elector(self) -> str | None:
        """The elector this node asks for, with leader mode."""
        if self.mode != LEADER:
            return None
        return SQL if self.redis is None else REDIS

    def label(self) -> str:
        """The node's name as it asks for it; a live namesake gives it a suffix."""
        return (self.name or f"{self.host}-{os.getpid()}")[:190]
