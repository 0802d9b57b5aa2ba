"""Who this node is at the moment, for everything it writes: its incarnation, how long it may trust itself, whether it leads."""

import threading
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ..triggers.instant import SECOND

LEAST_JUMP: Final = 5.0
"""Seconds: by less than this a database's clock is slewed, or a look was slow."""


class Term(NamedTuple):
    """One leadership of ours."""

    epoch: int
    """The database's number of it: each planning transaction stands on it."""
    until: float
    """Monotonic seconds to which it may be believed: before anybody else can win the lease."""


@dataclass(slots=True)
class Identity:
    """Shared by the node's services; only the check-in and the elector change it."""

    name: str
    tags: frozenset[str] = frozenset()
    incarnation: int = 0
    cluster_uuid: str = ""
    live_nodes: int = 1
    trusted_until: float = 0.0
    """Monotonic seconds: past it others may have declared this node dead, so it starts nothing."""
    checked_in_at: float = float("-inf")
    """Monotonic seconds at which the last check-in that landed was sent."""
    draining: bool = False
    offset: int = 0
    """Database time minus this host's wall clock, µs."""
    outages: list[tuple[int, int]] = field(default_factory=list)
    """Spans (database time) in which this node could not reach the database."""
    jumps: list[tuple[int, int]] = field(default_factory=list)
    """Spans (database time) that the database's clock went past at once, set forward or in a machine that slept."""
    seen_at: tuple[int, float] | None = None
    """The database's time at the planner's last look, and the monotonic seconds before it."""
    leader_mode: bool = False
    """The cluster's row says leader, and has not fallen back: only the leader decides what is due."""
    term: Term | None = None
    """Ours, while this node leads."""
    planned_at: float = float("-inf")
    """Monotonic seconds at which this node, leading, last saw that it can plan."""
    left_by_leader: frozenset[int] = frozenset()
    """Triggers that the leader says it cannot decide: then the others do, each for itself."""
    strange_to_leader: frozenset[int] = frozenset()
    """Jobs that the leader says it cannot load: who can says what their code says of them."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def may_start(self, monotonic: float) -> bool:
        """The last look before a body's first instruction."""
        return not self.draining and monotonic < self.trusted_until

    def leads(self, monotonic: float) -> bool:
        """Whether this node may plan now. The database has the last word: it compares the epoch."""
        term = self.term
        return term is not None and monotonic < term.until and self.may_start(monotonic)

    def database_was_down(self, instant: int) -> bool:
        return any(start <= instant <= end for start, end in self.outages)

    def hear_time(self, now: int, sent: float, answered: float) -> None:
        """The database says that it is `now`; asked and answered at these monotonic seconds. Finds jumps of its clock."""
        if self.seen_at is not None:
            before, since = self.seen_at
            if now - before > (answered - since + LEAST_JUMP) * SECOND:
                self.jumps.append((before, now))
                del self.jumps[:-100]
        self.seen_at = (now, sent)

    def clock_jumped(self, instant: int) -> bool:
        return any(start < instant <= end for start, end in self.jumps)
