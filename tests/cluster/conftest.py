"""A cluster driven by hand, on each of the three databases in turn."""

from collections.abc import Iterator
from itertools import count

import pytest

from support.hand_node import World
from support.servers import MariaServer, PostgresServer

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
    yield from _new_world(request)


@pytest.fixture(params=["postgresql", "mariadb"])
def server_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The same where several transactions can be open at once, which an SQLite file does not know."""
    yield from _new_world(request)


def _new_world(request: pytest.FixtureRequest) -> Iterator[World]:
    url = request.getfixturevalue(f"{request.param}_hand_url")
    world = World(url, f"hand{next(_numbers)}")
    yield world
    world.close()
