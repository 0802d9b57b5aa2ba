"""Packages that a test writes and a registry imports; a plugin that brings the fixture."""

import itertools
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

WriteApp = Callable[..., str]
_numbers = itertools.count()


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WriteApp]:
    """Writes a package of fresh name from `file=text`, and answers the name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def write(**files: str) -> str:
        name = f"shop{next(_numbers)}"
        (tmp_path / name).mkdir()
        for file, text in {"__init__": "", **files}.items():
            (tmp_path / name / f"{file}.py").write_text("from qsched import job\n" + textwrap.dedent(text))
        return name

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("shop"):
            del sys.modules[name]
