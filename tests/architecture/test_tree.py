"""The tree is what its declarations say, and tells nothing about the machine it was written on."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import qsched
from support.tree import HOUSE, ROOT, files, module_name, refuse, shown

HARNESSES = {"fault", "interleave", "mutants", "sim"}
TOP = {
    *HOUSE,
    *("tests", "docs", "examples", "benchmarks", ".ci"),
    *("pyproject.toml", "Makefile", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"),
}
# Put together here, so that this file does not hold what it looks for.
MACHINE_PATHS = re.compile(
    "|".join(f"{'/'}{place}/" for place in ("work", "root", "home/[a-z]+", "Users/[A-Za-z]+"))
)


@pytest.fixture(scope="module")
def setuptools() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        tool: dict[str, Any] = tomllib.load(file)["tool"]
    return dict(tool["setuptools"])


def _package_folders() -> set[Path]:
    return {path.parent for path in files(*HOUSE, ending=".py")}


def test_the_packages_list_equals_the_folders(setuptools: dict[str, Any]) -> None:
    """A folder left out works when installed for editing and is missing from the wheel."""
    assert set(setuptools["packages"]) == {
        module_name(folder / "__init__.py") for folder in _package_folders()
    }


def test_each_package_is_mapped_to_its_folder(setuptools: dict[str, Any]) -> None:
    folders = {module_name(folder / "__init__.py"): shown(folder) for folder in _package_folders()}
    assert setuptools["package-dir"] == folders


def test_each_package_has_an_init_and_each_floor_its_types_marker() -> None:
    missing = [
        f"{shown(folder)}/__init__.py"
        for folder in _package_folders()
        if not (folder / "__init__.py").exists()
    ]
    missing += [f"{floor}/py.typed" for floor in HOUSE if not (ROOT / floor / "py.typed").exists()]
    refuse(missing, "each of these must exist")


def test_every_house_folder_is_a_package() -> None:
    """Files that are not Python (templates, styles) sit in a package, else the wheel cannot hold them."""
    stray = {path.parent for path in files(*HOUSE)} - _package_folders()
    refuse(map(shown, stray), "give the folder an __init__.py, and the file a line in package-data")


def test_the_top_level_holds_nothing_without_need() -> None:
    found = {path.relative_to(ROOT).parts[0] for path in files()}
    refuse(found - TOP - {".github"}, "a new place at the top needs a reason, and a line in this test")


def test_no_file_names_a_place_on_the_machine_it_was_written_on() -> None:
    told = []
    for path in files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        told += [
            f"{shown(path)}:{n}: {line.strip()[:80]}"
            for n, line in enumerate(lines, 1)
            if MACHINE_PATHS.search(line)
        ]
    refuse(told, "say it relative to the repository, or in general")


def test_test_files_have_names_of_their_own() -> None:
    """pytest and mypy see the tests without packages, where two files of one name are one module.

    A conftest.py is pytest's own, a __main__.py Python's: known by its folder, and imported by nobody. The harnesses are
    imported by their folder's name (`sim.oracle`), so that only their tests share the one space of names.
    """
    shared = {"__init__.py", "__main__.py", "conftest.py"}
    names = [
        path.name
        for path in files("tests", ending=".py")
        if path.name not in shared and (path.parent.name not in HARNESSES or path.name.startswith("test_"))
    ]
    assert sorted(names) == sorted(set(names))


def test_no_test_hides_in_a_package() -> None:
    packages = [shown(path) for path in files("tests", ending="__init__.py")]
    assert packages == ["tests/support/__init__.py"]


@pytest.mark.parametrize("name", qsched.__all__)
def test_every_public_name_is_in_the_changelog(name: str) -> None:
    assert f"`{name}`" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
