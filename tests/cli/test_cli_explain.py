"""`qsched triggers explain`: one sentence, one next step, and JSON."""

import pytest
from qsched.triggers.instant import MINUTE

from support.command_line import NOW, Command, Filled

FILE = """
qsched: 1
jobs: {j: {command: "true"}}
triggers:
  a: {job: j, cron: "* * * * *"}
"""


def test_a_skipped_slot_says_who_decided_it(qsched: Command, filled: Filled) -> None:
    filled.declare(FILE)
    filled.firing(
        "a",
        scheduled_at=NOW + 5 * MINUTE,
        first_scheduled_at=NOW + MINUTE,
        covers=5,
        reason="misfire",
        state="skipped",
        noticed_at=NOW + 6 * MINUTE,
        misfire_cause="node_down",
        misfire_policy="skip",
        misfire_decision="skipped 5",
    )
    said = qsched("triggers", "explain", "a", "--at", "2019-12-19T00:02:00Z")
    assert said.code == 0
    assert "skipped: did not run: skipped as firing 1, noticed" in said.out
    assert "no node was alive then; policy skip: skipped 5 (one row for 5 slots" in said.out
    assert said.err.startswith("next: run a second node")
    (item,) = qsched("triggers", "explain", "a", "--at", "2019-12-19T00:02:00Z", "-o", "json").items
    assert (item["fate"], item["at"], item["firing"]["covers"]) == ("skipped", "2019-12-19T00:02:00Z", 5)
    assert "noticed 2019-12-19T00:06:00Z, 5m00s late" in item["why"]
    ranged = qsched(
        *("triggers", "explain", "a", "--from", "2019-12-19T00:01:00Z", "--to", "2019-12-19T00:05:00Z"),
        *("-o", "json"),
    ).items
    assert [each["fate"] for each in ranged] == ["skipped"] * 5


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("b", "--at", "2019-12-19T00:02:00Z"), 4, "no trigger 'b'"),
        (("a",), 2, "give --at, or --from and --to"),
        (("a", "--at", "2019-12-19T00:02:00"), 2, "has no zone"),
        (("a", "--at", "2019-12-19T00:02:00Z", "--from", "2019-12-19T00:02:00Z"), 2, "give --at, or"),
    ],
)
def test_what_cannot_be_explained(
    qsched: Command, filled: Filled, options: tuple[str, ...], code: int, says: str
) -> None:
    filled.declare(FILE)
    said = qsched("triggers", "explain", *options)
    assert (said.code, said.out) == (code, "")
    assert says in said.err
