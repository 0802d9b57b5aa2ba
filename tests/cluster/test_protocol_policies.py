"""What code declares reaches the cluster before the first firing, and a pause with an end is ended by any node."""

from collections.abc import Callable

import pytest
from qsched.scheduler.control import pause
from qsched.scheduler.groups import pause_group
from qsched.scheduler.jobs import job
from qsched.scheduler.outcome import Outcome
from qsched.triggers.instant import SECOND
from qsched.triggers.retry import RetryPolicy

from support.hand_node import START, World, every, python


def test_overlap_that_only_the_decorator_says_holds_from_the_first_firing_on(world: World) -> None:
    world.functions["report"] = job(overlap="queue", request_recovery=True)(plain())
    world.apply(every("a", 10), every("b", 10))
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    taken = one.turn() + two.turn()
    assert len(taken) == 1
    assert world.firings("request_recovery, permit_key IS NOT NULL") == [(1, 1)]
    assert world.clock_of("a", "c.overlap") == ("queue",)


def plain() -> Callable[[], None]:
    """A function of its own each time, as it can be marked once only."""

    def report() -> None:
        pass

    return report


def test_yaml_comes_before_the_decorator(world: World) -> None:
    world.functions["report"] = job(overlap="queue")(plain())
    world.apply(every("a", 10), every("b", 10), jobs=[python("report", overlap="allow")])
    node = world.node()
    world.pass_time(10)
    assert len(node.turn()) == 2


def test_the_decorators_retries_hold_where_nobody_else_says_any(world: World) -> None:
    world.functions["report"] = job(retry=RetryPolicy.fixed(1, "5s"))(plain())
    world.apply(every("tick", 60))
    node = world.node()
    world.pass_time(60)
    world.hear()
    (request,) = node.turn()
    node.finish(request, Outcome.failure("ValueError", "boom"))
    assert world.firings("state") == [("due",)]


def test_the_clusters_default_holds_where_neither_says_anything(world: World) -> None:
    world.apply(every("tick", 60), cluster_defaults={"retry": RetryPolicy.fixed(1, "5s").to_spec()})
    node = world.node()
    node.upkeep.step()
    world.pass_time(60)
    world.hear()
    (request,) = node.turn()
    node.finish(request, Outcome.failure("ValueError", "boom"))
    assert world.firings("state") == [("due",)]


@pytest.mark.parametrize("scope", ["trigger", "group"])
def test_a_pause_with_an_end_is_ended_by_any_node_and_runs_nothing_missed(world: World, scope: str) -> None:
    world.apply(every("g/tick", 10))
    until = START + 35 * SECOND
    if scope == "trigger":
        pause(world.store, ["g/tick"], until=until)
    else:
        pause_group(world.store, "g", until=until)
    node = world.node()
    for _ in range(5):
        world.pass_time(10)
        node.upkeep.step()
        node.work()
    rows = world.firings("scheduled_at, state, reason, covers")
    assert rows == [
        (START + 40 * SECOND, "skipped", "paused", 4),
        (START + 50 * SECOND, "succeeded", "schedule", 1),
    ]
