"""A drain while the database is away, frozen or back in time: the process leaves, and says what it could not settle."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.drain_stage import Stage
from support.nodes import NodeProcess, Nodes
from support.servers import PostgresServer, postgres_server
from support.waiting import wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL of this file's own: it is stopped and frozen."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def stage(server: PostgresServer, tmp_path: Path) -> Iterator[Stage]:
    with Nodes(tmp_path, server.new_database()) as nodes:
        stage = Stage(nodes)
        yield stage
        stage.store.close()


def said_left(node: NodeProcess) -> list[str]:
    """The firings that the process says it left without an end."""
    found = re.search(r"node\.left_unsettled firings=(\S+) ", node.log())
    assert found, node.log()[-3000:]
    return found[1].split(",")


@pytest.mark.long
def test_a_node_whose_database_is_gone_leaves_and_names_what_it_could_not_settle(
    server: PostgresServer, stage: Stage
) -> None:
    node = stage.node("one", "500ms")
    ended, deaf = stage.begin("polite", "deaf")
    stage.store.close()
    server.stop()
    try:
        wait_until(lambda: stage.ended() == [ended], "the short one to end")
        node.signal()
        assert node.wait(within=30) == 8
        assert said_left(node) == [str(ended), str(deaf)]
    finally:
        server.start()
    assert stage.row(ended, "state, incarnation") == (
        "running",
        1,
    )  # whose end the store never heard: for the rescuers
    assert stage.row(deaf, "state, incarnation") == ("running", 1)


def test_a_node_whose_database_is_frozen_leaves_all_the_same(server: PostgresServer, stage: Stage) -> None:
    """Nothing answers and nothing fails: every call of the node hangs in it."""
    node = stage.node("one", "500ms")
    ended, deaf = stage.begin("polite", "deaf")
    server.pause()
    try:
        wait_until(lambda: stage.ended() == [ended], "the short one to end")
        node.signal()
        assert node.wait(within=30) == 8
        assert said_left(node) == [str(ended), str(deaf)]
    finally:
        server.resume()


@pytest.mark.long
def test_an_idle_node_whose_database_is_frozen_leaves_too(server: PostgresServer, stage: Stage) -> None:
    node = stage.node("one", "500ms")
    server.pause()
    try:
        node.signal()
        assert node.wait(within=30) in (0, 8)  # 8 where its planner was in the middle of a take
    finally:
        server.resume()


def test_an_outcome_lands_when_the_database_comes_back_during_the_drain(
    server: PostgresServer, stage: Stage
) -> None:
    node = stage.node("one", "30s")
    (firing,) = stage.begin("polite")
    stage.store.close()
    server.stop()
    try:
        wait_until(lambda: stage.ended() == [firing], "it to end")
        node.signal()
        wait_until(lambda: "node.drain " in node.log(), "the drain to begin")
    finally:
        server.start()
    assert node.wait(within=60) == 0
    assert stage.row(firing, "state") == ("succeeded",)
    assert stage.nodes_rows("state, handed_over") == [("stopped", 0)]


def test_a_node_that_waits_for_its_database_leaves_at_once(server: PostgresServer, stage: Stage) -> None:
    stage.store.close()
    server.stop()
    try:
        node = stage.nodes.start("one", file=stage.file)
        wait_until(lambda: "node.waiting" in node.log(), "the node to wait for its database", within=60)
        node.signal()
        assert node.wait(within=20) == 0
    finally:
        server.start()


def test_a_start_that_a_frozen_database_holds_up_is_left_when_the_drain_is_over(
    server: PostgresServer, stage: Stage
) -> None:
    server.pause()
    try:
        node = stage.nodes.start("one", "--drain-timeout", "500ms", "--lease", "60s", file=stage.file)
        wait_until(lambda: has_begun(node), "the process to run", within=60)
        node.signal()
        assert node.wait(within=30) == 0
    finally:
        server.resume()


def has_begun(node: NodeProcess) -> bool:
    """Whether its handler for SIGTERM stands, and its start has come to the database."""
    status = Path(f"/proc/{node.pid}/status").read_text()
    (caught,) = re.findall(r"SigCgt:\s+(\w+)", status)
    return bool(int(caught, 16) & 1 << 14)
