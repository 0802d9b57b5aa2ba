"""The moment at which two operations meet: a cluster in the middle of things, and the way back to that moment.

Three nodes hold running firings, every trigger has its next slot due, retries and requests wait. Each side acts as, or from
beside, a node of its own (`one`, `two`); `three` is somebody else's.
"""

from dataclasses import replace

from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.retry import RetryPolicy
from qsched.triggers.trigger import TriggerDefinition

from support.hand_node import START, HandNode, World, every, python

from .memories import Memories
from .photograph import Camera, Rows
from .turnstile import Turnstile
from .waiters import Waiters, waiters_of

LEASE = 60 * SECOND
GAP = 10
NAMES = ("one", "two", "three")
RETRY = RetryPolicy.fixed(3, "3s")
LATER = RetryPolicy.fixed(3, "12s")


class SlowWorld(World):
    """A world whose lease is long: its sessions' time-outs, which follow from it, must not end a statement that waits."""

    def open(self) -> Store:
        return open_store(self.url, cluster=self.cluster, create=True, now=lambda: self.time, lease=LEASE)


def declare(name: str, first: int, gap: int = GAP, **fields: object) -> TriggerDefinition:
    """A trigger whose first slot is so many seconds after the start."""
    made = every(name, gap, **fields)
    return replace(made, schedule={"every": gap * SECOND, "anchor": START + (first - gap) * SECOND})


FIRST = {"three": 8, "one": 9, "two": 10}
"""The first slots of each node's triggers: it takes them, and their second ones are due when the operations meet."""
MOMENT = 22.5
TRIGGERS = (
    *(declare(f"allow_{name}", first, job="allow") for name, first in FIRST.items()),
    *(declare(f"queue_{name}", first, job=f"queue_{name}") for name, first in FIRST.items()),
    *(declare(f"seldom_{name}", first, 60, job="allow") for name, first in FIRST.items()),
    declare("skip", 8, job="skip"),
    declare("cancel", 8, job="cancel"),
    declare("late", 8, job="allow", misfire=MisfireRule("skip", threshold=2 * SECOND)),
    declare("overdue", 8, 60, job="allow", misfire=MisfireRule(threshold=2 * SECOND)),
    declare("failed", 2, 60, job="later"),
    declare("failed_alone", 2, 60, job="alone"),
    declare("alone", 18, 20, job="alone"),
    declare("alone_too", 19, 20, job="alone"),
)
KEYS = [trigger.key for trigger in TRIGGERS]
JOBS = (
    python("allow", retry=RETRY, request_recovery=True),
    *(python(f"queue_{name}", overlap="queue", retry=RETRY, request_recovery=True) for name in NAMES),
    python("skip", overlap="skip"),
    python("cancel", overlap="cancel", retry=RETRY, request_recovery=True),
    python("later", retry=LATER),
    python("alone", overlap="queue", retry=LATER),
)

# What only some operations declare besides.
KEPT = declare("kept", 18, 60, job="kept")
HEAVY = tuple(declare(f"heavy_{number}", 18 + number, 60, job="heavy") for number in range(3))
FOLLOWED = (
    declare("first", 18, 60, job="first"),
    replace(every("follower", job="second"), schedule={"after": "first", "on": "any"}),
)
"""A trigger, and another that follows its job."""
MORE_JOBS = (
    python("kept", overlap="queue", persist_data=True),
    replace(python("heavy"), group="heavy"),
    python("first"),
    python("second"),
)


class Setting:
    """One server's store at that moment. `mark` remembers how it is now; `restore` goes back to that."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.world = SlowWorld(url)
        self.world.functions = {job.name: lambda: None for job in (*JOBS, *MORE_JOBS)}
        self.camera = Camera(url)
        self.waiters: Waiters = waiters_of(url)
        self.turnstile = Turnstile(self.waiters)
        self._restored = 0
        self._lay_out()
        for node in self.nodes:
            self.turnstile.watch(node.store)
        self.mark()
        self._beginning = (self.rows, self._memories, self._world)

    def close(self) -> None:
        self.camera.close()
        self.waiters.close()
        self.world.close()

    @property
    def nodes(self) -> list[HandNode]:
        return self.world.nodes

    def _lay_out(self) -> None:
        world = self.world
        world.apply(*TRIGGERS, jobs=JOBS)
        one, two, three = (world.node(name, own_store=True) for name in NAMES)
        world.pass_time(2)
        three.turn()
        for request in list(three.taken):
            three.finish(request, Outcome.failure("ValueError", "boom"))
        for node, first in zip((three, one, two), FIRST.values(), strict=True):
            self._pass_until(first)
            node.turn()
        self._pass_until(MOMENT)
        for node in world.nodes:
            node.check_in.step()

    def _pass_until(self, seconds: float) -> None:
        """Nobody lives through it: so that each node takes what is meant for it."""
        self.world.pass_time(seconds - (self.world.time - START) / SECOND)

    # -- there and back ------------------------------------------------------------------------------------------------

    def mark(self) -> None:
        """Remember this moment."""
        self.rows: Rows = self.camera.take()
        self._memories = Memories(self.nodes)
        self._world = (self.world.time, self.world.elapsed, dict(self.world.ended))

    def restore(self, now: Rows | None = None) -> None:
        """Back to the moment that was marked; `now`: the rows, where they are known."""
        self.camera.restore(self.rows, self.camera.take() if now is None else now)
        self._memories.restore()
        self.world.time, self.world.elapsed, ended = self._world
        self.world.ended = dict(ended)
        self._restored += 1
        if self._restored % 500 == 0:
            self.camera.clean()

    def begin_anew(self) -> None:
        """Back to the beginning, whatever was marked since."""
        now = self.camera.take()
        self.rows, self._memories, self._world = self._beginning
        self.restore(now)
        self.mark()
