"""`qsched groups`: what is paused together, also what comes later, and what is said on the way."""

import re
from pathlib import Path

import pytest

from support.command_line import Command, Filled

FILE = """\
qsched: 1
namespace: shop
groups: {heavy: {limit: 3}}
jobs: {j: {command: "true"}}
triggers:
  a: {job: j, every: 1h, group: billing}
  b: {job: j, every: 1h, group: billing}
"""


@pytest.fixture(autouse=True)
def _declared(qsched: Command, tmp_path: Path) -> None:
    (tmp_path / "qsched.yaml").write_text(FILE)
    assert qsched("apply").code == 0


def late(filled: Filled, name: str, slots: int) -> None:
    """Let a trigger have missed so many slots."""
    (next_at,) = filled.sql(
        "SELECT next_fire_at FROM qsched_trigger_clocks WHERE id = ?", filled.trigger_id(name)
    )[0]
    hour = 3_600_000_000
    filled.clock(name, next_fire_at=next_at - slots * hour, watermark=next_at - (slots + 1) * hour)


def test_the_list_says_who_paused_what_until_when_and_why(qsched: Command) -> None:
    said = qsched("groups", "pause", "billing", "--reason", "audit", "--until", "2h")
    assert (said.code, said.out, said.err) == (0, "billing paused\n", "")
    table = qsched("groups", "list").out.splitlines()
    assert table[0].split() == ["GROUP", "STATE", "WAITING", "PAUSED", "ERROR", "DONE", "PERMITS", "PAUSED"]
    assert re.fullmatch(r"billing  ‖ paused +- +2 .* by \S+ since \w{3} .* until \w{3} .*: audit", table[1])
    assert re.fullmatch(r"heavy +- .*0/3 +-", table[2])
    (item, _) = qsched("groups", "list", "-o", "json").items
    assert set(item["paused"]) == {"at", "by", "until", "reason"}
    assert qsched("groups", "list", "-o", "name").out == "billing\nheavy\n"


def test_a_group_is_paused_before_it_has_triggers_and_that_is_said(qsched: Command, tmp_path: Path) -> None:
    said = qsched("groups", "pause", "later")
    assert (said.code, said.out) == (0, "later paused\n")
    assert said.err == "group later has no triggers yet: those that it gets will be paused\n"
    (tmp_path / "qsched.yaml").write_text(FILE + "  c: {job: j, every: 1h, group: later}\n")
    assert qsched("apply").code == 0
    assert "group paused by" in qsched("triggers", "list", "--group", "later").out


def test_a_resume_shows_what_passed_before_it_ends_the_pause(qsched: Command, filled: Filled) -> None:
    qsched("groups", "pause", "billing")
    late(filled, "a", 3)
    said = qsched("groups", "resume", "billing")
    assert (said.code, said.out) == (0, "billing resumed\n")
    assert re.fullmatch(r"billing/a: 3 slots passed, \w{3} .* to .*: skipped; next \w{3} .*\n", said.err)
    (row,) = qsched("firings", "list", "-o", "json").items
    assert (row["state"], row["reason"], row["covers"]) == ("skipped", "paused", 3)


def test_to_catch_up_is_asked_and_refused_where_nobody_answers(qsched: Command, filled: Filled) -> None:
    qsched("groups", "pause", "billing")
    late(filled, "a", 3)
    refused = qsched("groups", "resume", "billing", "--catch-up")
    assert refused.code == 7
    assert "billing/a: 3 slots passed" in refused.err
    assert qsched("groups", "list", "-o", "json").items[0]["paused"]
    assert qsched("groups", "resume", "billing", "--catch-up", "-y").code == 0
    assert qsched("firings", "list", "-o", "json").items == []


def test_many_bills_are_summed_up(qsched: Command, filled: Filled, tmp_path: Path) -> None:
    more = "".join(f"  m{n:02}: {{job: j, every: 1h, group: many}}\n" for n in range(23))
    (tmp_path / "qsched.yaml").write_text(FILE + more)
    qsched("apply")
    qsched("groups", "pause", "many")
    for n in range(23):
        late(filled, f"m{n:02}", 2)
    lines = qsched("groups", "resume", "many").err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "… and 6 slots of 3 triggers more"


def test_a_group_that_is_not_paused_is_resumed_in_vain_and_told_so(qsched: Command) -> None:
    qsched("triggers", "pause", "billing/b")
    said = qsched("groups", "resume", "billing")
    assert (said.code, said.err) == (
        0,
        "group billing is not paused; 1 trigger paused by themselves stay so\n",
    )


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("resume", "biling"), 4, "no group 'biling': did you mean 'billing'?"),
        (("pause", "a/b"), 2, "the name `a/b` holds a `/`"),
        (("pause", " x"), 2, "begins or ends with a blank"),
        (("pause", "billing", "--until", "2019-12-23T10:00:00Z"), 2, "has passed: give a later instant"),
        (("pause",), 2, "Missing argument"),
    ],
)
def test_what_cannot_be_is_one_line_with_the_next_step(
    qsched: Command, words: tuple[str, ...], code: int, told: str
) -> None:
    said = qsched("groups", *words)
    assert said.code == code
    assert told in said.err
    assert qsched("groups", "list", "-o", "json").items[0]["paused"] is None


def test_without_a_store_nothing_is_made_and_nothing_listed(qsched: Command, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/none.db"
    assert qsched("groups", "list", "--store", url).code == 5
    assert qsched("groups", "pause", "x", "--store", url).code == 5
    assert not (tmp_path / "none.db").exists()


def test_a_start_that_waits_says_for_what_and_that_the_schedule_stays(qsched: Command) -> None:
    said = qsched("triggers", "fire", "billing/a")
    assert said.code == 0
    assert re.fullmatch(r"billing/a waits: no node lives. Its next slot stays \w{3} .*\n", said.err)
