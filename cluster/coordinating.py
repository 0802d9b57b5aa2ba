"""How one node agrees with the others: its lease and elector, and the wake-ups that its Redis carries."""

from collections.abc import Callable

from ..scheduler.errors import StoreError
from ..scheduler.parts import Parts
from ..scheduler.store.dialects import POSTGRESQL
from .elector import Election, Elector
from .lease import Lease
from .loop import Loop, Rhythm
from .settings import NodeSettings
from .sql_lease import SqlLease


class Coordinating:
    """Of one node; `wake` lets its planner look at once."""

    def __init__(self, parts: Parts, settings: NodeSettings, wake: Callable[[], None]) -> None:
        self._parts = parts
        self._lease = _lease(parts, settings)
        election = Election(settings.check_in, settings.ttl, settings.on_redis_loss)
        self.elector = Elector(parts, self._lease, election, wake)
        self.loops = {
            "elector": Loop(
                "elector", self.elector.step, parts.clock, Rhythm(trouble=lambda: self.elector.trouble)
            )
        }
        self._wakes = None
        if settings.redis is not None and parts.store.dialect is not POSTGRESQL:  # which has its own
            from .redis_wake import RedisWake

            self._wakes = RedisWake(settings.redis, parts.who, parts.clock, wake)
            self.loops["redis_wake"] = Loop("redis-wake", self._wakes.hear, parts.clock)
            self.loops["redis_announce"] = Loop("redis-announce", self._wakes.speak, parts.clock)

    def begin(self) -> None:
        """Learn how the cluster decides, before the planner does anything; once the node has registered."""
        try:
            self.elector.look()
        except StoreError:
            pass  # its loop learns it: until then the node decides for itself, which harms nobody

    def announce(self) -> None:
        """Tell the others that there is something to look at, where Redis carries that."""
        if self._wakes is not None:
            self._wakes.announce()

    def drain(self) -> None:
        """Lead no more, at once: the elector sees that the node drains."""
        self.loops["elector"].retry()

    def end(self) -> None:
        """Give up what is still held, and the connections; the loops have ended."""
        self.elector.resign("this node stops")
        self._lease.close()
        if self._wakes is not None:
            self._wakes.close()


def _lease(parts: Parts, settings: NodeSettings) -> Lease:
    """What this node could lead by, if the cluster's elector is the same."""
    if settings.elector != "redis":
        return SqlLease(parts.store, parts.clock, settings.ttl)
    assert settings.redis is not None
    from .redis_lease import RedisLease  # late: a node without Redis does not need the package

    return RedisLease(settings.redis, parts.who, parts.store, parts.clock, settings.ttl)
