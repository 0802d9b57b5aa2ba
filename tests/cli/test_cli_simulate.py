"""`qsched simulate`: what would happen, by the planner that would do it."""

from pathlib import Path

import pytest

from support.command_line import Command

FILE = """\
qsched: 1
jobs:
  quick: {command: "true"}
  slow: {command: "true", overlap: skip}
triggers:
  once: {job: quick, cron: "*/10 * * * *"}
  each: {job: quick, cron: "*/10 * * * *", misfire: fire_all}
  none: {job: quick, cron: "*/10 * * * *", misfire: skip}
  busy: {job: slow, cron: "*/4 * * * *"}
"""
DAY = ("--days", "1", "--from", "2024-01-10T00:00:00Z", "-o", "json")


@pytest.fixture(autouse=True)
def _file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("qsched.yaml").write_text(FILE)


def test_an_outage_is_decided_by_each_triggers_policy(qsched: Command) -> None:
    said = qsched("simulate", *DAY, "--outage", "02:00-03:00", "--runtime", "5m")
    assert said.code == 0
    found = {item["trigger"]: item for item in said.items}
    # 144 slots lie after midnight, the last of them at the next one; seven in the outage and at its end.
    assert found["once"]["misfires"] == {"node_down": 7}
    assert found["once"]["decisions"] == {"ran": 1, "not run": 6}
    assert found["once"]["fires"] == 144 - 6
    assert (found["each"]["decisions"], found["each"]["fires"]) == ({"ran": 7}, 144)
    assert (found["none"]["decisions"], found["none"]["fires"]) == ({"not run": 7}, 144 - 7)
    assert found["once"]["late"] == 3600
    assert 150 < found["busy"]["overlaps"] <= 180  # each second of 360
    assert 150 < found["busy"]["fires"] <= 180
    assert found["once"]["busiest"]["fires"] == 1
    assert not Path("qsched.db").exists()


def test_said_again_it_comes_out_the_same(qsched: Command) -> None:
    Path("qsched.yaml").write_text(FILE.partition("  busy:")[0])
    line = ("simulate", *DAY, "--outage", "03:00-23:00", "--nodes", "3", "--capacity", "1", "--runtime", "7m")
    assert qsched(*line).out == qsched(*line).out


def test_a_node_that_is_too_small_is_late(qsched: Command) -> None:
    said = qsched("simulate", *DAY, "--capacity", "1", "--runtime", "5m", "--outage", "06:00-23:59")
    assert any("no_capacity" in item["misfires"] for item in said.items)
    assert max(item["late"] for item in said.items) > 60


@pytest.mark.parametrize("outage", ["2-3", "02:00", "02:00-02:00", "25:00-26:00"])
def test_an_outage_that_is_none(qsched: Command, outage: str) -> None:
    said = qsched("simulate", "--outage", outage)
    assert (said.code, said.out) == (2, "")
    assert "--outage" in said.err


def test_a_file_that_is_wrong_is_said_as_everywhere(qsched: Command) -> None:
    Path("qsched.yaml").write_text("qsched: 1\ntriggers: {a: {job: j, cron: nonsense}}\n")
    assert qsched("simulate").code == 3
