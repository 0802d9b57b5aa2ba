"""What a node tells those who listen in its process: each fact once, in order, behind the commit that made it true."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qsched.cluster.node import Node
from qsched.scheduler.apply import apply
from qsched.scheduler.around.marks import listener
from qsched.scheduler.events import Event, Fact
from qsched.scheduler.jobs import job
from qsched.scheduler.listeners import Audience, Teller
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND
from qsched.triggers.job import JobDefinition, JobPolicies
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.retry import RetryPolicy
from qsched.triggers.trigger import TriggerDefinition

from support.declared import Declared
from support.hand_node import HandNode, World, every, once, python
from support.waiting import wait_until

BOOM = Outcome.failure("ValueError", "boom")
marked: list[Event] = []


@listener
def on_event(event: Event) -> None:
    marked.append(event)


@job
def fails_once(ctx: Any) -> None:
    if ctx.attempt == 0:
        raise ConnectionError("no route")


class Heard:
    """What the listener of a node driven by hand heard."""

    def __init__(self, node: HandNode) -> None:
        self.events: list[Event] = []
        self._teller = Teller(Audience([self.events.append]))
        object.__setattr__(node.parts, "teller", self._teller)

    def facts(self) -> list[str]:
        """All of them, once those that wait are told."""
        self._teller.close(30)
        return [str(event.fact) for event in self.events]


def test_two_failures_then_the_end_of_the_retries(world: World) -> None:
    world.apply(every("tick", 600), jobs=[python("report", retry=RetryPolicy.fixed(1, "5s"))])
    node = world.node("a")
    heard = Heard(node)
    world.pass_time(600)
    for _ in range(2):
        (request,) = node.turn()
        node.finish(request, BOOM)
        world.pass_time(5)
    assert heard.facts() == ["planned", "started", "failed", "retried", "started", "failed", "exhausted"]
    assert {event.trigger for event in heard.events} == {"tick"}
    assert {event.job for event in heard.events} == {"report"}
    assert {event.firing for event in heard.events} == {world.firings("id")[0][0]}
    assert [event.attempt for event in heard.events] == [0, 0, 0, 0, 1, 1, 1]
    assert [event.fact for event in heard.events if event.final] == [Fact.EXHAUSTED]
    retried = heard.events[3]
    assert retried.reason == "retry 1 of 1 in 5s, at 2024-01-10T09:10:05Z"
    assert retried.datetime.isoformat() == "2024-01-10T09:10:00+00:00"


def test_a_misfire_carries_its_cause_policy_and_decision(world: World) -> None:
    world.apply(every("tick", 10, misfire=MisfireRule("skip")))
    world.pass_time(100)
    node = world.node("a")
    heard = Heard(node)
    node.turn()
    assert heard.facts() == ["misfired", "skipped"]
    for event in heard.events:
        assert (event.cause, event.policy, event.decision) == ("node_down", "skip", "skipped 10")


def test_a_rescuer_tells_of_the_dead_and_of_what_they_ran(world: World) -> None:
    world.apply(every("tick", 600), jobs=[python("report", request_recovery=True)])
    one, two = world.node("one"), world.node("two")
    heard = Heard(two)
    world.pass_time(600)
    world.hear()
    one.turn()
    one.kill()
    world.live_until(lambda: two.taken, within=60)
    assert heard.facts() == ["node_dead", "lost", "recovered", "started"]
    dead, lost, *_ = heard.events
    assert (dead.node, lost.node, lost.trigger, lost.job) == ("one", "one", "tick", "report")


def test_a_fenced_end_is_told_and_audited_once(world: World) -> None:
    world.apply(once("last", 10), jobs=[python("report", request_recovery=True)])
    one, two = world.node("one"), world.node("two")
    heard = Heard(one)
    world.pass_time(10)
    world.hear()
    (request,) = one.turn()
    one.die()
    world.live_until(lambda: two.taken, within=60)
    one.finish(request)
    one.settle()
    assert heard.facts() == ["planned", "started", "fenced"]
    assert not heard.events[-1].final
    rows = world.sql(
        "SELECT who, object, detail FROM qsched_audit WHERE cluster = ? AND verb = 'fenced'",
        world.store.cluster_id,
    )
    assert rows == [("one", str(request.firing_id), '{"fence":1,"outcome":"succeeded"}')]


def test_what_is_written_is_what_is_told_of_a_retry_that_comes_too_late(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The next slot is decided while the failure waits to be written: the log says so too."""
    world.apply(every("tick", 60), jobs=[python("report", retry=RetryPolicy.fixed(3, "5s"))])
    node, other = world.node("a"), world.node("b")
    heard = Heard(node)
    world.pass_time(60)
    world.hear()
    (request,) = node.turn()
    node.end(request, BOOM)
    world.pass_time(60)
    world.hear()
    other.turn()
    with caplog.at_level(logging.DEBUG):
        node.settle()
    assert heard.facts()[-2:] == ["failed", "retry_dropped"]
    assert [record.levelname for record in caplog.records if "firing=" in record.message] == ["ERROR"]


def test_each_retry_is_a_warning_and_only_the_last_failure_an_error(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.apply(every("tick", 600), jobs=[python("report", retry=RetryPolicy.exponential(2, "2s", 2.0))])
    node = world.node("a")
    world.pass_time(600)
    for wait in (2, 4, 0):
        (request,) = node.turn()
        node.finish(request, BOOM)
        world.pass_time(wait)
        world.hear()
    said = [
        (record.levelname, record.message.partition(" firing=")[2].partition(" ")[2])
        for record in caplog.records
    ]
    assert [line for line in said if line[1]] == [
        ("WARNING", "retry 1 of 2 in 2s: ValueError: boom"),
        ("WARNING", "retry 2 of 2 in 4s: ValueError: boom"),
        ("ERROR", "retries exhausted after 2: ValueError: boom"),
    ]


@pytest.fixture
def nothing_marked() -> Iterator[None]:
    marked.clear()
    yield
    marked.clear()


@pytest.mark.usefixtures("nothing_marked")
def test_a_node_tells_its_own_life_to_listeners_and_marked_functions(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'qsched.db'}"
    retry = RetryPolicy.fixed(3, "200ms")
    store = open_store(url, create=True)
    now = store.read("now", lambda tx: tx.now())
    job_of = JobDefinition(
        "fails_once", "python", f"{__name__}:fails_once", policies=JobPolicies(retry=retry)
    )
    soon = TriggerDefinition(name="soon", job="fails_once", schedule={"at": now + SECOND})
    apply(store, Declared((soon,), (job_of,)))
    store.close()
    heard: list[Event] = []
    later: list[Event] = []
    node = Node(url, app=[__name__], name="a", listeners=[heard.append])
    with node:
        assert node.wait_ready(30)
        stop = node.listen(later.append)
        wait_until(lambda: any(event.final for event in heard), "the firing ended")
        stop()
    expected = ["node_up", "planned", "started", "failed", "retried", "started", "succeeded", "node_left"]
    assert [str(event.fact) for event in heard] == expected
    assert marked == heard
    assert later
    assert later == heard[: len(heard) - 1][-len(later) :]
    assert [event.at for event in heard] == sorted(event.at for event in heard)
    assert heard[3].reason == "ConnectionError: no route"
