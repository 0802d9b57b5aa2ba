"""What a node knows of others beyond the rows: whose process is gone, and a lease on leadership from Redis or the database."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qsched.cluster.elector import Election, Elector
from qsched.cluster.lease import Lease
from qsched.cluster.redis_lease import RedisLease
from qsched.cluster.sql_lease import SqlLease
from qsched.scheduler.rescuer import Rescuer, Senses
from qsched.scheduler.store.rescue_rows import Observed

from .virtual_redis import RedisClient
from .weather import REFUSED

if TYPE_CHECKING:
    from .process import Process

LOCKS = "locks"
MARKS = "marks"


def rescuer_of(process: "Process") -> Rescuer:
    """The rescuer of a process, with this run's sense for who is gone."""
    sense = {LOCKS: _unlocked, MARKS: _vanished}.get(process.world.plan.sense or "")

    def gone(suspects: Sequence[Observed]) -> Mapping[int, bool]:
        found = {} if sense is None else sense(process, suspects)
        for incarnation in found:
            process.world.sensed.setdefault((process.name, incarnation), []).append(process.life.timeline.now)
        return found

    def rescued() -> None:
        process.loops["planner"].wake()

    senses = Senses(gone, lambda: process.check_in.steady_since, rescued)
    rescuer = Rescuer(process.parts, process.world.plan.timing.check_in, senses)
    if not process.world.plan.sweeps:
        unsure: Any = rescuer
        unsure._sweeper = NoSweep()
    return rescuer


class NoSweep:
    """A sweeper that does not look."""

    def step(self, *_: Any) -> None:
        return None


def _vanished(process: "Process", suspects: Sequence[Observed]) -> dict[int, bool]:
    """Process marks: who looks on the same host sees for certain that a process is not there any more."""
    registered = process.world.registered
    return {each.incarnation: True for each in suspects if registered[each.incarnation].life.ended}


def _unlocked(process: "Process", suspects: Sequence[Observed]) -> dict[int, bool]:
    """Session locks: the database frees a node's lock when its connection is gone, whether or not the node is."""
    found = {}
    for each in suspects:
        owner = process.world.registered[each.incarnation]
        cut = process.world.weather.cut_of(owner.node)
        if (
            owner.life.ended
            or owner.incarnation != each.incarnation
            or (cut is not None and cut.manner == REFUSED)
        ):
            found[each.incarnation] = False
    return found


def elector_of(process: "Process") -> Elector:
    """The elector of a process; it stands only where the plan has leaders."""
    plan = process.world.plan
    timing = plan.timing
    lease: Lease | None = None
    if plan.elector == "sql":
        lease = SqlLease(process.store, process.clock, timing.leader_ttl)
    elif plan.elector == "redis":
        lease = _redis_lease(process)
    election = Election(timing.check_in, timing.leader_ttl, plan.on_redis_loss)
    return Elector(process.parts, lease, election, process.wake_planner)


def _redis_lease(process: "Process") -> Lease:
    ttl = process.world.plan.timing.leader_ttl
    made = RedisLease("redis://127.0.0.1:1/0", process.parts.who, process.store, process.clock, ttl)
    unsure: Any = made
    unsure._secret = process.name
    unsure._redis = RedisClient(process, process.world.redis, ttl // 4)
    return made
