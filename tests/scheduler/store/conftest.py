"""An open store on each of the three databases in turn, and programs beside it."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store


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
