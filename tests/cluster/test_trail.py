"""The trail of a firing: every state it went through, when, on which node and why, as `firings show` prints it."""

from typing import Any

from qsched.scheduler.errors import SHUTDOWN
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store.firing_reports import firing as read_firing
from qsched.triggers.instant import SECOND
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.retry import RetryPolicy

from support.command_line import Command
from support.hand_node import HandNode, World, every, python

SUPPLIER = Outcome.failure("TimeoutError", "Supplier API did not respond in 10 s")


def the_firing(world: World) -> int:
    return int(world.firings("id")[0][0])


def ends(node: HandNode, outcome: Outcome) -> None:
    """The node takes the one firing that is due, which ends so at once."""
    (request,) = node.turn()
    node.finish(request, outcome)


def steps(world: World) -> list[tuple[Any, ...]]:
    """(state, attempt, node, reason) of the first firing's trail."""
    item = read_firing(world.store, the_firing(world))
    assert item is not None
    return [(step["state"], step["attempt"], step["node"], step["reason"]) for step in item["trail"]]


def test_two_failures_then_success_as_the_first_article_shows_them(world: World, qsched: Command) -> None:
    retry = RetryPolicy.explicit(["2s", "5s", "10s"])
    world.apply(every("supplier_invoice", 600), jobs=[python("report", retry=retry)])
    node = world.node("a")
    world.pass_time(600.2)
    world.hear()
    for wait in (2.01, 5.02):
        (request,) = node.turn()
        world.pass_time(0.01)
        node.finish(request, SUPPLIER)
        world.pass_time(wait)
        world.hear()
    (request,) = node.turn()
    world.pass_time(0.5)
    node.finish(request, Outcome.success("42 lines"))
    said = qsched("firings", "show", str(the_firing(world)), "--store", world.url, "--cluster", world.cluster)
    assert (said.code, said.err) == (0, "")
    assert said.out.split("\n\n")[1] == (
        "AT                           STATE        ATTEMPT  NODE  REASON\n"
        "2024-01-10 09:10:00.200 UTC  ◷ due              0  -     its slot 2024-01-10T09:10:00Z\n"
        "2024-01-10 09:10:00.200 UTC  ▶ running          0  a     -\n"
        "2024-01-10 09:10:00.210 UTC  ✖ failed           0  a     TimeoutError: Supplier API did not respond in 10 s\n"
        "2024-01-10 09:10:00.210 UTC  ◷ due              0  -     retry 1 of 3 in 2s, at 2024-01-10T09:10:02.210000Z\n"
        "2024-01-10 09:10:02.220 UTC  ▶ running          1  a     -\n"
        "2024-01-10 09:10:02.230 UTC  ✖ failed           1  a     TimeoutError: Supplier API did not respond in 10 s\n"
        "2024-01-10 09:10:02.230 UTC  ◷ due              1  -     retry 2 of 3 in 5s, at 2024-01-10T09:10:07.230000Z\n"
        "2024-01-10 09:10:07.250 UTC  ▶ running          2  a     -\n"
        "2024-01-10 09:10:07.750 UTC  ✔ succeeded        2  a     42 lines\n"
    )
    there = qsched(
        "firings",
        "show",
        str(the_firing(world)),
        "--tz",
        "Europe/Istanbul",
        "--store",
        world.url,
        "--cluster",
        world.cluster,
    )
    assert "2024-01-10 12:10:07.750 +03  ✔ succeeded" in there.out


def test_retries_that_are_used_up_say_so(world: World) -> None:
    world.apply(every("tick", 600), jobs=[python("report", retry=RetryPolicy.fixed(1, "5s"))])
    node = world.node("a")
    world.pass_time(600)
    ends(node, SUPPLIER)
    world.pass_time(5)
    ends(node, SUPPLIER)
    assert steps(world)[-3:] == [
        ("running", 1, "a", None),
        ("failed", 1, "a", "TimeoutError: Supplier API did not respond in 10 s"),
        ("failed", 1, None, "retries exhausted after 1"),
    ]


def test_a_failure_that_is_not_retried_is_one_line(world: World) -> None:
    world.apply(every("tick", 600))
    node = world.node("a")
    world.pass_time(600)
    ends(node, Outcome.failure("ValueError", "boom"))
    assert steps(world)[1:] == [
        ("running", 0, "a", None),
        ("failed", 0, "a", "no retry policy: ValueError: boom"),
    ]


def test_a_retry_that_a_later_slot_overtakes_is_superseded(world: World) -> None:
    world.apply(every("tick", 60), jobs=[python("report", retry=RetryPolicy.fixed(3, "5s"))])
    node = world.node("a")
    world.pass_time(60)
    ends(node, SUPPLIER)
    node.die()
    world.pass_time(70)
    world.node("b").turn()
    assert steps(world)[-2:] == [
        ("due", 0, None, "retry 1 of 3 in 5s, at 2024-01-10T09:01:05Z"),
        ("failed", 1, None, "retry dropped: superseded by the slot at 2024-01-10T09:02:00Z"),
    ]


def test_what_a_dead_node_ran_was_lost_and_is_recovered_elsewhere(world: World) -> None:
    world.apply(every("tick", 600), jobs=[python("report", request_recovery=True)])
    one, two = world.node("one"), world.node("two")
    world.pass_time(600)
    world.hear()
    one.turn()
    one.kill()
    world.live_until(lambda: two.taken, within=60)
    two.finish(two.taken[0])
    assert steps(world)[1:] == [
        ("running", 0, "one", None),
        ("lost", 0, "one", "node one is dead (gone)"),
        ("due", 0, None, "due again for any node"),
        ("running", 0, "two", None),
        ("succeeded", 0, "two", None),
    ]


def test_a_shutdown_hands_it_over(world: World) -> None:
    world.apply(every("tick", 600), jobs=[python("report", request_recovery=True)])
    one = world.node("one")
    world.pass_time(600)
    ends(one, Outcome.cancelled(SHUTDOWN))
    item = read_firing(world.store, the_firing(world))
    assert item is not None
    assert [(step["fact"], step["reason"]) for step in item["trail"][-2:]] == [
        ("interrupted", SHUTDOWN),
        ("handed_over", "due again for any node"),
    ]


def test_what_was_taken_and_not_begun_is_released(world: World) -> None:
    world.apply(every("tick", 600))
    node = world.node("a")
    world.pass_time(600)
    (request,) = node.turn()
    node.release(request)
    node.settle()
    assert steps(world)[1:] == [
        ("due", 0, None, "released 1 time: taken, and given back before its body began")
    ]
    node.turn()
    assert steps(world)[1:] == [("running", 0, "a", "released 1 time before")]


def test_a_cancel_stands_where_it_was_asked_for(world: World) -> None:
    world.apply(every("tick", 600))
    node = world.node("a")
    world.pass_time(600)
    (request,) = node.turn()
    world.sql(
        "UPDATE qsched_firings SET cancel_requested_at = ?, cancel_requested_by = 'ann@shop' WHERE id = ?",
        *(world.time + SECOND, request.firing_id),
    )
    world.pass_time(2)
    node.finish(request, Outcome.cancelled("cancel requested"))
    assert steps(world)[1:] == [
        ("running", 0, "a", None),
        ("cancel_requested", 0, "a", "by ann@shop"),
        ("cancelled", 0, "a", "cancel requested"),
    ]


def test_a_misfire_says_which_policy_decided_and_why(world: World) -> None:
    world.apply(every("tick", 10, misfire=MisfireRule("skip")))
    world.pass_time(100)
    node = world.node("a")
    node.turn()
    assert steps(world) == [("skipped", None, None, "skipped 10 (policy skip, cause node_down)")]
    assert [step["at"] for step in (read_firing(world.store, the_firing(world)) or {})["trail"]] == [
        "2024-01-10T09:01:40Z"
    ]
