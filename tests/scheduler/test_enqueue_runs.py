"""What was enqueued runs: with its data and its key, as often as its job's retries say, and never beside its own kind."""

from collections.abc import Iterator
from typing import Any

import pytest
from qsched.scheduler.context import JobContext
from qsched.scheduler.enqueue import enqueue
from qsched.scheduler.enqueue_order import Enqueued, order_of
from qsched.triggers.instant import HOUR
from qsched.triggers.retry import RetryPolicy

from support.hand_node import World, python


@pytest.fixture
def world(made_url: str) -> Iterator[World]:
    world = World(made_url)
    yield world
    world.close()


def ask(world: World, data: Any = None, **options: Any) -> Enqueued:
    return enqueue(world.store, order_of("report", data, options))


def test_it_runs_once_with_its_data_over_the_jobs_and_without_a_trigger(world: World) -> None:
    seen: list[Any] = []

    def body(ctx: JobContext, day: str, full: bool = False) -> None:
        seen.append((ctx.trigger, ctx.job, day, full, ctx.late))

    world.functions["report"] = body
    world.apply(jobs=(python("report", data={"day": "sunday", "full": True}),))
    ask(world, {"day": "monday"})
    node = world.node()
    node.work()
    node.work()
    assert seen == [(None, "report", "monday", True, 0.0)]
    assert world.firings("state, outcome") == [("succeeded", "succeeded")]


def test_a_delayed_one_is_never_early_and_another_node_may_run_it(world: World) -> None:
    world.apply(jobs=(python("report"),))
    done = ask(world, delay="10s")
    first = world.node("one")
    world.live(9)
    assert first.taken == []
    first.kill()
    second = world.node("two")
    waited = world.live_until(lambda: second.taken)
    assert [request.firing_id for request in second.taken] == [done.id]
    assert 1.0 <= waited < 2.5
    assert second.taken[0].fired_at - second.taken[0].scheduled_at < HOUR / 1000


def test_its_idempotency_key_is_its_unique_key_for_every_attempt_also_when_that_was_given_up(
    world: World,
) -> None:
    keys: list[str] = []

    def fails(ctx: JobContext) -> None:
        keys.append(ctx.idempotency_key)
        raise ValueError("no stock")

    world.functions["report"] = fails
    world.apply(jobs=(python("report", retry=RetryPolicy.fixed(1, "2h")),))
    first = ask(world, unique_key="order-7", unique_for="1h")
    node = world.node()
    node.work()
    world.pass_time(3601)
    assert ask(world, unique_key="order-7", delay="9h").created
    world.pass_time(3600)
    node.work()
    assert keys == ["order-7", "order-7"]
    assert world.firings("state, unique_key", f"id = {first.id}") == [("failed", None)]


def test_without_one_it_is_the_clusters_and_the_requests(world: World) -> None:
    world.apply(jobs=(python("report"),))
    ask(world, request_key="r1")
    node = world.node()
    (request,) = node.turn()
    assert request.default_key == f"{node.parts.who.cluster_uuid}/r1"


def test_those_of_a_job_that_queues_run_one_after_the_other(world: World) -> None:
    world.apply(jobs=(python("report", overlap="skip"),))
    ids = [ask(world).id for _ in range(3)]
    node = world.node()
    ran = []
    for _ in ids:
        (request,) = node.turn()
        ran.append(request.firing_id)
        node.finish(request)
    assert ran == ids
    assert node.turn() == []
