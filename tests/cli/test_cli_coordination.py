"""How the command line asks for a way to agree, is refused, and shows who leads or that nobody does."""

from typing import Any

import pytest
from qsched.scheduler.store.cluster_rows import LEADER, REDIS, ROW_LOCKS, fall_back, take_over
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.node_rows import NodeFacts, register
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND

from support.command_line import Command, Said

LONG = 600 * SECOND


@pytest.fixture
def store(sqlite_url: str) -> Any:
    made = open_store(sqlite_url, create=True)
    yield made
    made.close()


def node_of(store: Store, coordination: str, elector: str | None) -> int:
    """A live node, in a cluster that agrees in its way."""
    facts = NodeFacts(
        "one", "host", 1, None, 5, "0", None, None, LONG, coordination=coordination, elector=elector
    )
    incarnation, _ = store.transaction("register", lambda tx: register(tx, facts))
    return incarnation


def test_who_leads_is_shown(qsched: Command, store: Store) -> None:
    incarnation = node_of(store, LEADER, REDIS)
    assert "nobody leads now" in qsched("nodes", "list").err
    store.transaction("take over", lambda tx: take_over(tx, incarnation, LONG, by=REDIS))
    (node,) = qsched("nodes", "list", "-o", "json").items
    assert node["leader"] is True
    shown = qsched("nodes", "list", "-o", "wide")
    assert "yes" in shown.out
    assert shown.err == ""


def test_a_cluster_that_fell_back_says_since_when(qsched: Command, store: Store) -> None:
    node_of(store, LEADER, REDIS)
    store.transaction("fall back", lambda tx: fall_back(tx, 1))
    shown = qsched("nodes", "list")
    assert shown.err.startswith("row locks since 20")
    assert "until a leader is elected again" in shown.err
    assert qsched("nodes", "list", "-o", "json").err == ""


def test_row_locks_need_no_words(qsched: Command, store: Store) -> None:
    node_of(store, ROW_LOCKS, None)
    assert qsched("nodes", "list").err == ""


def test_a_node_that_asks_for_another_way_is_refused_with_the_next_step(
    qsched_process: Command, store: Store
) -> None:
    node_of(store, ROW_LOCKS, None)
    ended = qsched_process("node", "--redis", "redis://127.0.0.1:1/0")
    assert ended.code == 6
    last = ended.err.strip().splitlines()[-1]
    assert last.startswith("error: the nodes of this cluster work with row locks")
    assert "elected by Redis" in last
    assert "stop the other nodes" in last


@pytest.mark.parametrize("url", ["http://:hunter2@host", "redis://:hunter2/@host"])
def test_a_bad_redis_url_is_one_line_without_the_password(
    qsched: Command, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    check_refused(qsched("node", "--redis", url))
    monkeypatch.setenv("QSCHED_NODE_REDIS", url)
    check_refused(qsched("node"))


def test_an_option_of_it_that_nobody_knows_too(qsched_process: Command) -> None:
    check_refused(qsched_process("node", QSCHED_NODE_REDIS="redis://:hunter2@host?bogus=1"))


def check_refused(ended: Said) -> None:
    assert ended.code == 2
    last = ended.err.strip().splitlines()[-1]
    assert last.startswith("error: the Redis URL")
    assert "hunter2" not in ended.err + ended.out


def test_help_shows_no_password(qsched: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QSCHED_NODE_REDIS", "redis://:hunter2@host")
    ended = qsched("node", "--help")
    assert ended.code == 0
    assert "--redis" in ended.out
    assert "hunter2" not in ended.out + ended.err
