"""The store's schema from the command line; and readers meet every schema but their own with exit 5."""

import re
from pathlib import Path

import pytest

from support.command_line import Command, Filled


def test_upgrade_makes_a_schema_where_there_is_none_and_says_its_revision(qsched: Command) -> None:
    assert qsched("db", "current").code == 5
    first = qsched("db", "upgrade")
    assert first.code == 0
    assert qsched("db", "upgrade").out == first.out == qsched("db", "current").out
    (item,) = qsched("db", "current", "-o", "json").items
    assert item == {"revision": first.out.strip(), "head": first.out.strip(), "current": True}


@pytest.mark.parametrize("command", [("triggers", "list"), ("apply",), ("db", "current"), ("db", "upgrade")])
def test_a_newer_schema_is_refused_by_all(qsched: Command, filled: Filled, command: tuple[str, ...]) -> None:

    Path("qsched.yaml").write_text(
        "qsched: 1\njobs: {j: {command: 'true'}}\ntriggers: {t: {job: j, every: 1h}}\n"
    )
    filled.sql("UPDATE qsched_version SET version_num = '9999'")
    said = qsched(*command)
    assert said.code == 5
    assert "newer" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("kind", ["postgresql://h/d", "mariadb://h/d", "sqlite:///x.db"])
def test_the_sql_for_a_dba_needs_no_database(qsched: Command, kind: str) -> None:
    said = qsched("db", "sql", "--store", kind)
    assert said.code == 0
    assert re.search(r"CREATE TABLE (IF NOT EXISTS )?qsched_triggers", said.out)
