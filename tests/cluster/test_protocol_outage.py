"""The database goes away and comes back: what ended is written then, what was missed says why, old trust begins nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from qsched.scheduler.errors import StoreUnavailable
from qsched.scheduler.outcome import Outcome
from qsched.triggers.instant import SECOND
from qsched.triggers.retry import RetryPolicy

from support.hand_node import START, HandNode, World, every, python


class Outage:
    """Cuts one node off from its store, and mends it."""

    def __init__(self, node: HandNode) -> None:
        self._node = node
        self._real = (node.store.transaction, node.store.read)
        self.tries = 0

    def begin(self, mended_after: int | None = None) -> None:
        """Every transaction fails, for ever or so many times."""

        def away(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                self.tries += 1
                if mended_after is not None and self.tries > mended_after:
                    return real(*arguments, **options)
                raise StoreUnavailable("it is away")

            return call

        vars(self._node.store).update(transaction=away(self._real[0]), read=away(self._real[1]))

    def end(self) -> None:
        vars(self._node.store).update(transaction=self._real[0], read=self._real[1])


def cut_off(world: World) -> tuple[HandNode, Outage]:
    """A node with a store of its own that can be cut off."""
    node = world.node(own_store=True)
    return node, Outage(node)


def test_an_outcome_keeps_its_place_until_it_has_landed(world: World) -> None:
    world.apply(every("tick", 60), jobs=[python("report", retry=RetryPolicy.fixed(1, "30s"))])
    node, outage = cut_off(world)
    world.pass_time(60)
    world.hear()
    (request,) = node.turn()
    ended_at = world.time
    node.end(request, Outcome.failure("ValueError", "boom"))
    outage.begin(mended_after=6)
    node.settle()
    waited = world.time - ended_at
    assert waited > 3 * SECOND  # six tries with growing pauses
    assert node.parts.hand.empty.is_set()
    # The retry counts from when the body ended, not from when the database could hear of it.
    ((state, run_at),) = world.firings("state, run_at")
    assert state == "due"
    assert abs(run_at - ended_at - 30 * SECOND) < 10


def test_what_was_missed_while_the_database_was_away_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    world.apply(every("tick", 10))
    node, outage = cut_off(world)
    outage.begin()
    for _ in range(95):
        world.pass_time(1)
        node.check_in.step()
    assert caplog.text.count("store.unavailable") == 1  # told once, not per tick
    assert caplog.text.count("node.untrusted") == 1
    outage.end()
    node.check_in.step()
    node.work()
    assert world.firings("misfire_cause, covers") == [("database_down", 9)]
    assert "store.available" in caplog.text


def test_nothing_is_begun_on_trust_that_has_run_out(world: World) -> None:
    """Taken just before the database went away: others may have declared this node dead by now."""
    world.apply(every("tick", 60))
    node, outage = cut_off(world)
    world.pass_time(60)
    world.hear()
    (request,) = node.turn()
    outage.begin()
    world.pass_time(14.5)  # its lease can have run out at the others in half a second
    assert not node.settler.may_begin(request)
    assert node.planner.step() > 0
    outage.end()
    node.run()
    assert world.firings("state, fence, run_at") == [("due", 1, START + 60 * SECOND)]
    node.check_in.step()
    assert [again.fence for again in node.turn()] == [2]


def test_a_node_that_cannot_check_in_tries_four_times_an_interval(world: World) -> None:
    node, outage = cut_off(world)
    outage.begin()
    waits = [node.check_in.step() for _ in range(20)]
    assert waits == [0.25] * 20  # a back-off that grows would make false deaths
    outage.end()
    assert node.check_in.step() == 1.0


def test_a_database_that_comes_back_after_a_dead_verdict_finds_a_new_incarnation(world: World) -> None:
    world.apply(every("tick", 60))
    node, outage = cut_off(world)
    old = node.parts.who.incarnation
    outage.begin()
    world.pass_time(20)
    node.check_in.step()
    node.declare_dead()
    outage.end()
    node.check_in.step()
    assert node.parts.who.incarnation > old
    world.pass_time(40)
    world.hear()
    assert len(node.work()) == 1
