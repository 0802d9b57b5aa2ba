"""The operations of jobs that keep data, of limited groups, and of triggers that follow; each against what may cross it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from qsched.scheduler.apply import apply
from qsched.scheduler.control import fire, pause
from qsched.scheduler.outcome import Outcome
from qsched.triggers.job import JobDefinition, canonical
from qsched.triggers.trigger import TriggerDefinition

from support.declared import Declared
from support.hand_node import HandNode

from .seat import PLANNER, SETTLER, Do, Operation, Seat
from .setting import FOLLOWED, HEAVY, JOBS, KEPT, KEYS, MORE_JOBS, TRIGGERS

LIMIT = 2
"""Of the heavy jobs' group: one of them runs already, on the third node."""

_DECIDERS = ("take", "plan")
_ENDERS = ("rescue-other", "reconcile", "leave")
_PEOPLE = ("pause", "pause-group", "retire", "delete")


def _declared(*triggers: TriggerDefinition, limit: int = LIMIT) -> Declared:
    jobs: tuple[JobDefinition, ...] = (*JOBS, *MORE_JOBS)
    return Declared((*TRIGGERS, *triggers), jobs, limits={"heavy": limit} if limit else {})


def _alone_with(seat: Seat, *triggers: TriggerDefinition) -> None:
    """Of all triggers only these have slots that are due, and they had them before this moment."""
    world = seat.setting.world
    pause(world.store, KEYS, who="ops")
    world.step_clock(-13)
    apply(world.store, _declared(*triggers), who="ops")
    world.step_clock(13)
    seat.node.parts.who.live_nodes = 1


def _runs(node: HandNode, job: str) -> Any:
    """Have the node take what is due of this job; the request."""
    for _ in range(3):  # the first look meets jobs that it has not loaded yet
        node.planner.step()
    (request,) = [request for request in node.taken if request.job.definition.name == job]
    return request


def _ended(node: HandNode, request: Any, outcome: Outcome) -> None:
    node.taken.remove(request)
    node.settler.ended(request, outcome, node.clock.monotonic() - 1)


def _plans(seat: Seat) -> None:
    for _ in range(3):
        seat.node.planner.step()


def _settles(seat: Seat) -> None:
    seat.node.settler.step()


# -- data that is kept -----------------------------------------------------------------------------------------------------


def _keeps(seat: Seat) -> None:
    """A body has ended that leaves something to the next run, which somebody has asked for."""
    _alone_with(seat, KEPT)
    request = _runs(seat.node, "kept")
    by = canonical({"by": [request.firing_id, request.fence]})
    _ended(seat.node, request, replace(Outcome.success(), saved=by))
    fire(seat.setting.world.store, "kept", request_key="next", who="ops")


def _is_alone(seat: Seat) -> None:
    seat.node.parts.who.live_nodes = 1


# -- limited groups --------------------------------------------------------------------------------------------------------


def _one_is_free(seat: Seat) -> None:
    """One permit is free, and two slots are due that want it."""
    setting = seat.setting
    if "heavy_0" in {request.trigger for request in setting.nodes[2].taken}:
        seat.node.parts.who.live_nodes = 1
        return
    _alone_with(seat, HEAVY[0])
    _runs(setting.nodes[2], "heavy")
    setting.world.step_clock(-13)
    apply(setting.world.store, _declared(*HEAVY), who="ops")
    setting.world.step_clock(13)


def _one_has_ended(seat: Seat) -> None:
    """Both permits are held, one of them by what has ended here; two firings are due that want it."""
    _one_is_free(seat)
    hand = seat.node.parts.hand
    capacity, hand.capacity = hand.capacity, hand.running() + 1
    request = _runs(seat.node, "heavy")
    hand.capacity = capacity
    fire(seat.setting.world.store, "heavy_0", request_key="more", who="ops")
    _ended(seat.node, request, Outcome.success())


def _limited_to(limit: int) -> Do:
    def act(seat: Seat) -> object:
        return apply(seat.node.store, _declared(*HEAVY, limit=limit), who="ops", prune="keep")

    return act


# -- triggers that follow --------------------------------------------------------------------------------------------------

FIRST, FOLLOWER = FOLLOWED


def _is_followed(outcome: Outcome) -> Do:
    def arrange(seat: Seat) -> None:
        """A body of a job has ended that a trigger follows."""
        _alone_with(seat, FIRST, FOLLOWER)
        _ended(seat.node, _runs(seat.node, "first"), outcome)

    return arrange


def _follower(*changed: TriggerDefinition) -> Do:
    def act(seat: Seat) -> object:
        return apply(seat.node.store, _declared(FIRST, *changed), who="ops", prune="retire")

    return act


ONLY_FAILED = replace(FOLLOWER, schedule={"after": "first", "on": "failed"})

_LIMITED = ("limited-take", "limited-settle")
_LIMITS = ("raise-limit", "lower-limit", "no-limit")
_FOLLOWING = ("pause-follower", "edit-follower", "retire-follower", *_DECIDERS, *_ENDERS, *_PEOPLE)
_FOLLOWED_BY = ("settle-followed", "fail-followed")

JOB_OPERATIONS: Mapping[str, Operation] = {
    "settle-kept": Operation(_settles, _keeps, SETTLER, against=("take-kept", *_ENDERS, *_PEOPLE)),
    "take-kept": Operation(_plans, _is_alone, PLANNER, against=("settle-kept",)),
    "limited-take": Operation(
        _plans, _one_is_free, PLANNER, alike=True, against=(*_LIMITED, *_LIMITS, *_ENDERS)
    ),
    "limited-settle": Operation(
        _settles, _one_has_ended, SETTLER, alike=True, against=("limited-take", *_LIMITS, *_ENDERS)
    ),
    "raise-limit": Operation(_limited_to(LIMIT + 1), against=_LIMITED),
    "lower-limit": Operation(_limited_to(LIMIT - 1), against=_LIMITED),
    "no-limit": Operation(_limited_to(0), against=_LIMITED),
    "settle-followed": Operation(_settles, _is_followed(Outcome.success()), SETTLER, against=_FOLLOWING),
    "fail-followed": Operation(
        _settles, _is_followed(Outcome.failure("ValueError", "boom")), SETTLER, against=_FOLLOWING
    ),
    "pause-follower": Operation(
        lambda seat: pause(seat.node.store, [FOLLOWER.key], who="ops"), against=_FOLLOWED_BY
    ),
    "edit-follower": Operation(_follower(ONLY_FAILED), against=_FOLLOWED_BY),
    "retire-follower": Operation(_follower(), against=_FOLLOWED_BY),
}
