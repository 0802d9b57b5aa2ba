"""Who this node is at the moment, for everything it writes: its incarnation, and how long it may trust itself."""

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class Identity:
    """Shared by the node's services; only the check-in changes it."""

    name: str
    tags: frozenset[str] = frozenset()
    incarnation: int = 0
    cluster_uuid: str = ""
    live_nodes: int = 1
    trusted_until: float = 0.0
    """Monotonic seconds: past it others may have declared this node dead, so it starts nothing."""
    draining: bool = False
    offset: int = 0
    """Database time minus this host's wall clock, µs."""
    outages: list[tuple[int, int]] = field(default_factory=list)
    """Spans (database time) in which this node could not reach the database."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def may_start(self, monotonic: float) -> bool:
        """The last look before a body's first instruction."""
        return not self.draining and monotonic < self.trusted_until

    def database_was_down(self, instant: int) -> bool:
        return any(start <= instant <= end for start, end in self.outages)
