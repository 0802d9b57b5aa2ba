"""The changelog names what users can write: every public name, method and command, and nothing that is not there."""

import re

import pytest
from qsched.cli.main import root
from qsched.cli.tree import Tree

import qsched
from support.tree import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
FIRST = CHANGELOG.partition("## 0.1.0")[2]
HERE = FIRST.partition("Not in this version")[0]
NAMED = set(re.findall(r"`(\w+)(?:\([^`]*\))?`", HERE))


def commands() -> list[str]:
    names = []
    for name in root.leaves:
        command = root.get_command(None, name)  # type: ignore[arg-type]
        names += [name, *(command.leaves if isinstance(command, Tree) else ())]
    return names


@pytest.mark.parametrize("name", qsched.__all__)
def test_a_public_name_is_in_the_changelog(name: str) -> None:
    assert name in NAMED


@pytest.mark.parametrize("owner", [qsched.Scheduler, qsched.Node])
def test_every_public_method_is_in_the_changelog(owner: type) -> None:
    public = {name for name in vars(owner) if not name.startswith("_")}
    assert public <= NAMED, f"{owner.__name__}: {sorted(public - NAMED)} not in CHANGELOG.md"


@pytest.mark.parametrize("name", commands())
def test_every_command_is_in_the_changelog(name: str) -> None:
    assert name in NAMED, f"`{name}` not in CHANGELOG.md"


def test_the_changelog_names_nothing_that_is_not_there() -> None:
    methods = {name for owner in (qsched.Scheduler, qsched.Node, qsched.Cron) for name in dir(owner)}
    known = {*qsched.__all__, *methods, *commands(), "qsched"}
    unknown = sorted(name for name in NAMED if name not in known)
    assert not unknown, f"CHANGELOG.md names {unknown}, which this version has not"
