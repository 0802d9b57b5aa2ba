"""Every fate of a slot, produced in a real store and asked after: what happened, and why, in words with the row's own facts."""

from dataclasses import replace

import pytest
from qsched.cli.fate_words import words_of
from qsched.scheduler.backfill import BackfillOrder, backfill_all
from qsched.scheduler.control import delete, pause, resume
from qsched.scheduler.errors import UnknownTrigger
from qsched.scheduler.fate import Fate, explain_at, explain_between
from qsched.scheduler.outcome import Outcome
from qsched.triggers.instant import MINUTE, rfc3339
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.retry import RetryPolicy

from support.declared import trigger
from support.hand_node import START, World, python


def at(minutes: float) -> int:
    return START + round(minutes * MINUTE)


def fate(world: World, minutes: float, key: str = "a") -> Fate:
    return explain_at(world.store, key, at(minutes))


def words(world: World, minutes: float, key: str = "a") -> str:
    """Why, and what could be done."""
    why, step = words_of(fate(world, minutes, key), key, lambda i: "-" if i is None else rfc3339(i)[11:19])
    return f"{why} → {step}"


def test_ran_and_what_has_no_slot_there(world: World) -> None:
    world.apply(trigger("a"))
    node = world.node()
    world.pass_time(61)
    node.work()
    assert fate(world, 1).code == "ran"
    assert "ran and succeeded: firing" in words(world, 1)
    assert "on one, noticed 09:01:01, 1s late" in words(world, 1).replace("1.0s", "1s")
    assert fate(world, 1.5).code == "no_slot"
    assert "the one before is 09:01:00, the next is 09:02:00" in words(world, 1.5)
    assert fate(world, 2).code == "upcoming"
    with pytest.raises(UnknownTrigger):
        fate(world, 1, "b")


def test_failed_retried_and_waiting_for_a_retry(world: World) -> None:
    world.apply(trigger("a", retry=RetryPolicy.fixed(1, "10s")))
    node = world.node()

    def attempt(outcome: Outcome) -> None:
        (request,) = node.turn()
        node.finish(request, outcome)

    failed = Outcome("failed", error_type="RuntimeError", error_message="HTTP 503")
    world.pass_time(60)
    attempt(failed)
    assert fate(world, 1).code == "waiting"
    assert "waits for retry 1 at 09:01:10" in words(world, 1)
    world.pass_time(11)
    attempt(Outcome.success())
    assert "ran, with retry 1, and succeeded" in words(world, 1)
    world.pass_time(49)
    attempt(failed)
    world.pass_time(11)
    attempt(failed)
    assert fate(world, 2).code == "failed"
    assert "HTTP 503" in words(world, 2)
    assert "qsched firings retry" in words(world, 2)


@pytest.mark.parametrize("recovers", [True, False])
def test_running_lost_and_recovered(world: World, recovers: bool) -> None:
    world.apply(trigger("a"), jobs=(python("report", request_recovery=recovers),))
    one, two = world.node("one"), world.node("two")
    world.pass_time(60)
    one.turn()
    assert fate(world, 1).code == "running"
    assert "runs now: firing" in words(world, 1)
    one.kill()
    world.live_until(lambda: world.firings("id", "(state <> 'running' OR fence > 1)"), within=40)
    two.work()
    two.run()  # what its loops took meanwhile
    if recovers:
        assert "ran, taken over from a node that was lost, and succeeded" in words(world, 1)
    else:
        assert fate(world, 1).code == "lost"
        assert "its node was lost while it ran" in words(world, 1)


@pytest.mark.parametrize(
    ("policy", "code"), [("fire_once", "coalesced"), ("skip", "skipped"), ("fire_all", "ran")]
)
def test_a_cluster_that_was_down(world: World, policy: str, code: str) -> None:
    world.apply(trigger("a", misfire=MisfireRule(policy)))
    world.pass_time(5 * 60 + 30)
    assert "due and not decided yet: no node is alive → start one" in words(world, 2)
    node = world.node()
    node.work()
    assert [fate(world, n).code for n in (1, 2)] == [code, code]
    assert fate(world, 5).code == ("skipped" if policy == "skip" else "ran")
    said = words(world, 2)
    assert "no node was alive then" in said
    assert f"policy {policy}" in said
    if policy != "fire_all":
        assert "one row for 5 slots, 09:01:00 to 09:05:00" in said
        assert "noticed 09:05:30, 4m30s late" in said
    told = explain_between(world.store, "a", at(1), at(5))
    assert [each.at for each in told.fates] == [at(n) for n in range(1, 6)]  # each slot has its fate


def test_skipped_and_waiting_for_overlap(world: World) -> None:
    world.apply(
        trigger("a", job="s"),
        trigger("q", job="q"),
        jobs=(python("s", overlap="skip"), python("q", overlap="queue")),
    )
    world.functions |= {"s": lambda: None, "q": lambda: None}
    node = world.node()
    world.pass_time(60)
    node.turn()
    world.pass_time(61)
    node.turn()
    assert fate(world, 2).code == "overlapped"
    assert "did not run: its job was still running; skipped" in words(world, 2)
    assert "its job q is busy with firing" in words(world, 2, "q")
    assert "(overlap: queue)" in words(world, 2, "q")


def test_paused_and_what_a_resume_leaves(world: World) -> None:
    world.apply(trigger("a"))
    world.node()
    pause(world.store, ["a"], who="ana", reason="vendor outage")
    world.pass_time(150)
    assert "due and not decided yet: paused by ana since 09:00:00 (vendor outage)" in words(world, 1)
    assert "will not run as things are" in words(world, 3)
    resume(world.store, ["a"], who="ana")
    assert fate(world, 1).code == "paused"
    assert "skipped 2: the trigger was paused (one row for 2 slots" in words(world, 1)


def test_edited_retired_and_before_it_was_made(world: World) -> None:
    world.apply(trigger("a"))
    world.pass_time(90)
    world.apply(trigger("a", "*/2 * * * *"))
    assert fate(world, 1).code == "edited"
    assert fate(world, -4).code == "before"
    assert "the trigger was made at 09:00:00" in words(world, -4)
    delete(world.store, ["a"])
    assert fate(world, 4).code == "retired"


def test_done_by_end_and_by_number(world: World) -> None:
    world.apply(trigger("a", end_at=at(2)), trigger("m", max_fires=2))
    node = world.node()
    assert fate(world, 3).code == "ended"
    assert "the trigger ends at 09:02:00" in words(world, 3)
    assert "2 fires at most" in words(world, 3, "m")
    for _ in range(3):
        world.pass_time(60)
        node.work()
    assert fate(world, 2).code == "ran"
    assert "all 2 fires are used up" in words(world, 3, "m")


def test_left_out_by_a_calendar(world: World) -> None:
    calendars = {"closed": {"dates": [["2024-01-11", "2024-01-11"]]}}
    world.apply(
        replace(trigger("a", "0 9 * * *"), exclude=("closed",), calendars=calendars),
        replace(trigger("r", "0 9 * * *"), exclude=("closed",), calendars=calendars, on_excluded="next"),
    )
    day = 24 * 60
    assert fate(world, day).code == "excluded"
    assert "calendar closed leaves it out" in words(world, day)
    assert "it rolled to 09:00:00" in words(world, day, "r")
    assert [each.code for each in explain_between(world.store, "a", at(day), at(2 * day)).fates] == [
        "excluded",
        "upcoming",
    ]


def test_nobody_can_run_it(world: World) -> None:
    world.apply(trigger("t", run_on=("gpu",)), trigger("a", job="missing"))
    node = world.node()
    world.pass_time(61)
    node.work()
    world.pass_time(1)
    node.check_in.step()
    assert "no live node bears gpu (run_on) → start one: `qsched node --tags gpu`" in words(world, 1, "t")
    assert "no live node can load its job: cannot import missing" in words(world, 1)


def test_no_free_place_and_a_full_group(world: World) -> None:
    heavy = replace(python("heavy"), group="heavy")
    world.functions["heavy"] = lambda: None
    world.apply(trigger("a"), trigger("h", job="heavy"), jobs=(python("report"), heavy), limits={"heavy": 1})
    node = world.node(capacity=2)
    world.pass_time(60)
    assert len(node.turn()) == 2
    node.check_in.step()
    world.pass_time(60)
    node.check_in.step()
    assert "every live node is full (2 places) → more --capacity" in words(world, 2)
    assert "firings of the group of job heavy run as its limit allows" in words(world, 2, "h")


def test_in_error_and_a_definition_that_cannot_be_read(world: World) -> None:
    world.apply(trigger("a"))
    world.sql("UPDATE qsched_triggers SET spec = '{' WHERE cluster = ?", world.store.cluster_id)
    node = world.node()
    world.pass_time(61)
    node.work()
    assert "its definition cannot be read" in words(world, 1)


def test_a_row_that_is_kept_no_more(world: World) -> None:
    world.apply(trigger("a"))
    node = world.node()
    world.pass_time(60)
    node.work()
    world.sql("DELETE FROM qsched_firings WHERE cluster = ?", world.store.cluster_id)
    assert fate(world, 1).code == "forgotten"
    assert "its row is kept no more" in words(world, 1)


def test_backfilled(world: World) -> None:
    world.apply(trigger("a"))
    backfill_all(world.store, BackfillOrder("a", at(-5), at(-4)))
    world.node().work()
    assert "backfilled as firing" in words(world, -4)
    assert fate(world, -4).facts["backfill"]["state"] == "succeeded"


def test_cancelled(world: World) -> None:
    world.apply(trigger("a"))
    node = world.node()
    world.pass_time(60)
    (request,) = node.turn()
    node.finish(request, Outcome("cancelled", error_message="by ana"))
    assert fate(world, 1).code == "cancelled"
