"""The stream of a cluster's events: made out of the ledger by who asks, each fact once, none missed between two looks."""

import threading
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from qsched.cluster.node import Node
from qsched.scheduler.apply import apply
from qsched.scheduler.control import pause, resume
from qsched.scheduler.event_stream import EventStream, Wanted
from qsched.scheduler.events import Event
from qsched.scheduler.groups import pause_group
from qsched.scheduler.jobs import job
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND
from qsched.triggers.job import JobDefinition, JobPolicies
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.retry import RetryPolicy
from qsched.triggers.trigger import TriggerDefinition

from support.declared import Declared
from support.hand_node import World, every, once, python
from support.waiting import wait_until

BOOM = Outcome.failure("ValueError", "boom")


@job
def often_fails(ctx: Any) -> None:
    if (ctx.firing_id + ctx.attempt) % 3 == 0:
        raise ConnectionError("no route")


def counted(store: Store) -> Counter[str]:
    """What there is to tell of the firings, counted from the ledger's columns by hand."""

    def of(tx: Any) -> Counter[str]:
        firings = tx.rows(
            "SELECT state, outcome, started_at, retry_dropped, misfire_policy, note, attempt FROM qsched_firings"
            " WHERE cluster = ?",
            tx.cluster,
        )
        attempts = tx.rows("SELECT outcome FROM qsched_attempts WHERE cluster = ?", tx.cluster)
        facts: Counter[str] = Counter()
        for state, outcome, started_at, dropped, policy, note, attempt in firings:
            facts["misfired"] += policy is not None
            facts["skipped" if state == "skipped" else "planned"] += 1
            if started_at is not None and state != "skipped":
                facts["started"] += 1
                if outcome is not None and state not in ("due", "running"):
                    facts[outcome] += 1
            facts["retry_dropped"] += dropped is not None
            facts["exhausted"] += state == "failed" and attempt > 0 and "exhausted" in (note or "")
        follows = {"interrupted": "handed_over", "lost": "recovered"}
        for (outcome,) in attempts:
            facts.update(["started", outcome, follows.get(outcome, "retried")])
        return +facts

    return store.read("count", of)


def of_firings(events: list[Event]) -> list[Event]:
    return [event for event in events if event.firing is not None]


def names(events: list[Event]) -> list[tuple[object, ...]]:
    return [(event.firing, event.fact, event.fence) for event in events]


def test_whatever_happens_between_two_looks_is_told_once(world: World) -> None:
    random = Random(1)
    retry, chance = RetryPolicy.fixed(1, "1s"), {"flaky": 0.8, "again": 0.3, "report": 0.3}
    world.functions |= {"flaky": lambda: None, "again": lambda: None}
    world.apply(
        every("tick", 13, job="flaky"),
        every("slow", 20, job="again"),
        every("late", 5, misfire=MisfireRule("skip", threshold=20 * SECOND)),
        jobs=[python("report"), python("flaky", retry=retry), python("again", request_recovery=True)],
    )
    stream = EventStream(world.store)
    told = of_firings(stream.begin())
    world.pass_time(60)  # nobody is there: what was missed is skipped
    for round_ in range(3):
        node = world.node(f"n{round_}")
        for _ in range(20):
            for request in node.turn():
                if random.random() < 0.8:
                    node.end(request, BOOM if random.random() < chance[request.job.name] else None)
            node.settle()
            world.pass_time(random.random() * 3)
            world.hear()
            if random.random() < 0.4:
                fresh = stream.poll()
                assert [event.at for event in fresh] == sorted(event.at for event in fresh)
                told += of_firings(fresh)
        if round_ < 2:
            while not any(request.job.name == "again" for request in node.taken):
                world.pass_time(1)
                world.hear()
                node.turn()
            node.kill()
            standby = world.node(f"standby{round_}")
            running = f"state = 'running' AND incarnation = {node.parts.who.incarnation}"
            world.live_until(lambda of=running: not world.firings("id", of))  # type: ignore[misc]
            for request in standby.taken[:]:
                standby.finish(request)
            standby.kill()
    told += of_firings(stream.poll())
    assert stream.poll() == []
    assert Counter(str(event.fact) for event in told) == counted(world.store)
    assert len(set(names(told))) == len(told), "none twice"
    assert {"retried", "exhausted", "skipped", "recovered"} <= {str(event.fact) for event in told}


def test_200_firings_of_a_real_node(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'qsched.db'}"
    store = open_store(url, create=True)
    now = store.read("now", lambda tx: tx.now())
    retry = RetryPolicy.fixed(2, "20ms")
    flaky = JobDefinition(
        "often_fails", "python", f"{__name__}:often_fails", policies=JobPolicies(retry=retry)
    )
    start = now - now % SECOND
    missed = {"every": 20_000, "anchor": start - 100 * SECOND}
    triggers = [
        TriggerDefinition(name=f"t{n}", job="often_fails", schedule={"at": start + SECOND + n * 10_000})
        for n in range(200)
    ]
    triggers.append(
        TriggerDefinition(
            name="skipping", job="often_fails", schedule=missed, misfire=MisfireRule("skip"), start_at=start - 100 * SECOND,
            end_at=start - 90 * SECOND,
        )
    )  # fmt: skip
    apply(store, Declared(tuple(triggers), (flaky,)))
    reader = open_store(url, create=False, read_only=True)
    stream = EventStream(reader)
    told = of_firings(stream.begin())
    done = threading.Event()

    def follow() -> None:
        while not done.wait(0.05):
            told.extend(of_firings(stream.poll()))

    follower = threading.Thread(target=follow)
    with Node(url, app=[__name__], name="a", capacity=50) as node:
        follower.start()
        assert node.wait_ready(30)
        left = "SELECT COUNT(*) FROM qsched_firings WHERE state NOT IN ('due', 'running')"
        wait_until(
            lambda: store.read("left", lambda tx: int(tx.run(left).scalar() or 0)) >= 200,
            "all have ended",
            within=60,
        )
    done.set()
    follower.join(30)
    told += of_firings(stream.poll())
    assert Counter(str(event.fact) for event in told) == counted(store)
    assert len(set(names(told))) == len(told)
    assert Counter(str(event.fact) for event in told)["retried"] > 50
    reader.close()
    store.close()


def test_what_is_committed_behind_a_later_id_is_told_too(server_world: World) -> None:
    """Ids are given when rows are written, and seen when their transactions are committed."""
    world = server_world
    world.apply(once("first", 10), once("second", 20))
    reader = world.open()
    stream = EventStream(reader)
    stream.begin()
    written, go_on = threading.Event(), threading.Event()
    row = "INSERT INTO qsched_firings (cluster, job_id, job_name, scheduled_at, first_scheduled_at, covers, reason, state,"
    row += " run_at, precedence, fence, attempt, refires, recoveries, noticed_at, request_recovery, max_recoveries, request_key)"
    row += " VALUES (?, 1, 'report', 0, 0, 1, 'manual', 'cancelled', 0, 95, 0, 0, 0, 0, 0, 0, 3, ?)"

    def late(tx: Any) -> None:
        tx.run(row, tx.cluster, "late")
        written.set()
        assert go_on.wait(30)

    other = world.open()
    slow = threading.Thread(target=other.transaction, args=("late", late))
    slow.start()
    assert written.wait(30)
    world.sql(row, world.store.cluster_id, "quick")
    quick = stream.poll()
    go_on.set()
    slow.join(30)
    after = stream.poll()
    other.close()
    reader.close()
    ids = [number for (number,) in world.firings("id")]
    assert [[event.firing for event in events] for events in (quick, after)] == [[max(ids)], [min(ids)]]


def test_operators_and_nodes_are_told(world: World) -> None:
    world.apply(every("tick", 60), every("g/tock", 60))
    stream = EventStream(world.store)
    stream.begin()
    one, two = world.node("one"), world.node("two")
    pause(world.store, ["tick"], who="ann@shop", reason="stocktaking")
    resume(world.store, ["tick"], who="ann@shop")
    pause_group(world.store, "g", who="bob@shop")
    world.apply(every("tick", 60), every("g/tock", 60), every("new", 60))
    told = [(str(event.fact), event.trigger, event.node, event.reason) for event in stream.poll()]
    incarnations = [node.parts.who.incarnation for node in (one, two)]
    assert told[:5] == [
        ("paused", "tick", None, "by ann@shop: stocktaking"),
        ("resumed", "tick", None, "by ann@shop"),
        ("paused", "g/*", None, "by bob@shop"),
        ("applied", None, None, "default"),
        ("node_up", None, "one", f"incarnation {incarnations[0]}"),
    ]
    one.kill()
    gone = "SELECT 1 FROM qsched_nodes WHERE state = 'dead' AND name = 'one' AND cluster = ?"
    world.live_until(lambda: world.sql(gone, world.store.cluster_id))
    (dead,) = [event for event in stream.poll() if event.fact == "node_dead"]
    assert (dead.node, dead.reason) == ("one", f"incarnation {incarnations[0]} is gone, says two")
    assert stream.poll() == []
    world.sql(
        "UPDATE qsched_triggers SET error_kind = 'poison', error = 'bad', error_at = ? WHERE name = 'tick'",
        world.time,
    )
    (error,) = stream.poll()
    assert (error.fact, error.trigger, error.reason) == ("trigger_error", "tick", "bad")
    world.sql("UPDATE qsched_triggers SET error_kind = NULL WHERE name = 'tick'")
    assert [event.fact for event in stream.poll()] == ["trigger_error_cleared"]


def test_what_was_told_as_history_is_not_told_again(world: World) -> None:
    world.apply(every("tick", 60), every("tock", 60))
    node = world.node("a")
    world.pass_time(60)
    stream = EventStream(world.store)
    stream.begin()
    requests = node.turn()  # between the two looks: history tells it, and a poll would
    history = stream.newest(100)
    assert [str(event.fact) for event in history if event.firing] == ["planned", "started"] * 2
    assert of_firings(stream.poll()) == []
    for request in requests:
        node.finish(request)
    assert [str(event.fact) for event in of_firings(stream.poll())] == ["succeeded"] * 2
    assert [event.fact for event in EventStream(world.store, Wanted(facts=["succeeded"])).newest(1)] == [
        "succeeded"
    ]
    assert {str(event.fact) for event in stream.since(world.time - 30 * SECOND)} >= {
        "planned",
        "started",
        "succeeded",
    }
    (tick,) = world.sql(
        "SELECT id FROM qsched_triggers WHERE name = 'tick' AND cluster = ?", world.store.cluster_id
    )
    of_tick = EventStream(world.store, Wanted(tick[0], "tick")).newest(100)
    assert {event.trigger for event in of_tick} == {"tick"}
    assert len(of_tick) == 3
