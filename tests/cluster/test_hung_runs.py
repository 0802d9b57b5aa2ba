"""One run that hangs does not end its job (B07): a time-out ends it, what was skipped is on record, no wait is charged."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from qsched.scheduler.apply import apply
from qsched.scheduler.control import fire
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store.reports import trigger, triggers
from qsched.scheduler.store.schema import open_store
from qsched.triggers.declaration import load_text
from qsched.triggers.instant import SECOND, rfc3339

from qsched import Node
from support.declared import rows
from support.hand_node import START, World, every, python
from support.waiting import wait_until

JOBS = "support.ledger_jobs"


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_a_run_that_hangs_is_timed_out_and_the_next_slot_runs(world: World, overlap: str) -> None:
    """Every 60 s, time-out 30 s: timed out at +30 s, and the next run at +60 s."""
    world.apply(every("tick", 60), jobs=[python("report", overlap=overlap, timeout=30 * SECOND)])
    node = world.node()
    for minute in (1, 2, 3):
        world.pass_time(60 if minute == 1 else 30)
        world.hear()
        (request,) = node.turn()
        assert (request.scheduled_at, request.timeout) == (START + minute * 60 * SECOND, 30 * SECOND)
        world.pass_time(30)
        node.finish(request, Outcome.timeout(30 * SECOND))
    assert (
        world.firings("started_at - scheduled_at, finished_at - scheduled_at, state, outcome")
        == [(0, 30 * SECOND, "failed", "timed_out")] * 3
    )


def test_without_a_time_out_each_slot_is_skipped_on_record_and_the_list_says_what_runs(world: World) -> None:
    world.apply(
        every("tick", 60),
        every("calm", 60, job="other"),
        jobs=[python("report", overlap="skip"), python("other")],
    )
    world.functions["other"] = lambda: None
    node = world.node()
    world.pass_time(60)
    world.hear()
    hung = next(request for request in node.turn() if request.trigger == "tick")
    for _ in range(5):
        for request in [each for each in node.taken if each is not hung]:
            node.finish(request)
        world.pass_time(60)
        world.hear()
        node.turn()
    skipped = world.firings(
        "state, covers, misfire_cause, misfire_decision", "trigger_name = 'tick' AND state <> 'running'"
    )
    assert skipped == [("skipped", 1, "overlap", "skipped 1: the job was running")] * 5
    busy = {item["name"]: item["running"] for item in triggers(world.store)}
    assert busy["calm"]["skipped"] == 0
    assert busy["tick"] == {
        "firing": hung.firing_id,
        "since": rfc3339(START + 60 * SECOND),
        "attempt": 0,
        "node": "one",
        "skipped": 5,
    }
    shown = trigger(world.store, "tick")
    assert shown is not None
    assert shown["running"] == busy["tick"]
    node.finish(hung)
    world.pass_time(60)
    world.hear()
    assert [each.trigger for each in node.turn() if each.trigger == "tick"] == ["tick"]


# -- in real time, scaled down: what ends a body, and when -------------------------------------------------------------

_HANGING = """
qsched: 1
defaults: {overlap: skip, timeout: 1s, misfire: {threshold: 2s}}
jobs:
  thread: {python: "support.ledger_jobs:linger", data: {ledger: LEDGER, seconds: 3600}}
  loop: {python: "support.ledger_jobs:linger_on_loop", data: {ledger: LEDGER, seconds: 3600}}
  process: {python: "support.ledger_jobs:linger", run_in: process, data: {ledger: LEDGER, seconds: 3600}}
  command: {command: sleep 3600}
triggers:
  thread: {job: thread, every: 3s}
  loop: {job: loop, every: 3s}
  process: {job: process, every: 3s}
  command: {job: command, every: 3s}
"""


@pytest.mark.alone
def test_whatever_hangs_is_ended_in_its_time_and_its_next_slot_runs(sqlite_url: str, tmp_path: Path) -> None:
    text = _HANGING.replace("LEDGER", str(tmp_path / "ledger"))
    store = open_store(sqlite_url, create=True)
    apply(store, load_text(text, now=store.read("now", lambda tx: tx.now())))
    kinds = ["command", "loop", "process", "thread"]
    ended = "SELECT trigger_name FROM qsched_firings WHERE finished_at IS NOT NULL AND state <> 'skipped' GROUP BY trigger_name"
    with Node(sqlite_url, app=[JOBS], allow=["command"]):
        wait_until(
            lambda: sorted(row[0] for row in rows(store, f"{ended} HAVING count(*) >= 2")) == kinds,
            "each to be timed out twice",
        )
        found = rows(
            store,
            "SELECT trigger_name, scheduled_at, outcome, (finished_at - started_at) / 1000000.0, state FROM qsched_firings"
            " WHERE finished_at IS NOT NULL ORDER BY trigger_name, scheduled_at",
        )
    store.close()
    for kind in kinds:
        ours = [row for row in found if row[0] == kind][:2]
        assert [row[2] for row in ours] == ["timed_out"] * 2, found
        assert all(1.0 <= row[3] < 2.0 for row in ours), found
        assert ours[1][1] - ours[0][1] == 3 * SECOND, found


@pytest.fixture
def one_place(sqlite_url: str, tmp_path: Path) -> Iterator[Node]:
    """A node that runs one thing at a time, with two jobs whose time-out is just above what they last."""
    job = (
        f'{{python: "{JOBS}:linger", timeout: 1500ms, data: {{ledger: {tmp_path / "ledger"}, seconds: 0.9}}}}'
    )
    triggers_of = "{a: {job: a, cron: '@yearly'}, b: {job: b, cron: '@yearly'}}"
    text = f"qsched: 1\njobs: {{a: {job}, b: {job}}}\ntriggers: {triggers_of}\n"
    store = open_store(sqlite_url, create=True)
    apply(store, load_text(text, now=store.read("now", lambda tx: tx.now())))
    for name in ("a", "b"):
        fire(store, name)
    store.close()
    with Node(sqlite_url, app=[JOBS], capacity=1) as node:
        yield node


def test_the_wait_for_a_place_is_not_charged_to_a_time_out(one_place: Node, sqlite_url: str) -> None:
    store = open_store(sqlite_url, create=False)
    wait_until(
        lambda: rows(store, "SELECT count(*) FROM qsched_firings WHERE finished_at IS NOT NULL") == [(2,)],
        "both to end",
    )
    (first, second) = rows(
        store, "SELECT started_at, finished_at, state, outcome FROM qsched_firings ORDER BY started_at"
    )
    store.close()
    assert second[0] >= first[1], "the second waited for the first"
    assert [each[2:] for each in (first, second)] == [("succeeded", "succeeded")] * 2
