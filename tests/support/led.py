"""A cluster in leader mode driven by hand, with either elector: time passes for its Redis as it does for everybody."""

from collections.abc import Callable
from typing import Any

from qsched.cluster.elector import Election, Elector
from qsched.cluster.lease import Lease
from qsched.cluster.redis_lease import RedisLease
from qsched.cluster.sql_lease import SqlLease
from qsched.scheduler.context import RunRequest
from qsched.scheduler.errors import StoreUnavailable
from qsched.scheduler.store.cluster_rows import LEADER, REDIS, Coordination, choose_coordination, coordination
from qsched.triggers.instant import SECOND

from .hand_node import HandNode, World
from .servers import RedisServer

TTL = 5.0
CHECK_IN = 1.0


class RedisTime:
    """The lease's key ends when the world's time says so: by the real clock a slow machine would lose it."""

    def __init__(self, server: RedisServer, world: World) -> None:
        self.server = server
        self._world = world
        self._ends: float | None = None
        self.key = ""

    def note(self) -> None:
        """A lease may have set its key: it lives from now on by the world's time."""
        try:
            if self.server.command(f"PTTL {self.key}").startswith(":") and self._left() > 0:
                self._ends = self._world.elapsed + TTL
                self.server.command(f"PERSIST {self.key}")
        except (OSError, RuntimeError):
            return  # it is away, which is what the test is about

    def _left(self) -> int:
        return int(self.server.command(f"PTTL {self.key}")[1:])

    def passed(self) -> None:
        if self._ends is not None and self._world.elapsed >= self._ends:
            self._ends = None
            try:
                self.server.command(f"DEL {self.key}")
            except OSError:
                return

    def steal(self) -> None:
        """Somebody sets the key by hand, without an end."""
        self._ends = None
        self.server.command(f"SET {self.key} thief")


class Led:
    """One world in leader mode."""

    def __init__(self, world: World, elector: str, server: RedisServer | None = None) -> None:
        self.world = world
        self.by = elector
        self.nodes: list[LedNode] = []
        self.redis: RedisTime | None = None
        if elector == REDIS:
            assert server is not None
            self.redis = RedisTime(server, world)
        world.store.transaction("choose", lambda tx: choose_coordination(tx, LEADER, elector) and None)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def node(
        self, name: str, *, stands: bool = True, on_redis_loss: str = "row_locks", **options: Any
    ) -> "LedNode":
        """A new node that has registered; unless it `stands` it is one without Redis."""
        hand = self.world.node(name, **options)
        node = LedNode(self, hand, self.lease(hand) if stands else None, on_redis_loss)
        self.nodes.append(node)
        return node

    def lease(self, hand: HandNode) -> Lease:
        """What this node could lead by."""
        parts, ttl = hand.parts, round(TTL * SECOND)
        if self.redis is None:
            return SqlLease(parts.store, parts.clock, ttl)
        lease = RedisLease(self.redis.server.url, parts.who, parts.store, parts.clock, ttl)
        self.redis.key = lease.key
        return lease

    def close(self) -> None:
        for node in self.nodes:
            if node.lease is not None:
                node.lease.close()

    # -- time ----------------------------------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)
        if self.redis is not None:
            self.redis.passed()

    def live(self, seconds: float, each: Callable[[], None] = lambda: None) -> None:
        """Let so much time pass, half a second at a time, in which every node does its work and ends what it runs."""
        for _ in range(round(seconds * 2)):
            self.pass_time(0.5)
            self.work()
            each()

    def work(self) -> None:
        """Every node that is there does what is due now; what runs ends at once."""
        for node in self.nodes:
            node.work()

    def skip(self, seconds: float) -> None:
        """Let so much time pass in which nobody plans or takes; then all check in, and whoever led leads again."""
        self.pass_time(seconds)
        self.world.hear()
        for node in self.nodes:
            node.look()

    # -- what is there -------------------------------------------------------------------------------------------------

    @property
    def row(self) -> Coordination:
        return self.world.store.transaction("coordination", coordination)

    def leader(self) -> "LedNode | None":
        """The node that leads by the database's word, if it is there and believes so too."""
        number = self.row.leader
        there = [node for node in self.nodes if not node.hand.gone and not node.hand.stopped]
        return next((node for node in there if node.who.incarnation == number and node.leads()), None)

    def elect(self) -> "LedNode":
        """The leader, once there is one."""
        for node in self.nodes:
            node.look()
        leader = self.leader()
        assert leader is not None
        for node in self.nodes:
            node.look()
        return leader


class LedNode:
    """One node of it: a hand-driven node and its elector."""

    def __init__(self, led: Led, hand: HandNode, lease: Lease | None, on_redis_loss: str) -> None:
        self.led = led
        self.hand = hand
        self.lease = lease
        self.who = hand.parts.who
        self.woken = 0
        election = Election(round(CHECK_IN * SECOND), round(TTL * SECOND), on_redis_loss)
        self.elector = Elector(hand.parts, lease, election, self._changed)
        self._looks_at = float("-inf")

    def look(self) -> None:
        """One step of the elector."""
        try:
            self._looks_at = self.led.world.elapsed + self.elector.step()
        except StoreUnavailable:
            self._looks_at = self.led.world.elapsed + CHECK_IN / 4
        if self.led.redis is not None:
            self.led.redis.note()

    def turn(self) -> list[RunRequest]:
        """Elector, check-in and planner, as far as they are due; what was taken."""
        if self.hand.gone or self.hand.stopped:
            return []
        if self.led.world.elapsed >= self._looks_at - 1e-9:
            self.look()
        try:
            return self.hand.turn()
        except StoreUnavailable:
            return []

    def work(self) -> None:
        while self.turn():
            self.hand.run()

    def leads(self) -> bool:
        return self.who.leads(self.led.world.elapsed)

    def _changed(self) -> None:
        self.woken += 1
