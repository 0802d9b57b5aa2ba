"""How a node is set up: plain values, checked once, owned by the node that is made of them."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..triggers.duration import format_duration
from ..triggers.instant import SECOND
from .errors import NodeSettingsError

APPLY = ("if-newer", "always", "never")


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
    tags: Sequence[str] = ()
    check_in: int = SECOND
    lease: int = 15 * SECOND
    drain_timeout: int = 25 * SECOND
    cluster: str = "default"
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

    def label(self) -> str:
        """The node's name as it asks for it; a live namesake gives it a suffix."""
        return (self.name or f"{self.host}-{os.getpid()}")[:190]
