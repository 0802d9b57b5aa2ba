"""What users install: the built wheel holds the whole house, under one top-level name, and works alone."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.tree import FLOORS, HOUSE, ROOT, files, shown

NEEDED = ("pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the tree, where no stale build folder can add to it."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in HOUSE:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in NEEDED:
        shutil.copy(ROOT / name, tree / name)
    _run("-m", "build", "--wheel", "--no-isolation", "--outdir", str(tree / "dist"), folder=tree)
    (built,) = (tree / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed into a folder of its own without its dependencies."""
    target = tmp_path_factory.mktemp("installed")
    pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    _run(*pip, folder=target)
    return target


def _run(*command: str, folder: Path, path: Path | None = None) -> str:
    """Run Python with these arguments in a folder, with `path` first on its module path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_the_wheel_holds_every_file_of_the_house(wheel: Path) -> None:
    places = [shown(path) for path in files(*HOUSE)]
    expected = {place if place.startswith("qsched/") else f"qsched/{place}" for place in places}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == expected


def test_the_wheel_has_one_top_level_name(wheel: Path) -> None:
    """A user's own `scheduler` or `cli` package must not meet ours."""
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"qsched"}


@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_is_no_top_level_module(installed: Path, tmp_path: Path, floor: str) -> None:
    look = f"import importlib.util; print(importlib.util.find_spec({floor!r}))"
    assert _run("-c", look, folder=tmp_path, path=installed) == "None"


def test_every_public_name_loads_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    program = "import qsched; print(qsched.__file__, *[bool(getattr(qsched, n)) for n in qsched.__all__])"
    place, *loaded = _run("-c", program, folder=tmp_path, path=installed).split()
    assert Path(place).is_relative_to(installed)
    assert set(loaded) == {"True"}


def test_every_module_loads_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    """Above all Alembic's files, which name the house absolutely; its env.py runs only inside Alembic."""
    program = (
        "import importlib, pkgutil, qsched\n"
        "names = [m.name for m in pkgutil.walk_packages(qsched.__path__, 'qsched.')]\n"
        "for name in names:\n"
        "    if not name.endswith(('.__main__', '.env')):\n"
        "        assert importlib.import_module(name).__file__.startswith(qsched.__path__[0]), name\n"
        "print(len(names))"
    )
    modules = [path for path in files(*HOUSE, ending=".py") if path != ROOT / "qsched" / "__init__.py"]
    assert _run("-c", program, folder=tmp_path, path=installed) == str(len(modules))


def test_the_command_line_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    assert "qsched" in _run("-m", "qsched", "--help", folder=tmp_path, path=installed)
