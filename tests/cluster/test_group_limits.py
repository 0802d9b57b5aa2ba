"""A limited group: of its jobs so many firings run at once in the whole cluster, however they were started."""

from dataclasses import replace

import pytest
from qsched.scheduler.apply import apply
from qsched.scheduler.control import fire
from qsched.scheduler.errors import Conflict
from qsched.scheduler.outcome import Outcome
from qsched.triggers.job import JobDefinition
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.retry import RetryPolicy

from support.declared import Declared
from support.hand_node import World, every, once, python


def heavy(name: str, **policies: object) -> JobDefinition:
    return replace(python(name, **policies), group="heavy")


def permits(world: World) -> list[tuple[int, int | None]]:
    """(n, holder) of the group's permits."""
    rows = world.sql(
        "SELECT n, firing_id FROM qsched_permits WHERE cluster = ? AND job_id IS NULL ORDER BY n",
        world.store.cluster_id,
    )
    return [(row[0], row[1]) for row in rows]


def triggers(world: World, *names: str, limit: int = 2, **policies: object) -> None:
    """A trigger and a job of the group for each of these names."""
    for name in names:
        world.functions[name] = lambda: None
    world.apply(
        *(every(name, job=name) for name in names),
        jobs=[heavy(name, **policies) for name in names],
        limits={"heavy": limit},
    )


def test_no_more_of_a_group_run_than_its_limit_on_all_nodes_together(world: World) -> None:
    triggers(world, "a", "b", "c", "d", "e")
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    started = [*one.turn(), *two.turn()]
    assert len(started) == 2
    assert [holder for _, holder in permits(world)] == sorted(request.firing_id for request in started)
    (one if started[0] in one.taken else two).finish(started[0])
    assert len([*one.turn(), *two.turn()]) == 1
    for node in (one, two):
        for _ in range(5):
            for request in list(node.taken):
                node.finish(request)
            one.turn()
            two.turn()
    assert [row[0] for row in world.firings("state")] == ["succeeded"] * 5
    assert permits(world) == [(0, None), (1, None)]


def test_slots_of_one_trigger_count_one_by_one(world: World) -> None:
    triggers(world, "a", limit=2)
    node = world.node()
    world.pass_time(35)
    assert len(node.turn()) == 2  # three slots are due, all on time
    node.finish(node.taken[0])
    assert len(node.turn()) == 1


def test_manual_starts_and_retries_count_as_well(world: World) -> None:
    triggers(world, "a", "b", limit=1, retry=RetryPolicy.fixed(2, "1s"))
    node = world.node()
    world.pass_time(10)
    (first,) = node.turn()
    fire(world.store, "a")
    assert node.turn() == []
    node.finish(first, Outcome.failure("Boom", "x"))
    world.pass_time(1)
    second = node.turn()
    assert len(second) == 1  # of the other trigger, the manual start and the retry
    node.finish(second[0])
    assert len(node.turn()) == 1


def test_what_a_group_has_no_place_for_does_not_hold_up_what_others_want(world: World) -> None:
    world.functions["a"] = world.functions["b"] = lambda: None
    many = [every(f"a{number}", job="a") for number in range(50)]
    jobs = [heavy("a"), python("b")]
    world.apply(*many, every("z", job="b"), jobs=jobs, limits={"heavy": 1})
    node = world.node(capacity=4)
    world.pass_time(10)
    assert {request.job.name for request in node.turn()} == {"a", "b"}


def test_a_late_slot_that_is_only_skipped_needs_no_permit(world: World) -> None:
    world.functions["a"] = world.functions["b"] = lambda: None
    world.apply(
        once("long", 10, job="a"),
        every("skips", job="b", misfire=MisfireRule(policy="skip")),
        jobs=[heavy("a"), heavy("b")],
        limits={"heavy": 1},
    )
    node = world.node()
    world.pass_time(10)
    (running,) = node.turn()
    world.pass_time(100)
    node.turn()
    assert ("skipped",) in world.firings("state", "trigger_name = 'skips'") or running.trigger == "skips"


def test_a_dead_nodes_permit_comes_back(world: World) -> None:
    triggers(world, "a", "b", limit=1)
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    (lost,) = one.turn()
    one.die()
    world.live_until(lambda: two.taken, within=60)
    assert world.firings("state", f"id = {lost.firing_id}") == [("lost",)]
    assert permits(world) == [(0, two.taken[0].firing_id)]


def test_what_is_given_back_unbegun_gives_back_its_permit(world: World) -> None:
    triggers(world, "a", limit=1)
    node = world.node()
    world.pass_time(10)
    (request,) = node.turn()
    node.release(request)
    node.settle()
    assert permits(world) == [(0, None)]
    assert len(node.turn()) == 1


def test_a_limit_that_is_lowered_holds_once_those_too_many_have_ended(world: World) -> None:
    triggers(world, "a", "b", "c", "d", limit=3)
    node = world.node()
    world.pass_time(10)
    first = node.turn()
    assert len(first) == 3
    triggers(world, "a", "b", "c", "d", limit=1)
    assert sorted(n for n, _ in permits(world)) == [-3, -2, 0]
    for request in first[:2]:
        node.finish(request)
    assert len(node.turn()) <= 1  # one of the three may hold the only permit that is left
    assert sum(holder is not None for n, holder in permits(world) if n >= 0) == 1


def test_a_limit_that_is_lowered_again_and_again_leaves_each_that_runs_its_own_permit(world: World) -> None:
    triggers(world, "a", "b", "c", "d", limit=3)
    node = world.node()
    world.pass_time(10)
    first = node.turn()
    for limit, numbers in ((1, [-3, -2, 0]), (2, [-2, 0, 1]), (1, [-3, -2, 0]), (3, [0, 1, 2])):
        triggers(world, "a", "b", "c", "d", limit=limit)
        assert [n for n, _ in permits(world)] == numbers
        assert {holder for _, holder in permits(world)} == {request.firing_id for request in first}


def test_a_limit_that_is_raised_counts_those_that_run(world: World) -> None:
    triggers(world, "a", "b", "c", "d", limit=1)
    node = world.node()
    world.pass_time(10)
    assert len(node.turn()) == 1
    triggers(world, "a", "b", "c", "d", limit=3)
    assert len(node.turn()) == 2


def test_a_group_that_is_limited_no_more_runs_freely_what_waited(world: World) -> None:
    triggers(world, "a", "b", limit=1)
    node = world.node()
    for name in ("a", "a", "b"):
        fire(world.store, name)
    (first,) = node.turn()
    world.apply(every("a", job="a"), every("b", job="b"), jobs=[heavy("a"), heavy("b")])
    assert [n for n, _ in permits(world)] == [-1]  # what runs keeps what it has to give back
    assert len(node.turn()) == 2
    node.finish(first)
    world.live(3)
    assert permits(world) == []
    assert world.firings("state", f"id = {first.firing_id}") == [("succeeded",)]


def test_what_is_due_again_of_a_group_that_is_limited_no_more_waits_for_nobody(world: World) -> None:
    """A retry, what was given back unbegun, and what a dead node ran: none of them is left to the sweep."""
    triggers(world, "a", "b", "c", limit=3, retry=RetryPolicy.fixed(1, "1s"), request_recovery=True)
    one, two = world.node("one"), world.node("two")
    mine = {fire(world.store, name) for name in ("a", "b", "c")}
    failed, given_back, _ = one.turn()
    jobs = [python(name, retry=RetryPolicy.fixed(1, "1s"), request_recovery=True) for name in ("a", "b", "c")]
    world.apply(*(every(name, job=name) for name in ("a", "b", "c")), jobs=jobs)
    one.end(failed, Outcome.failure("Boom", "x"))
    one.release(given_back)
    one.settle()
    assert world.firings("limit_key", "state = 'due'") == [(None,)] * 2
    one.die()
    world.live_until(lambda: mine <= {request.firing_id for request in two.taken})


def test_a_job_that_joins_a_limited_group_waits_from_then_on(world: World) -> None:
    world.functions["a"] = world.functions["b"] = lambda: None
    both = every("a", job="a"), every("b", job="b")
    world.apply(*both, jobs=[heavy("a"), python("b")], limits={"heavy": 1})
    node = world.node()
    for _ in range(2):
        fire(world.store, "b")
    world.apply(*both, jobs=[heavy("a"), heavy("b")], limits={"heavy": 1})
    assert len(node.turn()) == 1


def test_a_group_is_limited_by_one_namespace(world: World) -> None:
    triggers(world, "a", limit=1)
    with pytest.raises(Conflict, match="group limit 'heavy' belongs to namespace 'default'"):
        apply(world.store, Declared((), (), "other", limits={"heavy": 5}), allow_mass_prune=True)


def test_the_same_limit_applied_again_writes_nothing(world: World) -> None:
    triggers(world, "a", limit=1)
    declared = Declared((every("a", job="a"),), (heavy("a"),), limits={"heavy": 1})
    assert apply(world.store, declared).status == "up_to_date"
