"""Backfill: slots that passed run after all, each once, oldest first and in turn, on the three stores."""

import datetime as dt

import pytest
from qsched.scheduler.backfill import BackfillOrder, backfill, backfill_all, backfill_bill
from qsched.scheduler.context import JobContext
from qsched.scheduler.control import fire, pause
from qsched.scheduler.errors import Refused, UnknownTrigger
from qsched.triggers.instant import MINUTE, SECOND, rfc3339
from qsched.triggers.misfire import MisfireRule

from support.declared import trigger
from support.hand_node import START, World, once, python


def order(first: float, last: float, **fields: object) -> BackfillOrder:
    """Of trigger `a`, so many minutes before the world's start."""
    return BackfillOrder("a", START - round(first * MINUTE), START - round(last * MINUTE), **fields)  # type: ignore[arg-type]


def backfilled(world: World, columns: str = "scheduled_at") -> list[tuple[object, ...]]:
    return world.firings(columns, "reason = 'backfill'")


def test_every_slot_of_the_range_runs_once_oldest_first_and_one_at_a_time(world: World) -> None:
    told: list[tuple[int, str]] = []
    world.functions["report"] = lambda ctx: told.append((ctx.scheduled_at, ctx.idempotency_key))
    world.functions["report"].__annotations__["ctx"] = JobContext
    world.apply(trigger("a"))
    bill = backfill_all(world.store, order(5, 1))
    assert (bill.slots, bill.to_start, bill.first, bill.last) == (5, 5, START - 5 * MINUTE, START - MINUTE)
    node = world.node()
    rounds = []
    while node.turn():
        rounds.append(len(node.taken))
        node.run()
    assert rounds == [1, 1, 1, 1, 1]
    slots = [START - n * MINUTE for n in (5, 4, 3, 2, 1)]
    assert [slot for slot, _ in told] == [dt.datetime.fromtimestamp(slot / SECOND, dt.UTC) for slot in slots]
    assert [key.rpartition("/")[2] for _, key in told] == [rfc3339(slot) for slot in slots]
    assert all(key.split("/")[1] == "a" for _, key in told)
    assert backfilled(world, "scheduled_at, state") == [(slot, "succeeded") for slot in slots]


def test_said_again_it_starts_nothing_again(world: World) -> None:
    world.apply(trigger("a"))
    assert backfill_all(world.store, order(5, 1)).to_start == 5
    again = backfill_all(world.store, order(7, 1))
    assert (again.to_start, again.open) == (2, 5)
    world.node().work()
    ended = backfill_bill(world.store, order(7, 1))
    assert (ended.to_start, ended.backfilled) == (0, 7)
    assert backfill_all(world.store, order(7, 1, again=True)).to_start == 7
    assert backfill_all(world.store, order(7, 1, again=True)).open == 7
    assert len(backfilled(world)) == 14


def test_stopped_between_two_batches_it_goes_on_where_it_was(world: World) -> None:
    world.apply(trigger("a"))
    first = next(backfill(world.store, order(10, 1, batch=4)))
    assert (first.bill.to_start, len(first.firings)) == (4, 4)
    assert first.following == START - 6 * MINUTE
    rest = backfill_all(world.store, order(10, 1, batch=4))
    assert (rest.open, rest.to_start) == (4, 6)
    assert [slot for (slot,) in backfilled(world)] == [START - n * MINUTE for n in range(10, 0, -1)]


def test_what_ran_by_the_schedule_is_left_out_and_what_was_skipped_is_not(world: World) -> None:
    world.apply(trigger("a", misfire=MisfireRule("skip")))
    node = world.node()
    for _ in range(2):
        world.pass_time(60)
        node.work()
    world.pass_time(300)
    node.work()  # five slots late: skipped as one row
    bill = backfill_bill(world.store, order(0, -7))
    assert (bill.slots, bill.ran, bill.to_start) == (8, 2, 6)
    assert bill.first == START  # before the trigger's first fire; nobody decided it
    assert backfill_all(world.store, order(0, -7)).to_start == 6
    node.work()
    assert len(backfilled(world)) == 6
    assert world.firings("covers", "state = 'skipped'") == [(5,)]


def test_what_the_trigger_has_not_decided_yet_is_its_own(world: World) -> None:
    world.apply(trigger("a"))
    world.pass_time(150)
    bill = backfill_bill(world.store, order(1, -60))
    assert (bill.slots, bill.to_start, bill.undecided) == (62, 2, 60)


def test_many_at_once_where_overlap_is_allowed(world: World) -> None:
    world.apply(trigger("a"))
    backfill_all(world.store, order(5, 1, overlap="allow"))
    assert len(world.node().turn()) == 5


def test_a_job_that_allows_no_overlap_takes_turns_whatever_is_asked_for(world: World) -> None:
    world.apply(trigger("a"), jobs=(python("report", overlap="queue"),))
    backfill_all(world.store, order(5, 1, overlap="allow"))
    assert len(world.node().turn()) == 1


@pytest.mark.parametrize("slots", [10, 50])
def test_the_schedule_of_a_job_that_allows_no_overlap_gets_its_turns(world: World, slots: int) -> None:
    world.apply(trigger("a"), jobs=(python("report", overlap="queue"),))
    backfill_all(world.store, order(slots, 1))
    node = world.node()
    for _ in range(8):
        node.turn()
        world.pass_time(30)
        for request in list(node.taken):
            node.finish(request)
    on_time = world.firings("scheduled_at", "reason = 'schedule'")
    assert on_time == [(START + n * MINUTE,) for n in (1, 2, 3)]
    assert len(world.firings("id", "reason = 'backfill' AND state = 'succeeded'")) == 5


def test_the_schedule_goes_on_beside_a_long_backfill(world: World) -> None:
    world.apply(trigger("a"))
    backfill_all(world.store, order(50, 1))
    node = world.node(capacity=2)
    for _ in range(3):
        world.pass_time(60)
        node.turn()
        node.run()
    assert len(world.firings("id", "reason = 'schedule'")) == 3


def test_what_cannot_be_backfilled_says_why(world: World) -> None:
    world.apply(trigger("a"), trigger("d"))
    with pytest.raises(UnknownTrigger):
        backfill_all(world.store, order(5, 1)._replace(key="b"))
    pause(world.store, ["a"])
    with pytest.raises(Refused, match="paused"):
        backfill_all(world.store, order(5, 1))
    assert backfill_all(world.store, order(5, 1, force=True)).to_start == 5
    assert len(world.node().work()) == 5  # although it is paused: somebody asked for it
    with pytest.raises(Refused, match=r"more than 100,000 slots"):
        backfill_bill(world.store, order(200_000, 1)._replace(key="d"))


def test_one_slot_only(world: World) -> None:
    world.apply(once("a", -30, start_at=None))
    assert backfill_all(world.store, order(5, 0)).to_start == 1


def test_a_fire_of_a_job_that_takes_turns_does_not_wait_for_another_jobs_long_backfill(world: World) -> None:
    world.functions["solo"] = lambda: None
    world.apply(
        trigger("a"), trigger("b", job="solo"), jobs=(python("report"), python("solo", overlap="queue"))
    )
    pause(world.store, ["b"])
    backfill_all(world.store, order(60, 1, overlap="allow"))
    world.pass_time(5)
    fire(world.store, "b", force=True)
    node = world.node(capacity=2)
    for _ in range(5):
        node.turn()
        world.pass_time(1)
        node.run()
    assert world.firings("state", "reason = 'manual'") == [("succeeded",)]
