"""`qsched enqueue` and `firings cancel|retry`: ids on stdout, talk on stderr, and every refusal with its exit code."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_line import Command, Filled

FILE = """\
qsched: 1
jobs: {j: {command: "true", data: {day: sunday}}}
triggers: {a: {job: j, every: 3650d}}
"""


@pytest.fixture(autouse=True)
def _declared(qsched: Command, tmp_path: Path) -> None:
    (tmp_path / "qsched.yaml").write_text(FILE)
    assert qsched("apply").code == 0


@pytest.fixture
def ends(filled: Filled) -> Callable[[str, str], None]:
    """Let a firing have come to an end."""

    def end(firing: str, state: str) -> None:
        filled.sql("UPDATE qsched_firings SET state = ?, outcome = ? WHERE id = ?", state, state, int(firing))

    return end


def data_of(filled: Filled, firing: str) -> object:
    (row,) = filled.sql("SELECT data FROM qsched_firings WHERE id = ?", int(firing))
    return json.loads(row[0])


def test_enqueue_prints_the_id_and_takes_data_in_both_ways(qsched: Command, filled: Filled) -> None:
    said = qsched("enqueue", "j", "--data", '{"day": "monday", "n": 1}', "--set", "n=2", "--set", "who=ann b")
    assert (said.code, said.err) == (0, "")
    assert data_of(filled, said.out.strip()) == {"day": "monday", "n": 2, "who": "ann b"}


def test_what_was_there_already_is_said_beside_its_id(qsched: Command) -> None:
    first = qsched("enqueue", "j", "--unique-key", "k", "--unique-for", "1h", "--delay", "2h")
    again = qsched("enqueue", "j", "--unique-key", "k")
    assert (again.code, again.out) == (0, first.out)
    assert "was there already" in again.err
    (item,) = qsched("enqueue", "j", "--unique-key", "k", "-o", "json").items
    assert item == {"id": int(first.out), "job": "j", "created": False}


def test_code_needs_no_declaration_and_no_store(qsched: Command, tmp_path: Path) -> None:
    said = qsched(
        "--store",
        f"sqlite:///{tmp_path / 'new.db'}",
        "enqueue",
        "shop.jobs:count",
        "--at",
        "2030-01-01T00:00:00Z",
    )
    assert (said.code, said.out) == (0, "1\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["enqueue", "jj"], 4, "no job 'jj': did you mean 'j'?"),
        (["enqueue", "j", "--delay", "5"], 2, "not a duration"),
        (["enqueue", "j", "--delay", "5s", "--at", "2030-01-01T00:00:00Z"], 2, "exclude each other"),
        (["enqueue", "j", "--at", "2030-01-01"], 2, "has no zone"),
        (["enqueue", "j", "--unique-for", "1h"], 2, "needs --unique-key"),
        (["enqueue", "j", "--data", "[1]"], 2, "must be a JSON object"),
        (["enqueue", "j", "--data", '{"x": NaN}'], 2, "x is nan"),
        (["enqueue", "j", "--set", "day"], 2, "is not NAME=VALUE"),
        (["firings", "cancel", "99"], 4, "no firing 99"),
        (["firings", "retry", "99"], 4, "no firing 99"),
        (["firings", "retry", "1", "2", "--request-key", "r"], 2, "is for one FIRING"),
    ],
)
def test_what_cannot_be_is_one_line_and_its_exit_code(
    qsched: Command, words: list[str], code: int, said: str
) -> None:
    answer = qsched(*words)
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err
    assert answer.err.count("\n") == 1


def test_cancel_ends_what_waits_and_refuses_what_has_ended(qsched: Command) -> None:
    firing = qsched("enqueue", "j").out.strip()
    assert qsched("firings", "cancel", firing, "--reason", "wrong day").out == f"{firing} cancelled\n"
    refused = qsched("firings", "cancel", firing)
    assert refused.code == 7
    assert "it is cancelled" in refused.err
    assert "wrong day" in qsched("firings", "show", firing).out


def test_cancel_asks_what_runs(qsched: Command, ends: Callable[[str, str], None]) -> None:
    firing = qsched("enqueue", "j").out.strip()
    ends(firing, "running")
    assert qsched("firings", "cancel", firing).out == f"{firing} is asked to stop\n"


def test_retry_prints_the_new_one_which_names_the_old_one(
    qsched: Command, filled: Filled, ends: Callable[[str, str], None]
) -> None:
    old = qsched("triggers", "fire", "a", "--set", "day=monday", "--data", '{"n": 1}').out.strip()
    ends(old, "failed")
    new = qsched("firings", "retry", old, "--set", "n=2").out.strip()
    assert data_of(filled, new) == {"day": "monday", "n": 2}
    (item,) = qsched("firings", "show", new, "-o", "json").items
    assert (item["of_firing"], item["reason"], item["trigger"]) == (int(old), "manual", "a")
    assert f"of {old}" in qsched("firings", "list").out
    (again,) = qsched("firings", "retry", old, "-o", "json").items
    assert again["of_firing"] == int(old)


def test_retry_of_what_succeeded_needs_force(qsched: Command, ends: Callable[[str, str], None]) -> None:
    old = qsched("enqueue", "j").out.strip()
    ends(old, "succeeded")
    assert qsched("firings", "retry", old).code == 7
    assert qsched("firings", "retry", old, "--force").code == 0


def test_several_are_run_again_all_or_none(
    qsched: Command, filled: Filled, ends: Callable[[str, str], None]
) -> None:
    """Else whoever corrects the one that was refused runs the others twice."""
    one, waits = qsched("enqueue", "j").out.strip(), qsched("enqueue", "j").out.strip()
    ends(one, "failed")
    for wrong, code in ((waits, 7), ("99", 4)):
        assert qsched("firings", "retry", one, wrong).code == code
    assert filled.sql("SELECT id FROM qsched_firings WHERE of_firing IS NOT NULL") == []
    ends(waits, "lost")
    made = qsched("firings", "retry", waits, one).out.split()
    assert [filled.sql("SELECT of_firing FROM qsched_firings WHERE id = ?", int(new)) for new in made] == [
        [(int(waits),)],
        [(int(one),)],
    ]
    assert len(qsched("firings", "retry", one, one).out.split()) == 1


@pytest.mark.parametrize("words", [["cancel"], ["retry"], ["show"], ["output"]])
def test_a_number_that_no_firing_can_have_is_not_found(qsched: Command, words: list[str]) -> None:
    said = qsched("firings", *words, "99999999999999999999")
    assert (said.code, said.err) == (
        4,
        "error: no firing 99999999999999999999: `qsched firings list` shows all\n",
    )
