"""Real nodes that a leader leads: who it is by the database's word, and what the row says while it changes."""

import signal
from typing import NamedTuple

from qsched.scheduler.clock import SystemClock
from qsched.scheduler.store.cluster_rows import Coordination, coordination
from qsched.scheduler.store.database import Store

from .nodes import NodeProcess, Nodes
from .waiting import wait_until

_clock = SystemClock()


class Change(NamedTuple):
    """One leader after another, seconds after the first was killed."""

    epoch: int
    after: float


class Leaders:
    """Looks at the row of one cluster, and at which process its leader is."""

    def __init__(self, nodes: Nodes, store: Store) -> None:
        self._nodes = nodes
        self._store = store

    def row(self) -> Coordination:
        return self._store.read("coordination", coordination)

    def pid(self) -> int | None:
        """The process that leads."""
        found: list[int] = self._store.read(
            "leader",
            lambda tx: [
                row[0]
                for row in tx.run(
                    "SELECT n.pid FROM qsched_clusters c JOIN qsched_nodes n ON n.incarnation = c.leader_incarnation"
                    " WHERE c.id = ? AND c.leader_until > ?",
                    tx.cluster,
                    tx.now(),
                )
            ],
        )
        return found[0] if found else None

    def leader(self) -> NodeProcess:
        """The node that leads, once one does."""
        wait_until(lambda: self._leading() is not None, "a leader", within=60)
        node = self._leading()
        assert node is not None
        return node

    def _leading(self) -> NodeProcess | None:
        number = self.pid()
        return next((node for node in self._nodes.all if node.pid == number), None)

    def kill(self) -> Change:
        """Kill the leader; the next one, and how long there was none."""
        leader, epoch = self.leader(), self.row().epoch
        leader.signal(signal.SIGKILL)
        began = _clock.monotonic()
        wait_until(lambda: self.row().epoch > epoch, "the next leader", within=60)
        return Change(self.row().epoch, _clock.monotonic() - began)
