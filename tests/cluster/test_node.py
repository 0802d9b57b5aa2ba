"""A Node inside an application: it starts whatever the database does, runs jobs in the background, and leaves nothing behind."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from qsched.cluster.errors import NodeSettingsError
from qsched.cluster.node import Node
from qsched.cluster.settings import NodeSettings
from qsched.scheduler.apply import apply
from qsched.scheduler.control import fire
from qsched.scheduler.errors import AppError, SchemaTooNew
from qsched.scheduler.jobs import job
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import VERSION_TABLE, open_store
from qsched.triggers.declaration_problem import DeclarationError
from qsched.triggers.instant import SECOND
from qsched.triggers.job import JobDefinition
from qsched.triggers.trigger import TriggerDefinition

from support.declared import Declared, rows
from support.servers import postgres_server
from support.waiting import wait_until

HERE = __name__


class Scene:
    """What the jobs of this file did, and what they wait for."""

    def __init__(self) -> None:
        self.ran: list[Any] = []
        self.gate = threading.Event()


scene = Scene()


@job
def note() -> None:
    scene.ran.append(threading.current_thread().name)


@job
async def note_loop() -> None:
    scene.ran.append(asyncio.get_running_loop())


@job
def deaf() -> None:
    scene.ran.append("began")
    scene.gate.wait(30)


@pytest.fixture(autouse=True)
def fresh_scene() -> Iterator[None]:
    scene.__init__()  # type: ignore[misc]
    yield
    scene.gate.set()


@pytest.fixture
def store(sqlite_url: str) -> Iterator[Store]:
    """A store whose triggers fire by hand alone."""
    store = open_store(sqlite_url, create=True)
    declare(store)
    yield store
    store.close()


def declare(store: Store) -> None:
    names = ("note", "note_loop", "deaf")
    jobs = tuple(JobDefinition(name, "python", f"{HERE}:{name}") for name in names)
    triggers = tuple(TriggerDefinition(name, name, {"cron": "0 0 1 1 *"}) for name in names)
    apply(store, Declared(triggers, jobs))


def node_of(url: str, **fields: Any) -> Node:
    return Node(url, app=[HERE], **fields)


def ready(node: Node) -> None:
    assert node.wait_ready(30)


def test_a_node_runs_jobs_in_the_background_and_ends_with_its_block(store: Store, sqlite_url: str) -> None:
    fire(store, "note")
    with node_of(sqlite_url) as node:
        wait_until(lambda: scene.ran, "the job")
        assert node.wait_idle(10)
    assert scene.ran[0].startswith("qsched-job")
    assert rows(store, "SELECT state FROM qsched_firings") == [("succeeded",)]
    assert rows(store, "SELECT state FROM qsched_nodes") == [("stopped",)]


def test_a_node_can_be_started_again_as_a_new_incarnation(store: Store, sqlite_url: str) -> None:
    node = node_of(sqlite_url)
    for number in (1, 2):
        node.start()
        ready(node)
        fire(store, "note")
        wait_until(lambda n=number: len(scene.ran) == n, "the job")  # type: ignore[misc]
        assert node.stop() == 0
    assert rows(store, "SELECT incarnation, state FROM qsched_nodes ORDER BY incarnation") == [
        (1, "stopped"),
        (2, "stopped"),
    ]


def test_nodes_of_one_name_are_told_apart_while_both_live(store: Store, sqlite_url: str) -> None:
    with node_of(sqlite_url, name="shop") as one:
        ready(one)
        with node_of(sqlite_url, name="shop") as two:
            ready(two)
            assert (one.name, two.name) == ("shop", "shop-2")
        with node_of(sqlite_url, name="shop") as three:
            ready(three)
            assert three.name == "shop-2"


def test_async_jobs_run_on_the_applications_loop(store: Store, sqlite_url: str) -> None:
    async def application() -> None:
        loop = asyncio.get_running_loop()
        node = node_of(sqlite_url, loop=loop)
        node.start()
        fire(store, "note_loop")
        for _ in range(3000):
            if scene.ran:
                break
            await asyncio.sleep(0.01)
        assert scene.ran == [loop]
        assert await asyncio.to_thread(node.stop) == 0

    asyncio.run(application())


def test_a_database_that_is_down_delays_work_and_never_the_start() -> None:
    with postgres_server() as server:
        url = server.new_database()
        server.stop()
        node = node_of(url)
        node.start()
        assert not node.wait_ready(0.5)
        server.start()
        assert node.wait_ready(60)
        store = open_store(url, create=False)
        declare(store)
        fire(store, "note")
        wait_until(lambda: scene.ran, "the job")
        store.close()
        assert node.stop() == 0


def test_a_node_that_waits_for_its_database_can_be_stopped(tmp_path: Path) -> None:
    node = node_of("postgresql://qsched@127.0.0.1:1/nowhere")
    node.start()
    assert not node.wait_ready(0.2)
    assert node.stop() == 0


def test_what_can_never_work_is_raised_at_the_start(tmp_path: Path, sqlite_url: str) -> None:
    with pytest.raises(AppError, match="no_such_module"):
        Node(sqlite_url, app=["no_such_module"]).start()
    file = tmp_path / "qsched.yaml"
    file.write_text("qsched: 1\ntriggers:\n  t: {job: note, cron: '61 * * * *'}\n")
    with pytest.raises(DeclarationError, match="61"):
        node_of(sqlite_url, files=[file]).start()
    assert not Path(sqlite_url.removeprefix("sqlite:///")).exists()


def test_a_schema_that_is_too_new_is_told_to_who_waits(store: Store, sqlite_url: str) -> None:
    store.transaction("newer", lambda tx: tx.run(f"UPDATE {VERSION_TABLE} SET version_num = '9999'") and None)
    node = node_of(sqlite_url)
    node.start()
    with pytest.raises(SchemaTooNew):
        node.wait_ready(30)
    node.stop()


def test_a_thread_that_outlives_its_node_is_settled_when_it_ends_and_never_run_beside_itself(
    store: Store, sqlite_url: str
) -> None:
    """Inside an application the process cannot be left, so the node goes on to check in until its last body has ended."""
    one = node_of(sqlite_url, drain_timeout=0, check_in=SECOND // 10)
    one.start()
    fire(store, "deaf")
    wait_until(lambda: scene.ran, "the job")
    assert one.stop() == 8
    look = "SELECT n.state, n.renew_seq, f.state, f.fence FROM qsched_nodes n, qsched_firings f WHERE n.incarnation = 1"
    ((_, seen, _, _),) = rows(store, look)
    with node_of(sqlite_url) as two:
        ready(two)
        wait_until(lambda: rows(store, look)[0][1] > seen + 3, "more check-ins")
        assert rows(store, look)[0][2:] == ("running", 1)
        scene.gate.set()
        wait_until(lambda: rows(store, look)[0][2:] == ("succeeded", 1), "the settle")
        wait_until(lambda: rows(store, look)[0][0] == "stopped", "the node's end")
    assert scene.ran == ["began"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"capacity": 0}, "capacity"),
        ({"capacity": 10_001}, "capacity"),
        ({"apply": "sometimes"}, "if-newer"),
        ({"check_in": 10_000}, "check-in"),
        ({"check_in": 6 * SECOND}, "lease"),
        ({"drain_timeout": -1}, "drain timeout"),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_what_would(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(NodeSettingsError, match=said):
        NodeSettings(**fields)


def test_a_nodes_durations_may_be_texts_or_timedeltas() -> None:
    node = Node("sqlite://", lease="30s", check_in=timedelta(seconds=2), drain_timeout="0s")
    settings = node.settings
    assert (settings.lease, settings.check_in, settings.drain_timeout) == (30_000_000, 2_000_000, 0)
