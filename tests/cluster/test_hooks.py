"""Hooks of a node: its first body begins when all that runs at the start has ended, what runs at its end follows the last."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qsched.cluster.node import Node
from qsched.scheduler.apply import apply
from qsched.scheduler.control import fire
from qsched.scheduler.errors import StartupFailed
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.triggers.job import JobDefinition
from qsched.triggers.trigger import TriggerDefinition

from support import around_jobs
from support.declared import Declared, rows
from support.ledger import Ledger
from support.nodes import NodeProcess, Nodes
from support.servers import postgres_server
from support.waiting import wait_until
from support.written_app import WriteApp

APP = around_jobs.__name__
STARTUP = ["first", "warm_up", "warm_loop"]
SHUTDOWN = ["linger", "clean_loop", "clean_up"]


class Stage:
    """A store with the app's jobs, and what they say."""

    def __init__(self, folder: Path, url: str) -> None:
        self.ledger = Ledger(folder / "ledger")
        self.nodes = Nodes(folder, url)
        self.store: Store = open_store(url, create=True)
        names = ("count", "count_apart", "count_async", "hold")
        jobs = [JobDefinition(name, "python", f"{APP}:{name}") for name in names]
        triggers = tuple(TriggerDefinition(name, name, {"cron": "0 0 1 1 *"}) for name in names)
        apply(self.store, Declared(triggers, tuple(jobs)))

    def whats(self) -> list[str]:
        return [line["what"] for line in self.ledger.lines()]

    def go(self) -> None:
        """Let `hold` end."""
        Path(f"{self.ledger.path}.go").touch()

    def node(self, failing: str = "", *options: str, drain: str = "20s") -> NodeProcess:
        environment = {around_jobs.LEDGER: str(self.ledger.path), around_jobs.FAILING: failing}
        options = ("--app", APP, "--drain-timeout", drain, *options)
        return self.nodes.start("a", *options, environment=environment)


@pytest.fixture
def stage(tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv(around_jobs.LEDGER, str(tmp_path / "ledger"))
    made = Stage(tmp_path, sqlite_url)
    with made.nodes:
        yield made
    made.store.close()


# -- a node of its own -------------------------------------------------------------------------------------------------


def test_bodies_come_after_the_startup_hooks_and_before_the_shutdown_hooks(stage: Stage) -> None:
    fire(stage.store, "hold")
    node = stage.node()
    wait_until(lambda: "body" in stage.whats(), "the body")
    node.signal()
    stage.go()
    assert node.wait() == 0
    assert stage.whats() == [*STARTUP, "outer", "opened", "body", "body_ended", "closed", *SHUTDOWN]
    assert rows(stage.store, "SELECT state FROM qsched_firings") == [("succeeded",)]
    assert rows(stage.store, "SELECT state FROM qsched_nodes") == [("stopped",)]
    assert (
        "hook.failed hook=support.around_jobs:clean_loop reason=SystemExit: a hook that fails" in node.log()
    )


def test_a_startup_hook_that_fails_is_one_line_and_exit_code_1(stage: Stage) -> None:
    fire(stage.store, "count")
    node = stage.node("startup")
    assert node.wait() == 1
    (line,) = [line for line in node.log().splitlines() if "warm_up" in line]
    assert line == "error: startup hook support.around_jobs:warm_up failed: ValueError: the cache is cold"
    assert stage.whats() == ["first", "warm_up"]
    assert rows(stage.store, "SELECT state FROM qsched_firings") == [("due",)]
    assert rows(stage.store, "SELECT state FROM qsched_nodes") == []


def test_a_node_that_leaves_with_a_body_in_a_thread_runs_no_shutdown_hooks(stage: Stage) -> None:
    fire(stage.store, "hold")
    node = stage.node(drain="100ms")
    wait_until(lambda: "body" in stage.whats(), "the body")
    node.signal()
    assert node.wait() == 8
    assert not set(SHUTDOWN) & set(stage.whats())


def test_a_shutdown_hook_that_does_not_end_is_left_behind_when_the_drain_is_over(stage: Stage) -> None:
    node = stage.node("shutdown", drain="100ms")
    node.wait_ready()
    node.signal()
    assert node.wait(20) == 0
    assert stage.whats() == [*STARTUP, "linger"]
    assert "hook.left hook=support.around_jobs:linger" in node.log()
    assert rows(stage.store, "SELECT state FROM qsched_nodes") == [("stopped",)]


def test_a_second_signal_does_not_wait_for_shutdown_hooks(stage: Stage) -> None:
    node = stage.node("shutdown")
    node.wait_ready()
    node.signal()
    wait_until(lambda: "linger" in stage.whats(), "the hook")
    node.signal()
    assert node.wait(15) == 0


def test_hooks_are_found_in_modules_that_the_nodes_file_names(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "qsched.yaml"
    file.write_text(f'qsched: 1\nnamespace: x\ntriggers: {{x: {{every: 1h, python: "{APP}:count"}}}}\n')
    environment = {around_jobs.LEDGER: str(stage.ledger.path)}
    node = stage.nodes.start("a", file=file, environment=environment)
    node.wait_ready()
    assert stage.whats() == STARTUP


# -- inside an application ---------------------------------------------------------------------------------------------


def test_each_kind_of_job_runs_between_the_hooks_of_an_embedded_node(stage: Stage, sqlite_url: str) -> None:
    with Node(sqlite_url, app=[APP]) as node:
        assert node.wait_ready(30)
        for name in ("count", "count_async", "count_apart"):
            fire(stage.store, name)
        wait_until(lambda: stage.whats().count("body") == 3, "the bodies")
        assert node.wait_idle(30)
    ran = [line for line in stage.ledger.lines() if line["thread"] != "MainThread"]
    assert [line["what"] for line in ran[:3]] == STARTUP
    assert [line["what"] for line in ran[-3:]] == SHUTDOWN
    assert {ran[2]["thread"], ran[-2]["thread"]} == {"qsched-loop"}
    apart = [line["what"] for line in stage.ledger.lines() if line["thread"] == "MainThread"]
    assert apart == [*STARTUP, "outer", "opened", "body", "closed"]
    assert rows(stage.store, "SELECT DISTINCT state FROM qsched_firings") == [("succeeded",)]


def test_async_hooks_run_on_the_applications_loop(stage: Stage, sqlite_url: str) -> None:
    async def application() -> None:
        node = Node(sqlite_url, app=[APP], loop=asyncio.get_running_loop())
        node.start()
        assert await asyncio.to_thread(node.wait_ready, 30)
        assert await asyncio.to_thread(node.stop) == 0

    asyncio.run(application())
    threads = {line["what"]: line["thread"] for line in stage.ledger.lines()}
    assert threads["warm_loop"] == threads["clean_loop"] == "MainThread"
    assert stage.whats() == [*STARTUP, *SHUTDOWN]


def test_a_node_that_is_started_again_runs_its_hooks_again(stage: Stage, sqlite_url: str) -> None:
    node = Node(sqlite_url, app=[APP])
    for _ in range(2):
        with node:
            assert node.wait_ready(30)
    assert stage.whats() == [*STARTUP, *SHUTDOWN] * 2


def test_a_startup_hook_that_fails_is_raised_to_whoever_waits_and_is_in_the_health(
    stage: Stage, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(around_jobs.FAILING, "startup")
    node = Node(sqlite_url, app=[APP])
    node.start()
    with pytest.raises(StartupFailed, match="warm_up failed: ValueError: the cache is cold") as raised:
        node.wait_ready(30)
    assert isinstance(raised.value.__cause__, ValueError)
    assert "warm_up failed" in node.health()["start"]
    assert node.stop() == 0
    assert stage.whats() == ["first", "warm_up"]


def test_an_application_that_goes_on_runs_shutdown_hooks_when_its_last_body_has_ended(
    stage: Stage, sqlite_url: str
) -> None:
    node = Node(sqlite_url, app=[APP], drain_timeout="10ms")
    node.start()
    assert node.wait_ready(30)
    fire(stage.store, "hold")
    wait_until(lambda: "body" in stage.whats(), "the body")
    assert node.stop() == 8
    assert not set(SHUTDOWN) & set(stage.whats())
    stage.go()
    wait_until(lambda: "clean_up" in stage.whats(), "the hooks")
    assert stage.whats()[-5:] == ["body_ended", "closed", *SHUTDOWN]


class Gate:
    """What the hooks of a written app wait for."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.said: list[str] = []

    def wait(self) -> None:
        self.began.set()
        assert self.go.wait(30)


gate = Gate()

WAITING = f"""
    from qsched import on_shutdown, on_startup
    from {__name__} import gate

    @on_startup
    def one():
        gate.said.append("one")
        gate.wait()

    @on_startup
    def two():
        gate.said.append("two")

    @on_shutdown
    def end():
        gate.said.append("end")
"""


@pytest.fixture(autouse=True)
def fresh_gate() -> Iterator[None]:
    gate.__init__()  # type: ignore[misc]
    yield
    gate.go.set()


def test_a_node_that_is_stopped_while_a_startup_hook_runs_begins_nothing_more(
    stage: Stage, sqlite_url: str, app: WriteApp
) -> None:
    node = Node(sqlite_url, app=[app(__init__=WAITING)])
    node.start()
    assert gate.began.wait(30)
    assert not node.wait_ready(0)
    stopping = threading.Thread(target=node.stop)
    stopping.start()
    wait_until(node._life.leaving.is_set, "the node to hear of it")
    gate.go.set()
    stopping.join(30)
    assert gate.said == ["one"]
    assert rows(stage.store, "SELECT state FROM qsched_nodes") == []


def test_a_startup_hook_runs_once_however_often_the_database_is_away(app: WriteApp) -> None:
    gate.go.set()
    with postgres_server() as server:
        url = server.new_database()
        server.stop()
        node = Node(url, app=[app(__init__=WAITING)])
        with node:
            assert not node.wait_ready(0.5)
            assert gate.said == []
            server.start()
            assert node.wait_ready(60)
        assert gate.said == ["one", "two", "end"]


def test_hooks_of_a_module_that_is_imported_later_are_told_of(
    app: WriteApp, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate.go.set()
    name = app(later=WAITING + "\n    @job\n    def work(): ...\n")
    store = open_store(sqlite_url, create=True)
    jobs = (JobDefinition("work", "python", f"{name}.later:work"),)
    apply(store, Declared((TriggerDefinition("work", "work", {"cron": "0 0 1 1 *"}),), jobs))
    with Node(sqlite_url, app=[name]) as node:
        assert node.wait_ready(30)
        fire(store, "work")
        wait_until(lambda: rows(store, "SELECT state FROM qsched_firings") == [("succeeded",)], "the job")
    store.close()
    assert gate.said == []
    told: list[Any] = [record.getMessage() for record in caplog.records if "hook.late" in record.message]
    assert [line.split()[1] for line in told] == [
        f"hook={name}.later:{hook}:" for hook in ("one", "two", "end")
    ]
