"""A cluster driven by hand, on each of the three databases in turn."""

from collections.abc import Iterator
from itertools import count

import pytest

from support.hand_node import World
from support.led import Led
from support.servers import MariaServer, PostgresServer, RedisServer

_numbers = count(1)


@pytest.fixture(scope="session")
def sqlite_hand_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('hand') / 'qsched.db'}"


@pytest.fixture(scope="session")
def postgresql_hand_url(postgres: PostgresServer) -> str:
    return postgres.new_database()


@pytest.fixture(scope="session")
def mariadb_hand_url(mariadb: MariaServer) -> str:
    return mariadb.new_database() + "?ssl_disabled=true"  # else each connect reads certificates for 50 ms


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """An empty cluster under a clock of its own; `-k sqlite` takes one database.

    All share one schema per database, each a cluster of its own: making a schema takes a second.
    """
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


_LED = [
    *("sql-sqlite", "sql-postgresql", "sql-mariadb", "redis-sqlite"),
    # What is asked of the database is the same with either elector.
    *(pytest.param(f"redis-{database}", marks=pytest.mark.long) for database in ("postgresql", "mariadb")),
]


@pytest.fixture(params=_LED)
def led(request: pytest.FixtureRequest) -> Iterator[Led]:
    """A cluster in leader mode, with either elector, on each database."""
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
