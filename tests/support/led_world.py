"""A world whose nodes are led by one of them: what holds under row locks holds here too, whichever node is asked first."""

from typing import Any

from qsched.cluster.elector import Election, Elector
from qsched.cluster.sql_lease import SqlLease
from qsched.scheduler.context import RunRequest
from qsched.scheduler.errors import StoreUnavailable
from qsched.scheduler.store.cluster_rows import LEADER, SQL, choose_coordination
from qsched.triggers.instant import SECOND

from .hand_node import HandNode, World

_TTL = 5 * SECOND
_ENOUGH = 4
"""Steps in which a leader loads a job and plans with it."""


class LedWorld(World):
    """Each node may lead, by the SQL lease; before one takes, whoever leads has planned."""

    def __init__(self, url: str, cluster: str = "default") -> None:
        super().__init__(url, cluster)
        self.store.transaction("choose", lambda tx: choose_coordination(tx, LEADER, SQL) and None)

    def node(self, name: str = "one", **options: Any) -> HandNode:
        node = _Standing(self, name, **options)
        self.nodes.append(node)
        node.check_in.register()
        self.hear()
        return node

    def lead(self, asked: HandNode) -> None:
        """Check-ins and electors do what is due; a leader that is not asked itself plans, and takes nothing."""
        there = [
            each for each in self.nodes if isinstance(each, _Standing) and not each.gone and not each.stopped
        ]
        for each in there:
            each.stand()
        leader = next((each for each in there if each.parts.who.leads(self.elapsed)), None)
        if leader is not None and leader is not asked:
            leader.plan()


class _Standing(HandNode):
    """One of its nodes."""

    def __init__(self, world: LedWorld, name: str, **options: Any) -> None:
        super().__init__(world, name, **options)
        self._led = world
        lease = SqlLease(self.store, self.clock, _TTL)
        self._elector = Elector(self.parts, lease, Election(SECOND, _TTL))

    def turn(self) -> list[RunRequest]:
        self._be_led()
        return super().turn()

    def tick(self) -> None:
        self._be_led()
        super().tick()

    def _be_led(self) -> None:
        self._led.lead(self)
        # The others have had their head start: here no time passes between a plan and the takes.
        self.planner._led._rests_until = float("-inf")

    def stand(self) -> None:
        try:
            if self.clock.monotonic() - self._checked_in >= 1.0:
                self.check_in.step()
                self._checked_in = self.clock.monotonic()
            self._elector.step()
        except StoreUnavailable:
            pass

    def plan(self) -> None:
        free = self.parts.hand.free
        vars(self.parts.hand)["free"] = lambda: 0
        try:
            for _ in range(_ENOUGH):
                self.planner.step()
        except StoreUnavailable:
            pass
        finally:
            vars(self.parts.hand)["free"] = free
