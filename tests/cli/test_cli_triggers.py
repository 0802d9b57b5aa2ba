"""What people do to triggers, and what is asked, refused and said on the way."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from qsched.triggers.instant import DAY

from support.command_line import Command, Filled

FILE = """\
qsched: 1
jobs: {j: {command: "true"}}
triggers:
  a: {job: j, every: 3650d}
  b: {job: j, cron: "30 2 * * *", time_zone: Europe/Berlin}
"""
SLOT = 3650 * DAY


@pytest.fixture(autouse=True)
def _declared(qsched: Command, tmp_path: Path) -> None:
    """By the command itself, and so at the time of this machine."""
    (tmp_path / "qsched.yaml").write_text(FILE)
    assert qsched("apply").code == 0


@pytest.fixture
def behind(filled: Filled) -> Callable[[], None]:
    """Let `a` have missed its last two slots."""

    def miss() -> None:
        (next_at,) = filled.sql(
            "SELECT next_fire_at FROM qsched_trigger_clocks WHERE id = ?", filled.trigger_id("a")
        )[0]
        filled.clock("a", next_fire_at=next_at - 2 * SLOT, watermark=next_at - 3 * SLOT)

    return miss


def state(qsched: Command, name: str) -> tuple[str, bool]:
    items = {item["name"]: item for item in qsched("triggers", "list", "--all", "-o", "json").items}
    return items[name]["state"], items[name]["paused"] is not None


def test_pause_and_resume(qsched: Command) -> None:
    said = qsched("triggers", "pause", "a", "--reason", "vendor outage", "--until", "2h")
    assert (said.code, said.out) == (0, "a paused\n")
    (item,) = qsched("triggers", "show", "a", "-o", "json").items
    assert item["paused"]["reason"] == "vendor outage"
    assert item["paused"]["by"]
    assert item["paused"]["until"] > item["paused"]["at"]
    assert "‖ paused" in qsched("triggers", "list").out
    assert re.search(
        r"paused by \S+ until \w{3} [\d ]\d \w{3}( \d+)? [\d:]+: vendor outage",
        qsched("triggers", "list").out,
    )
    assert qsched("triggers", "resume", "a").code == 0
    assert state(qsched, "a") == ("waiting", False)


def test_a_pause_that_would_be_over_at_once_is_refused(qsched: Command) -> None:
    said = qsched("triggers", "pause", "a", "--until", "2019-12-23T10:00:00Z")
    assert (said.code, said.out) == (2, "")
    assert "--until Mon 23 Dec 2019 10:00:00 has passed: give a later instant" in said.err
    assert state(qsched, "a") == ("waiting", False)


def test_resume_says_what_passed_and_runs_none_of_it(qsched: Command, behind: Callable[[], None]) -> None:
    qsched("triggers", "pause", "a")
    behind()
    said = qsched("triggers", "resume", "a")
    assert said.code == 0
    assert "a: 2 slots passed" in said.err
    assert "skipped" in said.err
    (row,) = qsched("firings", "list", "-o", "json").items
    assert (row["state"], row["reason"]) == ("skipped", "paused")


def test_a_trigger_that_no_node_comes_to_says_so(qsched: Command, behind: Callable[[], None]) -> None:
    assert "no node has decided it" not in qsched("triggers", "list").out
    behind()
    assert re.search(r"due \d+d\d\dh ago, and no node has decided it\n", qsched("triggers", "list").out)
    qsched("triggers", "pause", "a")
    assert "no node has decided it" not in qsched("triggers", "list").out


def test_to_catch_up_shows_the_bill_and_asks(qsched: Command, behind: Callable[[], None]) -> None:
    qsched("triggers", "pause", "a")
    behind()
    refused = qsched("triggers", "resume", "a", "--catch-up")
    assert refused.code == 7
    assert "slots passed" in refused.err
    assert "-y" in refused.err
    assert state(qsched, "a")[1]
    assert qsched("triggers", "resume", "a", "--catch-up", "-y").code == 0
    assert qsched("firings", "list", "-o", "json").items == []


def test_fire_prints_the_firing(qsched: Command) -> None:
    said = qsched("triggers", "fire", "a", "--data", '{"x": 1}')
    assert said.code == 0
    assert re.fullmatch(r"\d+\n", said.out)
    (row,) = qsched("firings", "list", "-o", "json").items
    assert (row["reason"], row["state"], row["trigger"]) == ("manual", "due", "a")


def test_the_same_request_key_starts_nothing_new(qsched: Command) -> None:
    first = qsched("triggers", "fire", "a", "--request-key", "k")
    assert qsched("triggers", "fire", "a", "--request-key", "k") == first
    assert qsched("triggers", "fire", "b", "--request-key", "k").code == 6


@pytest.mark.parametrize("trouble", ["paused", "error"])
def test_a_stopped_trigger_fires_only_by_force(qsched: Command, filled: Filled, trouble: str) -> None:
    if trouble == "paused":
        qsched("triggers", "pause", "a")
    else:
        filled.sql("UPDATE qsched_triggers SET state = 'error', error = 'broken' WHERE name = 'a'")
    refused = qsched("triggers", "fire", "a")
    assert refused.code == 7
    assert trouble in refused.err
    assert "--force" in refused.err
    assert refused.err.count("\n") == 1
    assert qsched("triggers", "fire", "a", "--force").code == 0


@pytest.mark.parametrize("data", ["3", "{", "[1]"])
def test_data_that_is_no_object_is_a_usage_error(qsched: Command, data: str) -> None:
    said = qsched("triggers", "fire", "a", "--data", data)
    assert said.code == 2
    assert said.err.count("\n") == 1


def test_reset_clears_an_error(qsched: Command, filled: Filled) -> None:
    filled.sql(
        "UPDATE qsched_triggers SET state = 'error', error_kind = 'poison', error = 'broken' WHERE name = 'a'"
    )
    assert "broken" in qsched("triggers", "list").out
    assert qsched("triggers", "reset", "a").code == 0
    assert state(qsched, "a") == ("waiting", False)


def test_delete_asks_and_keeps_history(qsched: Command, filled: Filled) -> None:
    filled.firing("a")
    refused = qsched("triggers", "delete", "a")
    assert refused.code == 7
    assert refused.err.startswith("error: nobody is here to answer “Delete a? ")
    assert refused.err.endswith("”: add -y to say yes\n")
    assert qsched("triggers", "delete", "a", "-y").out == "a deleted\n"
    assert qsched("triggers", "list", "-o", "name").out == "b\n"
    assert state(qsched, "a")[0] == "retired"
    assert len(qsched("firings", "list", "--trigger", "a", "-o", "json").items) == 1
    gone = qsched("triggers", "show", "a")
    assert gone.code == 4
    assert "is retired: `qsched firings list --trigger a` shows its history" in gone.err


@pytest.mark.parametrize("verb", ["show", "next", "pause", "resume", "fire", "reset", "delete"])
def test_an_unknown_trigger_is_exit_4_with_the_nearest(qsched: Command, tmp_path: Path, verb: str) -> None:
    (tmp_path / "qsched.yaml").write_text(FILE.replace("a:", "nightly:"))
    assert qsched("apply").code == 0
    said = qsched("triggers", verb, "nightli", "-y")
    assert said.code == 4
    assert "did you mean 'nightly'" in said.err
    assert said.err.count("\n") == 1


def test_next_marks_what_a_change_of_clocks_does(qsched: Command) -> None:
    said = qsched(
        "triggers", "next", "b", "--from", "2027-03-27T00:00:00Z", "-n", "3", "--tz", "Europe/Berlin"
    )
    lines = said.out.splitlines()
    assert lines[0].startswith("Sat 27 Mar")
    assert "does not exist" in lines[1]
    assert lines[1].startswith("Sun 28 Mar")
    assert " 02:30:00 CET " in lines[0]
    assert " 03:00:00 CEST " in lines[1]
    items = qsched("triggers", "next", "b", "--from", "2027-03-27T00:00:00Z", "-n", "3", "-o", "json").items
    assert [item["at"] for item in items] == [
        "2027-03-27T01:30:00Z",
        "2027-03-28T01:00:00Z",
        "2027-03-29T00:30:00Z",
    ]


def test_show_tells_a_schedule_in_words(qsched: Command) -> None:
    said = qsched("triggers", "show", "b").out
    assert "02:30" in said
    assert "Europe/Berlin" in said
    assert "\nLast " not in said, "it has not fired"
    (item,) = qsched("triggers", "show", "b", "-o", "json").items
    assert item["definition"]["schedule"] == {"cron": "30 2 * * *"}
    assert len(item["next"]) == 5
    assert item["misfire_rule"] == "fire_once, threshold 1m"


def test_show_says_what_a_dead_node_means_for_a_trigger(qsched: Command, tmp_path: Path) -> None:
    """A4: at least once or at most once is a choice, and is seen where one looks."""
    (tmp_path / "qsched.yaml").write_text(
        "qsched: 1\n"
        "jobs:\n"
        "  again: {command: ls, request_recovery: true, max_recoveries: 1}\n"
        "  once: {command: ls}\n"
        "triggers:\n"
        "  a: {every: 1h, job: again}\n"
        "  b: {every: 1h, job: once}\n"
    )
    assert qsched("apply").code == 0
    assert (
        "Runs      at least once: run again if its node dies, up to 1 time\n"
        in qsched("triggers", "show", "a").out
    )
    assert (
        "Runs      at most once: lost if its node dies (request_recovery: false)\n"
        in qsched("triggers", "show", "b").out
    )
    (item,) = qsched("triggers", "show", "b", "-o", "json").items
    assert item["recovery"] == {"request_recovery": False, "max_recoveries": 3}


def test_show_names_a_policy_with_its_defaults(qsched: Command, tmp_path: Path) -> None:
    rule = "{policy: fire_all, threshold: 90s}"
    (tmp_path / "qsched.yaml").write_text(FILE.replace("3650d", f"3650d, misfire: {rule}"))
    assert qsched("apply").code == 0
    assert (
        "Policy    fire_all, threshold 1m30s, window 1d, limit 100\n" in qsched("triggers", "show", "a").out
    )
