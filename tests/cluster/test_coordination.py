"""How nodes agree is the cluster's: the first node says it, the others take it, and nobody changes it while one lives."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from qsched.cluster.errors import NodeSettingsError
from qsched.cluster.node import Node
from qsched.cluster.settings import NodeSettings
from qsched.scheduler.errors import Conflict
from qsched.scheduler.store.cluster_rows import LEADER, REDIS, ROW_LOCKS, SQL, Coordination, coordination
from qsched.scheduler.store.node_rows import NodeFacts, register
from qsched.triggers.instant import SECOND

from support.hand_node import World
from support.waiting import wait_until

Way = tuple[str | None, str | None]
UNSAID: Way = (None, None)
ROWS: Way = (ROW_LOCKS, None)
BY_SQL: Way = (LEADER, SQL)
BY_REDIS: Way = (LEADER, REDIS)


def start(world: World, way: Way) -> Coordination:
    """A node that asks for this registers; how the cluster agrees then."""
    facts = NodeFacts("node", "host", 1, None, 5, "0", None, None, 15 * SECOND)
    facts = replace(facts, coordination=way[0], elector=way[1])
    world.store.transaction("register", lambda tx: register(tx, facts))
    return world.store.transaction("coordination", coordination)


@pytest.mark.parametrize("way", [ROWS, BY_SQL, BY_REDIS])
def test_the_first_node_sets_it_and_one_that_says_nothing_takes_it(world: World, way: Way) -> None:
    assert world.store.transaction("coordination", coordination)[:2] == UNSAID
    assert start(world, way)[:2] == way
    assert start(world, UNSAID)[:2] == way
    assert start(world, way)[:2] == way


def test_where_nobody_says_anything_it_is_row_locks(world: World) -> None:
    assert start(world, UNSAID)[:2] == ROWS


@pytest.mark.parametrize(
    ("before", "asked", "said"),
    [
        (ROWS, BY_SQL, ("row locks", "elected by the database")),
        (ROWS, BY_REDIS, ("row locks", "elected by Redis")),
        (BY_SQL, ROWS, ("elected by the database", "row locks")),
        (BY_SQL, BY_REDIS, ("elected by the database", "elected by Redis")),
        (BY_REDIS, BY_SQL, ("elected by Redis", "elected by the database")),
        (BY_REDIS, ROWS, ("elected by Redis", "row locks")),
    ],
)
def test_while_a_node_lives_another_way_is_refused_and_then_it_is_set(
    world: World, before: Way, asked: Way, said: tuple[str, str]
) -> None:
    start(world, before)
    with pytest.raises(Conflict) as refused:
        start(world, asked)
    was, wanted = said
    text = str(refused.value)
    assert was in text.partition("asks for")[0]
    assert wanted in text.partition("asks for")[2]
    assert "stop the other nodes" in str(refused.value.hint)
    assert world.store.transaction("coordination", coordination)[:2] == before
    assert world.sql("SELECT COUNT(*) FROM qsched_nodes WHERE cluster = ?", world.store.cluster_id) == [(1,)]
    world.pass_time(16)
    row = start(world, asked)
    assert row[:2] == asked
    assert (row.leader, row.leader_until, row.fallen_back_at) == (None, None, None)


def test_a_change_ends_what_an_old_leader_may_still_plan(world: World) -> None:
    epoch = start(world, BY_SQL).epoch
    world.pass_time(16)
    assert start(world, BY_REDIS).epoch > epoch


def test_a_node_that_comes_back_from_a_dead_verdict_takes_what_the_cluster_has_by_then(world: World) -> None:
    node = world.node("one")
    check_in = node.check_in
    check_in._facts = replace(check_in._facts, coordination=None)
    node.declare_dead()
    world.pass_time(16)
    start(world, BY_SQL)
    check_in.step()
    assert world.store.transaction("coordination", coordination)[:2] == BY_SQL
    assert node.parts.who.trusted_until > world.elapsed


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "way"),
    [
        ({}, UNSAID),
        ({"coordination": "row_locks"}, ROWS),
        ({"coordination": "leader"}, BY_SQL),
        ({"redis": "redis://host"}, BY_REDIS),
        ({"coordination": "leader", "redis": "redis://host"}, BY_REDIS),
        ({"coordination": "row_locks", "redis": "redis://host"}, ROWS),  # for wake-ups
    ],
)
def test_what_a_node_asks_for(fields: dict[str, str], way: Way) -> None:
    settings = NodeSettings(**fields)  # type: ignore[arg-type]
    assert (settings.mode, settings.elector) == way


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"coordination": "primary"}, "coordination must be row_locks or leader"),
        ({"on_redis_loss": "panic"}, "on-redis-loss must be row_locks or stop"),
        ({"leader_ttl": 2 * SECOND}, "leader-ttl must be at least three check-ins"),
        ({"redis": "http://:hunter2@host"}, "unknown scheme"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(fields: dict[str, object], said: str) -> None:
    with pytest.raises(NodeSettingsError, match=said) as raised:
        NodeSettings(**fields)  # type: ignore[arg-type]
    assert "hunter2" not in str(raised.value)


def test_a_leaders_lease_lasts_five_seconds_or_three_check_ins() -> None:
    assert NodeSettings().ttl == 5 * SECOND
    assert NodeSettings(check_in=4 * SECOND).ttl == 12 * SECOND
    assert NodeSettings(leader_ttl=9 * SECOND).ttl == 9 * SECOND


def test_settings_do_not_show_the_password() -> None:
    assert "hunter2" not in repr(NodeSettings(redis="redis://:hunter2@host"))


# -- a node inside an application ----------------------------------------------------------------------------------------


def test_an_embedded_node_leads_by_the_database(made_url: str) -> None:
    with Node(made_url, coordination="leader", check_in="0.5s", leader_ttl="2s") as node:
        node.wait_ready(30)
        services = node._life.services
        assert services is not None
        who = services.parts.who
        wait_until(lambda: who.term is not None, "the only node to lead")
        second = Node(made_url, coordination="row_locks")
        second.start()
        with pytest.raises(Conflict, match="row locks"):
            second.wait_ready(30)
        second.stop()
    assert who.term is None


def test_a_redis_that_is_away_keeps_no_node_from_starting_and_shows_no_password(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    url = "redis://:hunter2@127.0.0.1:1/0"
    with Node(sqlite_url, redis=url, check_in="0.2s", leader_ttl="0.6s") as node:
        node.wait_ready(30)
        wait_until(lambda: "leader.fallback" in caplog.text, "the fall back to row locks")
    assert "hunter2" not in caplog.text
