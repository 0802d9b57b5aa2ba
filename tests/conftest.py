"""What every test may ask for: fresh databases on private servers, and the long form."""

import logging
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

from support.made_store import MadeStore, make_sqlite_store
from support.servers import MariaServer, PostgresServer, RedisServer, Server, ServerMissing

pytest_plugins = ["support.command_line", "support.written_app"]

LONG = os.environ.get("QSCHED_LONG") == "1"
CI = os.environ.get("CI") == "true"

# No deadline: a slow moment of a shared machine is no fault of the code. CI draws the same examples each
# time, so that a change is never refused for another change's fault.
settings.register_profile(
    "short", deadline=None, max_examples=100, derandomize=CI, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", parent=settings.get_profile("short"), max_examples=3000, derandomize=False)
settings.load_profile("long" if LONG else "short")

AnyServer = TypeVar("AnyServer", bound=Server)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked `long` to `make gate`."""
    if LONG:
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def the_same_process_for_every_test() -> Iterator[None]:
    """What a test silences (a simulation says nothing of its nodes), or how it hears signals, is not so for the next."""
    loggers = [logging.getLogger(name) for name in (None, "qsched", "alembic")]
    levels = [logger.level for logger in loggers]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def long_form() -> bool:
    """Whether this is `make gate`: tests with a size may take the larger one."""
    return LONG


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The session's PostgreSQL: shared, so never stopped, paused or killed (start your own for that)."""
    with ExitStack() as stack:
        yield _started(PostgresServer, stack)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaServer]:
    """The session's MariaDB: shared, so never stopped, paused or killed (start your own for that)."""
    with ExitStack() as stack:
        yield _started(MariaServer, stack)


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """The session's Redis: shared, so never stopped, paused or killed (start your own for that)."""
    with ExitStack() as stack:
        yield _started(RedisServer, stack)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """An SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'qsched.db'}"


@pytest.fixture
def postgresql_url(postgres: PostgresServer) -> Iterator[str]:
    """An empty PostgreSQL database."""
    with postgres.lease() as url:
        yield url


@pytest.fixture
def mariadb_url(mariadb: MariaServer) -> Iterator[str]:
    """An empty MariaDB database."""
    with mariadb.lease() as url:
        yield url


@pytest.fixture
def redis_url(redis: RedisServer) -> str:
    """An emptied Redis."""
    return redis.new_database()


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty database on each of the three in turn (`-k sqlite` takes one)."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(scope="session")
def made_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite store that was made and not used: to be copied."""
    file = tmp_path_factory.mktemp("made") / "qsched.db"
    make_sqlite_store(file)
    return file


@pytest.fixture(scope="session")
def made_postgresql(postgres: PostgresServer) -> Iterator[MadeStore]:
    """The session's PostgreSQL store."""
    with MadeStore(postgres.new_database()) as made:
        yield made


@pytest.fixture(scope="session")
def made_mariadb(mariadb: MariaServer) -> Iterator[MadeStore]:
    """The session's MariaDB store."""
    with MadeStore(mariadb.new_database()) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def made_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store with its schema and no rows, on each of the three databases in turn (`-k sqlite` takes one).

    Take this and not `store_url` where the making is not what is tested: it takes a server most of a second.
    """
    made = request.getfixturevalue(f"made_{request.param}")
    if isinstance(made, Path):
        return f"sqlite:///{shutil.copy(made, tmp_path / 'made.db')}"
    made.empty()
    return str(made.url)


def _started(make: Callable[[], AnyServer], stack: ExitStack) -> AnyServer:
    """The server, started; where its binaries are missing a skip at home and a failure in CI."""
    try:
        server = make()
    except ServerMissing as missing:
        if CI:
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
    stack.callback(server.remove)
    server.start()
    return server
