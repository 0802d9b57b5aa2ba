"""Commands run in this process or a new one, and a store for them to look at."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from qsched.cli.main import run
from qsched.scheduler.store.schema import open_store

from support.command_line import NOW, START, Command, Filled, Said, clean_environment


@pytest.fixture
def qsched(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sqlite_url: str
) -> Command:
    """Run a command line in this process, in a folder of its own, on `sqlite_url`."""
    for name in [name for name in os.environ if name.startswith("QSCHED_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("QSCHED_STORE", sqlite_url)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Said:
        capfd.readouterr()
        code = run(arguments)
        said = capfd.readouterr()
        return Said(code, said.out, said.err)

    return call


@pytest.fixture
def qsched_process(tmp_path: Path, sqlite_url: str) -> Command:
    """Run a command line as a process of its own, as a shell does."""

    def call(*arguments: str, **environment: str) -> Said:
        ran = subprocess.run(
            [sys.executable, "-c", START, *arguments],
            cwd=tmp_path,
            env=clean_environment(QSCHED_STORE=sqlite_url, **environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Said(ran.returncode, ran.stdout, ran.stderr)

    return call


@pytest.fixture
def filled(sqlite_url: str) -> Iterator[Filled]:
    """An empty store whose clock stands at NOW."""
    store = open_store(sqlite_url, create=True, now=lambda: NOW)
    yield Filled(sqlite_url, store)
    store.close()
