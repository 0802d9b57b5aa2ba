"""What a command wrote is kept beside its attempt, where the attempt's own texts have no room for it."""

import json
from dataclasses import replace
from typing import Any

from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store.firing_reports import firing
from qsched.triggers.retry import RetryPolicy

from support.hand_node import World, every, python


def wrote(text: str, outcome: Outcome) -> Outcome:
    return replace(outcome, output=json.dumps({"text": text, "size": len(text)}))


def attempts(world: World, number: int) -> list[dict[str, Any]]:
    item = firing(world.store, number)
    assert item is not None
    return list(item["attempts"])


def test_each_attempt_has_its_own_output(world: World) -> None:
    world.apply(every("tick", 10), jobs=[python("report", retry=RetryPolicy.fixed(2, "1s"))])
    node = world.node()
    world.pass_time(10)
    (first,) = node.turn()
    node.finish(first, wrote("one", Outcome.failure("ExitCode", "exit code 1")))
    world.pass_time(1)
    (second,) = node.turn()
    node.finish(second, wrote("two", Outcome.success()))
    found = [(attempt["outcome"], attempt["output"]) for attempt in attempts(world, first.firing_id)]
    assert found == [
        ("failed", {"text": "one", "size": 3}),
        ("succeeded", {"text": "two", "size": 3}),
    ]


def test_the_output_of_a_fenced_attempt_is_not_kept(world: World) -> None:
    world.apply(every("tick", 10), jobs=[python("report", request_recovery=True)])
    one, two = world.node("one"), world.node("two")
    world.pass_time(10)
    (late,) = one.turn()
    one.declare_dead()
    world.live_until(lambda: two.taken)
    one.finish(late, wrote("too late", Outcome.success()))
    assert [attempt["output"] for attempt in attempts(world, late.firing_id)] == [None, None]
