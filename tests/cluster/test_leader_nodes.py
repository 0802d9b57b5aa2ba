"""Four real nodes under a leader: every slot runs once, also when the leader is killed, and each node works (B01, A5)."""

from pathlib import Path

import pytest
from qsched.scheduler.store.schema import open_store

from support.acceptance import Result, four_nodes, run_for, write_yaml
from support.leaders import Leaders
from support.nodes import Nodes
from support.servers import RedisServer

pytestmark = pytest.mark.alone

QUICK = ("--check-in", "0.5s", "--leader-ttl", "2s", "--lease", "4s")


def each_elector(short: str) -> pytest.MarkDecorator:
    """Both electors, of which the short form tries one."""
    names = [
        name if name == short else pytest.param(name, marks=pytest.mark.long) for name in ("sql", "redis")
    ]
    return pytest.mark.parametrize("asked", names, indirect=True)


@pytest.fixture
def asked(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """What a node is asked for each elector."""
    if request.param == "sql":
        return ("--coordination", "leader")
    redis: RedisServer = request.getfixturevalue("redis")
    return ("--redis", redis.new_database())


def check(result: Result) -> None:
    judged = result.judgement
    assert not judged.missing
    assert not judged.double
    assert not judged.strange
    assert judged.early == 0
    assert (result.rows_missing, result.rows_double, result.rows_other) == (0, 0, 0)
    assert result.troubles == []


@each_elector("redis")
def test_four_nodes_run_each_slot_once(
    postgresql_url: str, asked: tuple[str, ...], tmp_path: Path, long_form: bool
) -> None:
    file, keys = write_yaml(tmp_path)
    with Nodes(tmp_path, postgresql_url) as nodes:
        four_nodes(nodes, file, *asked)
        result = run_for(nodes, keys, 60 if long_form else 3, 4)
    check(result)
    assert set(result.exit_codes) == {0}
    if long_form:
        assert result.judgement.late_at(0.99) <= 0.3
        assert min(result.judgement.share.values()) >= 0.1


@pytest.mark.long
@pytest.mark.parametrize("asked", ["sql", "redis"], indirect=True)
@pytest.mark.parametrize("database", ["mariadb", "sqlite"])
def test_four_nodes_of_another_database_run_each_slot_once(
    request: pytest.FixtureRequest, database: str, asked: tuple[str, ...], tmp_path: Path
) -> None:
    file, keys = write_yaml(tmp_path)
    with Nodes(tmp_path, request.getfixturevalue(f"{database}_url")) as nodes:
        four_nodes(nodes, file, *asked)
        result = run_for(nodes, keys, 60, 4)
    check(result)
    assert result.judgement.late_at(0.99) <= 0.3
    assert min(result.judgement.share.values()) >= 0.1


@each_elector("sql")
def test_after_a_killed_leader_the_next_one_leaves_no_slot_out(
    postgresql_url: str, asked: tuple[str, ...], tmp_path: Path
) -> None:
    file, keys = write_yaml(tmp_path, triggers=6)
    with Nodes(tmp_path, postgresql_url) as nodes:
        for number in range(3):
            nodes.start(f"node{number}", *asked, *QUICK, file=file)
        for node in nodes.all:
            node.wait_ready()
        store = open_store(postgresql_url, create=False)
        leaders = Leaders(nodes, store)
        first = leaders.leader()
        epoch = leaders.row().epoch
        assert leaders.kill().epoch == epoch + 1
        store.close()
        first.kill()
        nodes.all.remove(first)
        check_others(run_for(nodes, keys, 3, 2))


def check_others(result: Result) -> None:
    """Of the window after the kill; that a node died is told as an error, and is none of the others'."""
    judged = result.judgement
    assert not judged.missing
    assert not judged.double
    assert not judged.strange
    assert (result.rows_missing, result.rows_double) == (0, 0)
