"""A take starts each due thing once, within what is its share, whatever one row or one lost answer does."""

from typing import Any

import pytest
from qsched.scheduler import deciding
from qsched.scheduler.control import fire, pause, resume
from qsched.scheduler.firing import NewFiring
from qsched.scheduler.store.firing_rows import insert_firings
from qsched.scheduler.store.take_rows import Wanted, lock_due_clocks
from qsched.scheduler.store.tx import Tx
from qsched.triggers.instant import SECOND
from qsched.triggers.misfire import MisfireRule

from support.faults import Faults, wait_for
from support.hand_node import START, World, every, once, python


def test_no_node_takes_more_than_its_share(world: World) -> None:
    world.apply(*(every(f"t{number:02}", 60) for number in range(20)))
    nodes = [world.node(f"n{number}") for number in range(4)]
    world.pass_time(60)
    world.hear()
    for _ in range(2):  # the first step loads the job
        for node in nodes:
            node.planner.step()
    assert [len(node.taken) for node in nodes] == [5, 4, 3, 2]  # ⌈20/4⌉, ⌈15/4⌉, ⌈11/4⌉, ⌈8/4⌉


def test_a_share_is_never_less_than_one(world: World) -> None:
    world.apply(every("tick", 60))
    nodes = [world.node(f"n{number}") for number in range(3)]
    world.pass_time(60)
    world.hear()
    assert [len(node.turn()) for node in nodes] == [1, 0, 0]


def test_capacity_bounds_what_a_node_starts(world: World) -> None:
    world.apply(*(every(f"t{number}", 60) for number in range(5)))
    node = world.node(capacity=3)
    world.pass_time(60)
    world.hear()
    assert len(node.turn()) == 3
    assert len(world.firings("id")) == 3  # the others wait on their triggers, not as rows
    node.run()
    assert len(node.turn()) == 2


def test_older_comes_first_and_priority_breaks_ties(world: World) -> None:
    world.apply(
        once("late", 9), once("plain", 10), once("urgent", 10, priority=9), once("early", 5, priority=1)
    )
    node = world.node()
    world.pass_time(10)
    assert [request.trigger for request in node.turn()] == ["early", "late", "urgent", "plain"]


@pytest.mark.parametrize("capacity", [10, 2, 1])
def test_a_backlog_leaves_half_of_the_places_to_what_is_on_time(world: World, capacity: int) -> None:
    backlog = [once(f"old{number:02}", 1) for number in range(30)]
    world.apply(*backlog, *(once(f"new{number}", 30) for number in range(10)))
    node = world.node(capacity=capacity)
    world.pass_time(30)
    world.hear()
    served = []
    for _ in range(4 if capacity == 1 else 1):
        served += [str(request.trigger)[:3] for request in node.turn()]
        node.run()
    assert served.count("new") == -(-len(served) // 2)


def test_a_backlog_of_due_firings_leaves_half_of_the_places_too(world: World) -> None:
    world.apply(every("tick", 3600), once("new", 30))
    for _ in range(30):
        fire(world.store, "tick")
    node = world.node(capacity=4)
    world.pass_time(30)
    world.hear()
    assert "new" in [request.trigger for request in node.turn()]


def test_a_full_node_still_skips_what_its_rule_skips(world: World) -> None:
    world.apply(once("long", 1), every("tick", 10, misfire=MisfireRule("skip", threshold=5 * SECOND)))
    node = world.node(capacity=1)
    world.pass_time(1)
    assert len(node.turn()) == 1
    for _ in range(3):
        world.pass_time(8)
        assert node.turn() == []
    rows = world.firings("covers, state, misfire_decision", "trigger_name = 'tick'")
    assert rows == [(1, "skipped", "skipped 1")]
    assert world.clock_of("tick", "c.watermark") == (START + 10 * SECOND,)


# -- answers that are lost -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "lost"])
def test_a_take_whose_answer_was_lost_runs_each_firing_once(world: World, landed: bool) -> None:
    ran: list[str] = []
    world.functions["report"] = lambda ctx: ran.append(ctx.trigger)
    world.apply(every("a", 60), every("b", 60), every("c", 60, misfire=MisfireRule("skip")))
    node = world.node(own_store=True)
    world.pass_time(60)
    world.hear()
    node.planner.step()  # loads the job
    faults = Faults(node.store)
    faults.lose_commit("take", landed=landed)
    node.work()
    assert faults.raised == 1
    assert sorted(ran) == ["a", "b", "c"]
    assert world.firings("state, fence") == [("succeeded", 1)] * 3
    world.pass_time(1)
    assert node.turn() == []


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "lost"])
def test_a_take_of_due_firings_whose_answer_was_lost_runs_each_once(world: World, landed: bool) -> None:
    ran: list[int] = []
    world.functions["report"] = lambda ctx: ran.append(ctx.firing_id)
    world.apply(every("tick", 3600))
    wanted = [fire(world.store, "tick") for _ in range(3)]
    node = world.node(own_store=True)
    node.planner.step()
    faults = Faults(node.store)
    faults.lose_commit("take", landed=landed)
    node.work()
    world.pass_time(1)
    node.work()
    assert faults.raised == 1
    assert sorted(ran) == wanted


def test_a_commit_that_lands_only_after_its_answer_was_lost_is_waited_for(server_world: World) -> None:
    """E1: to a plain SELECT nothing has happened yet; the trigger's lock tells that something is on its way."""
    world = server_world
    ran: list[str] = []
    world.functions["report"] = lambda ctx: ran.append(ctx.trigger)
    world.apply(every("a", 60), every("b", 60))
    node = world.node(own_store=True)
    world.pass_time(60)
    world.hear()
    node.planner.step()
    late = Faults(node.store).lose_late_commit("take", 0.3)
    node.work()
    wait_for(late)
    node.work()
    assert sorted(ran) == ["a", "b"]
    assert world.firings("state, fence") == [("succeeded", 1)] * 2


# -- one bad row -----------------------------------------------------------------------------------------------------


def test_a_slot_that_has_a_row_already_runs_no_second_time_and_stops_nobody(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.apply(*(every(f"t{number}", 60) for number in range(4)))
    decide_behind_its_back(world, "t1", START + 60 * SECOND)
    node = world.node()
    world.pass_time(60)
    world.hear()
    node.work()
    rows = world.firings("trigger_name, state")
    assert sorted(rows) == [
        ("t0", "succeeded"),
        ("t1", "cancelled"),
        ("t2", "succeeded"),
        ("t3", "succeeded"),
    ]
    assert caplog.text.count("trigger.slots_were_decided") == 1
    assert world.clock_of("t1", "t.state, c.watermark") == ("waiting", START + 60 * SECOND)
    world.pass_time(60)
    world.hear()
    node.work()
    assert world.firings("scheduled_at, state", "trigger_name = 't1'") == [
        (START + 60 * SECOND, "cancelled"),
        (START + 120 * SECOND, "succeeded"),
    ]


def decide_behind_its_back(world: World, name: str, slot: int) -> None:
    """A row for a slot that the trigger's clock knows nothing of, as a restored table may hold."""
    trigger_id, job_id = world.clock_of(name, "t.id, t.job_id")
    cluster = world.store.cluster_id or 0
    row = NewFiring(
        cluster,
        trigger_id,
        None,
        job_id,
        name,
        "report",
        slot,
        slot,
        1,
        "schedule",
        "cancelled",
        slot,
        95,
        slot,
    )
    world.store.transaction("test", lambda tx: insert_firings(tx, [row]) and None)


def test_a_trigger_whose_rows_cannot_be_written_is_left_aside_and_the_others_run(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refusing(tx: Any, rows: list[NewFiring]) -> list[int]:
        if any(row.trigger_name == "t1" for row in rows):
            tx.run("SELECT nothing FROM nowhere")
        return insert_firings(tx, rows)

    monkeypatch.setattr(deciding, "insert_firings", refusing)
    world.apply(*(every(f"t{number}", 60) for number in range(4)))
    node = world.node()
    world.pass_time(60)
    world.hear()
    node.work()
    assert sorted(world.firings("trigger_name")) == [("t0",), ("t2",), ("t3",)]
    assert world.clock_of("t1", "c.watermark, t.state") == (START, "waiting")
    assert "could not be written" in caplog.text
    monkeypatch.undo()
    world.pass_time(2)
    node.work()
    assert world.firings("state", "trigger_name = 't1'") == [("succeeded",)]


def test_an_error_of_our_own_in_a_batch_is_one_triggers_trouble(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = deciding._advanced

    def broken(case: Any, decision: Any) -> Any:
        if case.clock.id == wrong:
            raise RuntimeError("a mistake of ours")
        return real(case, decision)

    world.apply(*(every(f"t{number}", 60) for number in range(4)))
    (wrong,) = world.clock_of("t2", "t.id")
    monkeypatch.setattr(deciding, "_advanced", broken)
    node = world.node()
    world.pass_time(60)
    world.hear()
    node.work()
    assert sorted(world.firings("trigger_name")) == [("t0",), ("t1",), ("t3",)]


# -- deadlocks -------------------------------------------------------------------------------------------------------


def test_a_deadlock_at_any_statement_of_a_take_changes_nothing(world: World) -> None:
    """B36: break the first three attempts at each statement in turn; the result is as without a fault."""
    ran: list[int] = []
    world.functions["report"] = lambda ctx: ran.append(ctx.firing_id)
    jobs = [python("report"), python("alone", overlap="queue")]
    world.functions["alone"] = world.functions["report"]
    world.apply(
        every("a", 60), every("b", 60, job="alone"), every("c", 60, misfire=MisfireRule("fire_all", threshold=0)),
        jobs=jobs,
    )  # fmt: skip
    node = world.node(own_store=True)
    faults = Faults(node.store)
    rounds, raised = 0, -1
    while faults.raised > raised:  # until no transaction of a round has so many statements
        raised = faults.raised
        world.pass_time(60)
        world.hear()
        fire(world.store, "a")
        faults.deadlock(rounds)
        node.work()
        rounds += 1
    assert rounds > 8
    assert len(ran) == len(set(ran)) == rounds * 4
    assert {row[0] for row in world.firings("state")} == {"succeeded"}


def test_a_settle_is_repeated_after_deadlocks(world: World) -> None:
    world.apply(*(every(f"t{number}", 60) for number in range(3)), jobs=[python("report", overlap="allow")])
    node = world.node(own_store=True)
    faults = Faults(node.store)
    for place in range(4):
        world.pass_time(60)
        world.hear()
        requests = node.turn()
        for request in requests:
            node.end(request)
        faults.deadlock(place)
        node.settle()
    assert world.firings("state") == [("succeeded",)] * 12


def test_a_check_in_and_a_new_start_after_a_dead_verdict_are_repeated_after_deadlocks(world: World) -> None:
    world.apply(every("tick", 60))
    node = world.node(own_store=True)
    faults = Faults(node.store, "check_in")
    raised, place = -1, 0
    while faults.raised > raised:
        raised = faults.raised
        world.pass_time(1)
        if place % 2:
            node.declare_dead()
        faults.deadlock(place // 2)
        node.check_in.step()
        place += 1
    assert place > 6
    world.pass_time(60)
    world.hear()
    assert len(node.work()) == 1


# -- held ------------------------------------------------------------------------------------------------------------


def test_when_pause_has_returned_nothing_of_the_trigger_starts(world: World) -> None:
    world.apply(every("tick", 10))
    node = world.node()
    world.pass_time(10)
    pause(world.store, ["tick"])
    assert node.turn() == []
    world.pass_time(20)
    assert node.turn() == []
    resume(world.store, ["tick"])
    assert node.turn() == []
    world.pass_time(10)
    assert len(node.turn()) == 1


def test_what_another_node_holds_is_passed_by_and_not_waited_for(server_world: World) -> None:
    """While one node's take is open, another takes the rest."""
    world = server_world
    world.apply(*(every(f"t{number}", 60) for number in range(4)))
    one, two = world.node("one", own_store=True), world.node("two", own_store=True)
    world.pass_time(60)
    world.hear()
    one.planner.step()
    two.planner.step()  # both have the job loaded
    taken = []

    def work(tx: Tx) -> None:
        assert len(lock_due_clocks(tx, tx.now(), Wanted(2))) == 2
        taken.extend(two.turn())

    one.store.transaction("hold", work)
    assert len(taken) == 2
    assert len(one.turn()) == 2
