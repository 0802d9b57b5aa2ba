"""The operations that meet: each is the house's own code, run by one side as its node, or by somebody beside it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from qsched.cluster.sql_lease import SqlLease
from qsched.scheduler.apply import apply
from qsched.scheduler.control import delete, fire, pause, resume
from qsched.scheduler.errors import Refused, UnknownTrigger
from qsched.scheduler.groups import pause_group
from qsched.scheduler.identity import Term
from qsched.scheduler.leaving import leave
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store.cluster_rows import REDIS, fall_back
from qsched.triggers.instant import SECOND
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.trigger import TriggerDefinition

from support.declared import Declared
from support.hand_node import HandNode

from .photograph import records
from .seat import CHECK_IN, ELECTOR, PLANNER, RESCUER, SETTLER, Do, Operation, Seat
from .setting import JOBS, KEYS, LEASE, TRIGGERS, declare

EPOCH = 7
TTL = 5 * SECOND


# -- what a node does ------------------------------------------------------------------------------------------------------


def _plans(seat: Seat) -> None:
    seat.node.planner.step()


def _loads_and_plans(seat: Seat) -> None:
    """The first step meets a job that the node has not loaded yet."""
    for _ in range(3):
        seat.node.planner.step()


def _settles(seat: Seat) -> None:
    seat.node.settler.step()


def _checks_in(seat: Seat) -> None:
    seat.node.check_in.step()


def _registers(seat: Seat) -> None:
    """Its process has ended and begins anew, under its old name, while the row of its former life says that it lives."""
    seat.node.check_in.register()


def _alone(seat: Seat) -> None:
    """It has not heard of other nodes, so its share of what is due is all of it."""
    seat.node.parts.who.live_nodes = 1


def _shares(seat: Seat) -> None:
    """It knows of one other: it takes half of what is due."""
    seat.node.parts.who.live_nodes = 2


def _full(seat: Seat) -> None:
    hand = seat.node.parts.hand
    hand.capacity = hand.running()


def _given_back(seat: Seat) -> None:
    """Slots that were taken in time and never begun are due again, too late: they are judged once more."""
    _alone(seat)
    third = seat.setting.nodes[2]
    for request in list(third.taken):
        if request.trigger in ("late", "overdue"):
            third.release(request)
    third.settle()


def _given_back_in_time(seat: Seat) -> None:
    """Firings that were taken and never begun are due again, and not too late: whoever is first has them."""
    _alone(seat)
    third = seat.setting.nodes[2]
    for request in list(third.taken):
        if request.trigger not in ("late", "overdue"):
            third.release(request)
    third.settle()


def _one_place_left(seat: Seat) -> None:
    """Nothing is due but firings of one job that must not overlap, and each node has place for one."""
    _alone(seat)
    store, name = seat.setting.world.store, seat.node.parts.who.name
    pause(store, KEYS, who="ops")
    for number in range(2):
        fire(store, "alone", request_key=f"{name} {number}", who="ops", force=True)
    hand = seat.node.parts.hand
    hand.capacity = hand.running() + 1


BACKLOG = declare(
    "backlog", 8, 4, job="allow", misfire=MisfireRule("fire_all", limit=3, threshold=2 * SECOND)
)


def _missed(seat: Seat) -> None:
    """A trigger has missed several slots, of which each is to run, one by one."""
    _alone(seat)
    world = seat.setting.world
    world.step_clock(-13)
    apply(world.store, Declared((*TRIGGERS, BACKLOG), JOBS), who="ops")
    world.step_clock(13)


def _ending(outcome: Outcome | None) -> Do:
    """All that the node runs has ended (None: was never begun) half-way to its next slot, and was not settled since."""

    def arrange(seat: Seat) -> None:
        node = seat.node
        ended_at = node.clock.monotonic() - 10
        for request in list(node.taken):
            if outcome is None:
                node.release(request)
            else:
                node.taken.remove(request)
                node.settler.ended(request, outcome, ended_at)

    return arrange


def _forgets(seat: Seat) -> None:
    """The node knows nothing of what its rows say it runs: the answer to its take was lost."""
    node = seat.node
    node.parts.hand.drop({(each.firing_id, each.fence) for each in node.taken})
    node.taken.clear()


def _leaves(seat: Seat) -> object:
    """The last transaction of a drain whose time is up: one body runs on, the others were not begun."""
    node = seat.node
    who = node.parts.who
    held = [(each.firing_id, each.fence) for each in node.taken]
    answer = node.store.transaction("leave", lambda tx: leave(tx, who.incarnation, held[:1], [], 0))
    node.taken.clear()  # the process is gone with it
    node.parts.hand.drop(held)
    return answer


# -- who is dead -----------------------------------------------------------------------------------------------------------


def _rescues(seat: Seat) -> None:
    seat.node.rescuer.step()


def _seldom_sweeps(seat: Seat) -> None:
    """Among so many nodes it is not its turn to sweep: that is an operation of its own."""
    seat.node.parts.who.live_nodes = 1000


def _other_is_gone(seat: Seat) -> None:
    """Two looks have found the session lock of the other free; the next one is the last that it takes."""
    _seldom_sweeps(seat)
    world, rescuer = seat.setting.world, seat.node.rescuer
    world.ended[seat.other.parts.who.incarnation] = False
    for _ in range(3):
        rescuer.step()
        world.elapsed += 0.9


def _other_is_silent(seat: Seat) -> None:
    """The lease of the other has passed, and somebody noted that a lease ago; the next look is the one that decides."""
    _seldom_sweeps(seat)
    now = seat.setting.world.time
    seat.setting.world.sql(
        "UPDATE qsched_nodes SET checked_in_at = ?, lease_until = ?, suspected_at = ?, suspected_seq = renew_seq"
        " WHERE incarnation = ?",
        *(now - 2 * LEASE, now - LEASE, now - LEASE, seat.other.parts.who.incarnation),
    )
    for _ in range(3):
        seat.node.rescuer.step()
        seat.setting.world.elapsed += 0.9


def _is_dead(seat: Seat, node: HandNode) -> None:
    """Declared dead by somebody who has vanished since; this rescuer has seen that at its last look."""
    _seldom_sweeps(seat)
    now = seat.setting.world.time
    seat.setting.world.sql(
        "UPDATE qsched_nodes SET state = 'dead', dead_verdict = 'silent', ended_at = ?, running = 0, lease_until = ?"
        " WHERE incarnation = ?",
        *(now, now - 1, node.parts.who.incarnation),
    )
    seat.node.rescuer.step()


def _third_is_dead(seat: Seat) -> None:
    _is_dead(seat, seat.setting.nodes[2])


def _other_is_dead(seat: Seat) -> None:
    """And does not know it."""
    _is_dead(seat, seat.other)


def _is_wrong(seat: Seat) -> None:
    """A hand has changed rows: a permit is held by what does not run, one is not held by what does, a retry is not known."""
    world = seat.setting.world
    world.sql(
        "UPDATE qsched_permits SET firing_id = NULL, fence = NULL WHERE firing_id = ?",
        _firing(seat, "queue_two"),
    )
    world.sql(
        "UPDATE qsched_permits SET firing_id = ?, fence = 1 WHERE job_id = (SELECT id FROM qsched_jobs WHERE name = 'alone')",
        _firing(seat, "failed"),
    )
    world.sql("UPDATE qsched_trigger_clocks SET retrying = 0")


def _firing(seat: Seat, trigger: str) -> int:
    """The open firing of a trigger."""
    ((firing_id,),) = seat.setting.world.firings(
        "id", f"trigger_name = '{trigger}' AND state IN ('due', 'running')"
    )
    return int(firing_id)


# -- who leads -------------------------------------------------------------------------------------------------------------


def _led(seat: Seat) -> None:
    """The cluster is in leader mode, under a leader whose time has passed by the database's clock."""
    world = seat.setting.world
    world.sql(
        "UPDATE qsched_clusters SET coordination = 'leader', elector = 'redis', epoch = ?, leader_until = ?,"
        " leader_incarnation = COALESCE(leader_incarnation, ?) WHERE id = ?",
        *(EPOCH, world.time - 1, seat.setting.nodes[2].parts.who.incarnation, world.store.cluster_id),
    )


def _leads(seat: Seat) -> None:
    """And that is this node, which believes in its term a little longer."""
    _led(seat)
    world, who = seat.setting.world, seat.node.parts.who
    world.sql(
        "UPDATE qsched_clusters SET leader_incarnation = ? WHERE id = ?",
        who.incarnation,
        world.store.cluster_id,
    )
    who.leader_mode, who.live_nodes, who.term = True, 1, Term(EPOCH, world.elapsed + 1000)


def _follows(seat: Seat) -> None:
    """In leader mode it only takes what is due."""
    _led(seat)
    seat.node.parts.who.leader_mode = True
    _alone(seat)


def _takes_over(seat: Seat) -> object:
    node = seat.node
    return SqlLease(node.store, node.clock, TTL, by=REDIS).acquire(node.parts.who.incarnation)


def _renews(seat: Seat) -> object:
    node = seat.node
    term = node.parts.who.term
    assert term is not None
    return SqlLease(node.store, node.clock, TTL, by=REDIS).renew(node.parts.who.incarnation, term)


def _falls_back(seat: Seat) -> object:
    return seat.node.store.transaction("fall back", lambda tx: fall_back(tx, EPOCH))


# -- what people do --------------------------------------------------------------------------------------------------------


def _pause(seat: Seat) -> object:
    return _unless_gone(lambda: pause(seat.node.store, _all_keys(seat), who="ops", reason="a test"))


def _resume(seat: Seat) -> object:
    return _unless_gone(lambda: resume(seat.node.store, _all_keys(seat), who="ops"))


def _delete(seat: Seat) -> object:
    return _unless_gone(lambda: delete(seat.node.store, _all_keys(seat), who="ops"))


def _all_keys(seat: Seat) -> list[str]:
    return [row["name"] for row in records(seat.setting.rows, "triggers")]


def _fire(seat: Seat) -> object:
    return _unless_gone(lambda: fire(seat.node.store, "alone", request_key="asked", who="ops"))


def _unless_gone(verb: Callable[[], object]) -> object:
    """A trigger that is paused or gone refuses, and whoever asked is told."""
    try:
        return verb()
    except (Refused, UnknownTrigger) as refused:
        return refused


def _edited(trigger: TriggerDefinition) -> TriggerDefinition:
    """Twice as often as before, so that every slot it had it still has."""
    schedule: dict[str, Any] = dict(trigger.schedule)
    return replace(trigger, schedule=schedule | {"every": schedule["every"] // 2})


EDITED = tuple(map(_edited, TRIGGERS))
FRESH = replace(TRIGGERS[0], name="fresh")
"""A trigger that an edit adds."""


def _apply(*triggers: TriggerDefinition) -> Do:
    def act(seat: Seat) -> object:
        return apply(seat.node.store, Declared(triggers, JOBS), allow_mass_prune=True, who="ops")

    return act


def _paused(seat: Seat) -> None:
    """Since the nodes took their first slots, so that something is owed."""
    world = seat.setting.world
    world.step_clock(-7)
    pause(world.store, KEYS, who="ops")
    world.step_clock(7)


SUCCESS = Outcome.success("done")
FAILURE = Outcome.failure("ValueError", "boom")

OPERATIONS: Mapping[str, Operation] = {
    "take": Operation(_plans, _alone, PLANNER),
    "share": Operation(_plans, _shares, PLANNER, alike=True),
    "judge": Operation(_plans, _given_back, PLANNER, alike=True),
    "retake": Operation(_plans, _given_back_in_time, PLANNER, alike=True),
    "last-place": Operation(_loads_and_plans, _one_place_left, PLANNER, alike=True),
    "backlog": Operation(_plans, _missed, PLANNER, alike=True),
    "decide-only": Operation(_plans, _full, PLANNER),
    "settle": Operation(_settles, _ending(SUCCESS), SETTLER),
    "retry": Operation(_settles, _ending(FAILURE), SETTLER),
    "release": Operation(_settles, _ending(None), SETTLER),
    "leave": Operation(_leaves, loop=SETTLER),
    "register": Operation(_registers, loop=CHECK_IN, alike=True),
    "check-in": Operation(_checks_in, loop=CHECK_IN),
    "reconcile": Operation(_checks_in, _forgets, CHECK_IN),
    "mark-gone": Operation(_rescues, _other_is_gone, RESCUER),
    "mark-silent": Operation(_rescues, _other_is_silent, RESCUER),
    "rescue": Operation(_rescues, _third_is_dead, RESCUER),
    "rescue-other": Operation(_rescues, _other_is_dead, RESCUER, alike=True),
    "sweep": Operation(_rescues, _is_wrong, RESCUER),
    "plan": Operation(_plans, _leads, PLANNER),
    "follow": Operation(_plans, _follows, PLANNER, alike=True),
    "take-over": Operation(_takes_over, _led, ELECTOR),
    "renew": Operation(_renews, _leads, ELECTOR),
    "fall-back": Operation(_falls_back, _led, ELECTOR),
    "pause": Operation(_pause),
    "resume": Operation(_resume, _paused),
    "pause-group": Operation(lambda seat: pause_group(seat.node.store, "default", who="ops")),
    "edit": Operation(_apply(*EDITED, FRESH)),
    "retire": Operation(_apply()),
    "delete": Operation(_delete),
    "fire": Operation(_fire),
}
