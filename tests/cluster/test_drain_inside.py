"""The end of a node inside an application: released at once, asked from elsewhere, told twice, and started again (B35)."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from qsched.cluster.check_in import CheckInService
from qsched.cluster.node import Node
from qsched.cluster.services import Services
from qsched.scheduler.apply import apply
from qsched.scheduler.context import JobContext, RunRequest
from qsched.scheduler.control import fire
from qsched.scheduler.drain_request import drain_progress, request_drain
from qsched.scheduler.jobs import job
from qsched.scheduler.planner import Planner
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND
from qsched.triggers.job import JobDefinition
from qsched.triggers.trigger import TriggerDefinition

from support.declared import Declared, rows
from support.waiting import wait_until

HERE = __name__


class Scene:
    """What the jobs of this file did, and what they wait for."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.gate = threading.Event()


scene = Scene()


@job
def gated(ctx: JobContext) -> None:
    """Lasts until the gate opens; does not hear that it is told to stop."""
    scene.began.append(ctx.firing_id)
    scene.gate.wait(30)


@job
def patient(ctx: JobContext) -> None:
    """Lasts until it is told to stop."""
    scene.began.append(ctx.firing_id)
    ctx.sleep(30)


@pytest.fixture(autouse=True)
def fresh_scene() -> Iterator[None]:
    scene.__init__()  # type: ignore[misc]
    yield
    scene.gate.set()


@pytest.fixture
def store(sqlite_url: str) -> Iterator[Store]:
    """A store whose triggers fire by hand alone."""
    store = open_store(sqlite_url, create=True)
    jobs = tuple(JobDefinition(name, "python", f"{HERE}:{name}") for name in ("gated", "patient"))
    apply(
        store, Declared(tuple(TriggerDefinition(j.name, j.name, {"cron": "0 0 1 1 *"}) for j in jobs), jobs)
    )
    yield store
    store.close()


def started(url: str, **fields: Any) -> Node:
    node = Node(url, app=[HERE], check_in=SECOND // 10, name="inside", **fields)
    node.start()
    assert node.wait_ready(30)
    return node


def begin(store: Store, trigger: str) -> int:
    firing = fire(store, trigger)
    wait_until(lambda: firing in scene.began, "the job to begin")
    return firing


def state_of(store: Store, firing: int) -> tuple[Any, ...]:
    (found,) = rows(store, "SELECT state, fence FROM qsched_firings WHERE id = ?", firing)
    return found


def drained(store: Store, incarnation: int = 1) -> bool:
    progress = drain_progress(store, incarnation)
    return progress is not None and progress.state == "stopped"


def test_one_runs_to_its_end_and_one_that_was_taken_and_not_begun_is_released_at_once(
    store: Store, sqlite_url: str
) -> None:
    node = started(sqlite_url, drain_timeout="30s")
    running = begin(store, "gated")
    services: Any = node._life.services
    submit, taken, go_on = services.pool.submit_many, threading.Event(), threading.Event()

    def held(requests: list[RunRequest]) -> None:
        taken.set()
        assert go_on.wait(30)
        submit(requests)

    services.pool.submit_many = held
    unbegun = fire(store, "gated")
    assert taken.wait(30)
    assert state_of(store, unbegun) == ("running", 1)
    codes: list[int] = []
    stopping = threading.Thread(target=lambda: codes.append(node.stop()))
    stopping.start()
    wait_until(lambda: services.parts.who.draining, "the drain to begin")
    go_on.set()
    wait_until(lambda: state_of(store, unbegun) == ("due", 1), "it to be released")
    assert state_of(store, running) == ("running", 1)
    later = fire(store, "gated")
    scene.gate.set()
    stopping.join()
    assert codes == [0]
    assert state_of(store, running) == ("succeeded", 1)
    assert state_of(store, later) == ("due", 0)
    assert scene.began == [running]


def test_a_node_that_was_asked_to_drain_takes_nothing_more_and_stays_stopped(
    store: Store, sqlite_url: str
) -> None:
    node = started(sqlite_url, drain_timeout="30s")
    running = begin(store, "gated")
    request_drain(store, "inside", who="ops")
    wait_until(lambda: drain_progress(store, 1).state == "draining", "it to hear")  # type: ignore[union-attr]
    later = fire(store, "gated")
    scene.gate.set()
    wait_until(lambda: drained(store), "the drain to end")
    node.start()  # it was not stopped by its application: nothing happens
    assert (state_of(store, running), state_of(store, later)) == (("succeeded", 1), ("due", 0))
    assert rows(store, "SELECT count(*) FROM qsched_nodes") == [(1,)]
    assert node.stop() == 0
    node.start()
    assert node.wait_ready(30)
    wait_until(lambda: state_of(store, later)[0] == "succeeded", "the new incarnation to work")
    assert node.stop() == 0


def test_an_application_that_stops_a_node_that_drains_waits_and_hears_the_same(
    store: Store, sqlite_url: str
) -> None:
    node = started(sqlite_url, drain_timeout="500ms")
    begin(store, "patient")
    request_drain(store, "inside")
    wait_until(lambda: drain_progress(store, 1).state != "up", "it to hear")  # type: ignore[union-attr]
    assert node.stop() == 8
    assert rows(store, "SELECT state, handed_over FROM qsched_nodes") == [("stopped", 1)]


def test_a_drain_that_was_asked_for_can_be_hurried_by_the_application(store: Store, sqlite_url: str) -> None:
    node = started(sqlite_url, drain_timeout="1h")
    firing = begin(store, "patient")
    request_drain(store, "inside")
    wait_until(lambda: drain_progress(store, 1).state != "up", "it to hear")  # type: ignore[union-attr]
    assert node.stop(now=True) == 8
    assert state_of(store, firing)[0] == "cancelled"


def test_two_who_stop_a_node_at_once_hear_the_same(store: Store, sqlite_url: str) -> None:
    node = started(sqlite_url, drain_timeout="500ms")
    begin(store, "patient")
    codes: list[int] = []
    both = [threading.Thread(target=lambda: codes.append(node.stop())) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert codes == [8, 8]


def test_stop_and_start_in_one_process_as_often_as_one_likes(store: Store, sqlite_url: str) -> None:
    node = Node(sqlite_url, app=[HERE])
    scene.gate.set()
    for _ in range(5):
        node.start()
        assert node.wait_ready(30)
        assert node.stop() == 0
    node.start()  # and while it starts
    assert node.stop() == 0
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("qsched-")]
    assert left == []


class Held:
    """A call that does its work and then does not come back until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, of: type, name: str) -> None:
        self.done, self.let_go = threading.Event(), threading.Event()
        real: Callable[..., None] = getattr(of, name)

        def held(*arguments: Any) -> None:
            real(*arguments)
            self.done.set()
            assert self.let_go.wait(30)

        monkeypatch.setattr(of, name, held)


def counted(monkeypatch: pytest.MonkeyPatch, of: type, name: str) -> list[Any]:
    """What each call of this method answered, from now on."""
    real: Callable[..., Any] = getattr(of, name)
    answers: list[Any] = []

    def call(*arguments: Any) -> Any:
        answers.append(real(*arguments))
        return answers[-1]

    monkeypatch.setattr(of, name, call)
    return answers


def test_a_node_that_is_stopped_while_it_registers_takes_nothing(
    store: Store, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = fire(store, "gated")
    registers, starts = Held(monkeypatch, CheckInService, "register"), Held(monkeypatch, Services, "start")
    steps = counted(monkeypatch, Planner, "step")
    node = Node(sqlite_url, app=[HERE], name="inside")
    node.start()
    assert registers.done.wait(30)
    assert node.stop(now=True) == 0  # which does not wait for the starter
    registers.let_go.set()
    assert starts.done.wait(30)
    wait_until(lambda: len(steps) >= 2, "the planner to have looked")
    assert state_of(store, waiting) == ("due", 0)
    starts.let_go.set()
    wait_until(lambda: drained(store), "the end of the node")
    assert scene.began == []


def test_what_began_before_a_hurried_stop_was_seen_ends_and_is_settled_before_the_node_has_stopped(
    store: Store, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = Held(monkeypatch, Services, "start")
    node = Node(sqlite_url, app=[HERE], name="inside")
    node.start()
    assert starts.done.wait(30)
    running = begin(store, "gated")
    assert node.stop(now=True) == 0
    starts.let_go.set()
    wait_until(lambda: drain_progress(store, 1).state != "up", "the drain")  # type: ignore[union-attr]
    assert not drained(store)
    assert state_of(store, running) == ("running", 1)
    scene.gate.set()
    wait_until(lambda: drained(store), "the end of the node")
    assert state_of(store, running) == ("succeeded", 1)
