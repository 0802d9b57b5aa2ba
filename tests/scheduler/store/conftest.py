"""A store with its schema made, on each of the three databases in turn."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.scheduler.store.tables import metadata
from qsched.scheduler.store.tx import Tx


@pytest.fixture(scope="session")
def made_urls() -> dict[str, str]:
    """Databases whose schema was made by an earlier test: making one takes MariaDB most of a second."""
    return {}


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def made_url(
    request: pytest.FixtureRequest, made_urls: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> str:
    """A database with the schema and no rows; `-k sqlite` takes one of the three."""
    name = str(request.param)
    if name not in made_urls:
        made_urls[name] = _new(request, name, tmp_path_factory)
        open_store(made_urls[name], create=True).close()
    _empty(made_urls[name])
    return made_urls[name]


@pytest.fixture
def store(made_url: str) -> Iterator[Store]:
    """An open store with no rows but its cluster's."""
    opened = open_store(made_url, create=True)
    yield opened
    opened.close()


Program = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def program() -> Iterator[Program]:
    """Starts a Python program given as text (its arguments follow); whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(text: str, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-W", "error", "-c", text, *arguments]
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def _new(request: pytest.FixtureRequest, name: str, folders: pytest.TempPathFactory) -> str:
    if name == "sqlite":
        return f"sqlite:///{folders.mktemp('made')}/qsched.db"
    server = request.getfixturevalue("postgres" if name == "postgresql" else name)
    return str(server.new_database())


def _empty(url: str) -> None:
    def work(tx: Tx) -> None:
        for table in metadata.sorted_tables:
            tx.run(f"DELETE FROM {table.name}")

    store = open_store(url, create=True)
    store.transaction("empty the tables", work)
    store.close()
