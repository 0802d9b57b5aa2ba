"""A cluster driven by hand, on each of the three databases in turn."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from support.hand_node import World
from support.led import Led
from support.led_world import LedWorld
from support.servers import MariaServer, PostgresServer, RedisServer

_numbers = count(1)

_OTHERWISE_LED = {
    # What these say of several nodes takes a leader's word, or a node's row; test_leader_trouble says how.
    "test_what_another_node_can_decide_is_left_to_it",
    "test_what_no_live_node_can_decide_is_in_error_as_soon_as_all_have_said_so",
    "test_a_job_that_one_node_cannot_load_is_left_to_the_other",
    "test_a_job_nobody_can_load_for_ten_minutes_puts_its_trigger_in_error_until_somebody_can",
    "test_a_trigger_with_tags_waits_for_a_node_that_bears_them",
    "test_a_jobs_tags_hold_for_triggers_that_name_none",
    "test_an_unloadable_job_that_is_declared_anew_is_tried_at_once",
    # They begin where nothing is agreed upon yet.
    "test_the_first_node_sets_it_and_one_that_says_nothing_takes_it",
    "test_where_nobody_says_anything_it_is_row_locks",
    # It brings loops of its own.
    "test_every_statement_of_every_loop_may_fail_for_a_while",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, of what is run in a led world, what holds there in another way."""
    left_out = [
        item
        for item in items
        if isinstance(item, pytest.Function)
        and item.originalname in _OTHERWISE_LED
        and item.callspec.params.get("world") == "led"
    ]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def sqlite_hand_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('hand') / 'qsched.db'}"


@pytest.fixture(scope="session")
def postgresql_hand_url(postgres: PostgresServer) -> str:
    return postgres.new_database()


@pytest.fixture(scope="session")
def mariadb_hand_url(mariadb: MariaServer) -> str:
    return mariadb.new_database() + "?ssl_disabled=true"  # else each connect reads certificates for 50 ms


@pytest.fixture(params=["sqlite", "postgresql", "mariadb", pytest.param("led", marks=pytest.mark.long)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """An empty cluster under a clock of its own; `-k sqlite` takes one database. In the long form it is also `led`.

    All share one schema per database, each a cluster of its own: making a schema takes a second.
    """
    if request.param == "led":
        led_world = LedWorld(request.getfixturevalue("sqlite_hand_url"), f"hand{next(_numbers)}")
        yield led_world
        led_world.close()
    else:
        yield from _new_world(request, request.param)


@pytest.fixture(params=["postgresql", "mariadb"])
def server_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The same where several transactions can be open at once, which an SQLite file does not know."""
    yield from _new_world(request, request.param)


def _new_world(request: pytest.FixtureRequest, database: str) -> Iterator[World]:
    url = request.getfixturevalue(f"{database}_hand_url")
    world = World(url, f"hand{next(_numbers)}")
    yield world
    world.close()


_ON_A_FILE = ["sql-sqlite", "redis-sqlite"]
_ON_SERVERS = ["sql-postgresql", "sql-mariadb"]
_THE_SAME = ["redis-postgresql", "redis-mariadb"]
"""What is asked of the database is the same with either elector."""


def _in_the_long_form(*names: str) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.long) for name in names]


@pytest.fixture(params=[*_ON_A_FILE, *_in_the_long_form(*_ON_SERVERS, *_THE_SAME)])
def led(request: pytest.FixtureRequest) -> Iterator[Led]:
    """A cluster in leader mode, with either elector; in the long form on each database."""
    yield from _new_led(request)


@pytest.fixture(params=[*_ON_A_FILE, *_ON_SERVERS, *_in_the_long_form(*_THE_SAME)])
def led_everywhere(request: pytest.FixtureRequest) -> Iterator[Led]:
    """The same for what asks something of its own of the database: always on each of them."""
    yield from _new_led(request)


def _new_led(request: pytest.FixtureRequest) -> Iterator[Led]:
    elector, database = request.param.split("-")
    server = request.getfixturevalue("redis") if elector == "redis" else None
    for world in _new_world(request, database):
        cluster = Led(world, elector, server)
        yield cluster
        cluster.close()


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A Redis of the test's own, to be stopped, paused and killed."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def led_by_redis(request: pytest.FixtureRequest, own_redis: RedisServer) -> Iterator[Led]:
    """A cluster that is led by a Redis of its own."""
    for world in _new_world(request, "sqlite"):
        cluster = Led(world, "redis", own_redis)
        yield cluster
        cluster.close()
