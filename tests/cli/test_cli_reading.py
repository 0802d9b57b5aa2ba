"""Reading is harmless and always answers: bad rows, no code, no database, many rows, and what it costs (field bug B76)."""

import hashlib
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from support.command_line import START, Command, Filled, clean_environment, copies, misfired

BAD_ROWS = {
    "not json": "{",
    "no object": "[1]",
    "no schedule": '{"v": 1, "job": "j"}',
    "no text": "",
    "an unknown kind": '{"v": 1, "job": "j", "schedule": {"lunar": "full"}}',
    "numbers for names": '{"v": 1, "job": 7, "schedule": {"cron": 7}, "time_zone": 3}',
    "a zone nobody knows": '{"v": 1, "job": "j", "schedule": {"cron": "* * * * *"}, "time_zone": "Mars/Base"}',
    "an expression nobody reads": '{"v": 1, "job": "j", "schedule": {"cron": "61 * * * *"}}',
    "a newer format": '{"v": 99, "job": "j", "schedule": {"moon": 1}}',
    "an interval out of this world": '{"v": 1, "job": "j", "schedule": {"every": -1, "anchor": 99999999999999999999}}',
    "null schedule": '{"v": 1, "job": "j", "schedule": null}',
}


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "name"])
def test_bad_rows_are_shown_as_such_beside_the_good_ones(qsched: Command, filled: Filled, form: str) -> None:
    good = "".join(f"  good{n}: {{job: j, every: 1h}}\n" for n in range(20))
    bad = "".join(f"  bad{n:02d}: {{job: j, every: 1h}}\n" for n in range(len(BAD_ROWS)))
    filled.declare(f"qsched: 1\njobs: {{j: {{command: 'true'}}}}\ntriggers:\n{good}{bad}")
    for n, spec in enumerate(BAD_ROWS.values()):
        filled.sql("UPDATE qsched_triggers SET spec = ? WHERE name = ?", spec, f"bad{n:02d}")
    said = qsched("triggers", "list", "-o", form)
    assert (said.code, said.err) == (0, "")
    for n in range(20):
        assert f"good{n}" in said.out
    for n in range(len(BAD_ROWS)):
        assert f"bad{n:02d}" in said.out
        assert qsched("triggers", "show", f"bad{n:02d}").code == 0
        assert qsched("triggers", "next", f"bad{n:02d}").code == 1
    if form == "json":
        states = {item["name"]: item["state"] for item in said.items}
        assert states["good0"] == "waiting"
        assert states["bad00"] == states["bad01"] == states["bad02"] == states["bad10"] == "error"
        assert all(item["error"] for item in said.items if item["state"] == "error")


def test_no_reading_command_changes_a_byte_of_the_store(
    qsched: Command, filled: Filled, tmp_path: Path
) -> None:
    number = misfired(filled)
    filled.sql("UPDATE qsched_triggers SET spec = '{' WHERE name = 'hourly'")
    filled.store.close()
    before = _checksum(tmp_path)
    for command in (
        ("triggers", "list"),
        ("triggers", "list", "-o", "json"),
        ("triggers", "show", "nightly"),
        ("triggers", "next", "nightly"),
        ("triggers", "show", "billing/hourly"),
        ("groups", "list"),
        ("misfires", "list"),
        ("firings", "list"),
        ("firings", "show", str(number)),
        ("events",),
        ("jobs", "list"),
        ("nodes", "list"),
        ("db", "current"),
    ):
        assert qsched(*command).code == 0, command
    assert _checksum(tmp_path) == before


def _checksum(folder: Path) -> dict[str, str]:
    """Every file that holds data: SQLite's -shm is an index of the other two, made by whoever reads."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if not path.name.endswith("-shm") and path.stat().st_size
    }


def test_the_list_needs_no_job_code_and_no_engine(
    qsched_process: Command, filled: Filled, tmp_path: Path
) -> None:
    misfired(filled)
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Never:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        banned = ('no.such', 'pydantic', 'yaml', 'alembic', 'croniter', 'psycopg', 'pymysql', 'dateutil',\n"
        "                  'qsched.triggers.cron', 'qsched.triggers.retry', 'qsched.scheduler.store.tables')\n"
        "        if name.startswith(banned):\n"
        "            raise AssertionError(f'{name} is imported by a list')\n"
        "sys.meta_path.insert(0, Never())\n"
    )
    for form in ("table", "wide", "json", "name"):
        said = qsched_process("triggers", "list", "-o", form, PYTHONPATH=str(tmp_path))
        assert (said.code, said.err) == (0, "")


def test_an_unreachable_database_is_one_line_and_exit_5(qsched_process: Command) -> None:
    for url in ("postgresql://u@127.0.0.1:1/d", "mariadb://u@127.0.0.1:1/d"):
        said = qsched_process("triggers", "list", "--store", url)
        assert (said.code, said.out) == (5, "")
        assert said.err.count("\n") == 1


def many(filled: Filled, count: int) -> None:
    """`count` triggers: copies of one, by SQL."""
    filled.declare("qsched: 1\njobs: {j: {command: 'true'}}\ntriggers: {t: {job: j, cron: '15 2 * * *'}}\n")
    number = filled.trigger_id("t")
    filled.sql(copies("qsched_triggers", "id, name", "id + n, 't' || n", count - 1, number))
    filled.sql(copies("qsched_trigger_clocks", "id", "id + n", count - 1, number))


def test_a_long_list_comes_whole_in_bounded_memory(filled: Filled, tmp_path: Path, long_form: bool) -> None:
    count = 70_000 if long_form else 5_000
    many(filled, 1)
    _, least = _watched(tmp_path, filled.url, "json")
    filled.sql("DELETE FROM qsched_triggers")
    many(filled, count)
    listed = {form: _watched(tmp_path, filled.url, form) for form in ("json", "table", "name")}
    assert len(json.loads(listed["json"][0])["items"]) == count
    assert len(listed["table"][0].splitlines()) == count + 1
    assert len(set(listed["name"][0].splitlines())) == count
    for _, peak in listed.values():
        assert peak < least + 12_000


def _watched(folder: Path, url: str, form: str) -> tuple[str, int]:
    """What a list says, and the most memory, in KiB, that it took. (ru_maxrss would count what its parent held.)"""
    watched = (
        "import atexit, re, sys;"
        "atexit.register(lambda: sys.stderr.write(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]));"
    )
    ran = subprocess.run(
        [sys.executable, "-c", watched + START, "triggers", "list", "-o", form],
        cwd=folder,
        env=clean_environment(QSCHED_STORE=url),
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout, int(ran.stderr)


@pytest.mark.alone
def test_a_list_costs_at_most_half_more_than_importing_what_it_stands_on(
    filled: Filled, tmp_path: Path, long_form: bool
) -> None:
    many(filled, 1000)
    run, measured = partial(_processor_seconds, tmp_path, filled.url), range(9 if long_form else 5)
    pairs = [(run("-c", START, "triggers", "list"), run("-c", "import sqlalchemy, click")) for _ in measured]
    listed, floor = (median(times) for times in zip(*pairs, strict=True))
    assert listed <= 1.5 * floor, f"{listed:.2f} s beside {floor:.2f} s"


def _processor_seconds(folder: Path, url: str, *arguments: str) -> float:
    """Processor time of a Python process: what it takes on a machine that has nothing else to do."""
    before = os.times()
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=clean_environment(QSCHED_STORE=url),
        stdout=subprocess.DEVNULL,
        check=False,
    )
    after = os.times()
    assert ran.returncode == 0
    return after.children_user + after.children_system - before.children_user - before.children_system
