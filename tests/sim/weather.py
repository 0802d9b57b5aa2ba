"""What stands between the nodes and their database: partitions, outages, locks that somebody holds in doubt."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from qsched.scheduler.errors import StoreUnavailable

from .plan import Strike
from .timeline import Timeline

if TYPE_CHECKING:
    from .database import Database
    from .process import Process

REFUSED = "refused"
SILENT = "silent"


class Cut:
    """For a while nobody (of one node, or of all) reaches the database: refused at once, or nothing ever answers."""

    __slots__ = ("manner", "until")

    def __init__(self) -> None:
        self.until = 0
        self.manner = REFUSED

    def begin(self, until: int, manner: str) -> None:
        if until > self.until:
            self.until, self.manner = until, manner


class Weather:
    """The conditions of one run, changed by what strikes."""

    def __init__(self, timeline: Timeline, database: "Database", random: Random, latency: int) -> None:
        self.timeline = timeline
        self.database = database
        self.random = random
        self.latency = latency
        self.outage = Cut()
        self.partitions: dict[int, Cut] = {}
        self.locked_until = 0
        """A transaction in doubt holds its locks: nobody else's begins before."""
        self.before: bytes | None = None
        """What readers see meanwhile."""
        self.armed: list[Strike] = []
        """Faults that wait for their transaction."""
        self.unhealthy: dict[int, list[tuple[int, int]]] = {}
        """{node: spans of true time in which it could not do its work}; -1: all of them."""
        self.suspended: list[tuple[str, int, int]] = []
        """(process, from, to): spans that its own monotonic clock did not see."""

    # -- the way there -------------------------------------------------------------------------------------------------

    def travel(self) -> int:
        """How long a request or its answer is on its way, µs."""
        return int(self.random.random() ** 3 * self.latency)

    def cut_of(self, node: int) -> Cut | None:
        """What keeps this node from the database now."""
        now = self.timeline.now
        if self.outage.until > now:
            return self.outage
        cut = self.partitions.get(node)
        return cut if cut is not None and cut.until > now else None

    def reach(self, process: "Process", name: str, deadline: int) -> None:
        """Come through to the database, or raise StoreUnavailable at once or when the deadline has passed."""
        began = self.timeline.now
        while (cut := self.cut_of(process.node)) is not None:
            left = began + deadline - self.timeline.now
            if cut.manner == REFUSED or left <= 0:
                raise StoreUnavailable(f"{name}: cannot be reached ({cut.manner})")
            process.sleep(min(left, cut.until - self.timeline.now))

    def wait_for_locks(self, process: "Process", name: str, deadline: int) -> None:
        """Wait while somebody else's transaction is in doubt and holds its locks."""
        began = self.timeline.now
        while self.locked_until > self.timeline.now:
            left = began + deadline - self.timeline.now
            if left <= 0:
                raise StoreUnavailable(f"{name}: the database stayed busy")
            process.sleep(min(left, self.locked_until - self.timeline.now))
        self.before = None

    def read(self, work: Callable[[], object]) -> object:
        """Run a read: while a commit is in doubt it sees what was before it."""
        if self.before is None or self.locked_until <= self.timeline.now:
            return work()
        after = self.database.snapshot()
        self.database.restore(self.before)
        try:
            return work()
        finally:
            self.database.restore(after)

    # -- faults at a transaction ---------------------------------------------------------------------------------------

    def strike_for(self, node: int, name: str) -> Strike | None:
        """The fault that was waiting for this transaction of this node, if one was."""
        for strike in self.armed:
            if strike.node in (node, -1) and strike.name in ("", name):
                self.armed.remove(strike)
                return strike
        return None

    # -- what the checker asks -----------------------------------------------------------------------------------------

    def cut_off(self, node: int, span: int, manner: str) -> None:
        """Keep this node, or all of them (-1), from the database for a while."""
        now = self.timeline.now
        cut = self.outage if node == -1 else self.partitions.setdefault(node, Cut())
        cut.begin(now + span, manner)
        self.was_ill(node, now, now + span)

    def was_ill(self, node: int, first: int, last: int) -> None:
        """This node could not do its work from `first` to `last`, true time."""
        self.unhealthy.setdefault(node, []).append((first, last))

    def still_ill(self, node: int, at: int, longer: int) -> None:
        """What it was in the middle of at `at` takes so much longer, for its clock stands still."""
        spans = self.unhealthy.get(node, [])
        spans[:] = [(first, last + longer if first <= at < last else last) for first, last in spans]
