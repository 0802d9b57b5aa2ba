"""`qsched triggers next --notable`: only what is remarkable within a year."""

from support.command_line import Command, Filled

FILE = """
qsched: 1
calendars:
  freeze: {dates: ["2027-12-24..2027-12-28"]}
jobs: {j: {command: "true"}}
triggers:
  a: {job: j, cron: "30 2 * * *", time_zone: Europe/Berlin, exclude: [freeze], end_at: "2028-01-05T00:00:00Z"}
  plain: {job: j, every: 1h}
"""


def test_changes_of_clocks_left_out_runs_and_the_last_one(qsched: Command, filled: Filled) -> None:
    filled.declare(FILE)
    line = ("triggers", "next", "a", "--notable", "--from", "2027-03-01T00:00:00Z")
    items = qsched(*line, "-o", "json").items
    assert [(item["at"][:10], item["until"][:10]) for item in items] == [
        ("2027-03-28", "2027-03-28"),
        ("2027-10-31", "2027-10-31"),
        ("2027-12-24", "2027-12-28"),
        ("2028-01-04", "2028-01-04"),
    ]
    assert [item["note"] for item in items] == [
        "02:30 does not exist on this day: runs when the gap ends",
        "first 02:30 of two on this day: the second is not run",
        "5 slots left out: freeze",
        "the last one before end_at",
    ]
    assert "… Tue 28 Dec 01:30:00  5 slots left out: freeze" in qsched(*line).out


def test_nothing_remarkable(qsched: Command, filled: Filled) -> None:
    filled.declare(FILE)
    said = qsched("triggers", "next", "plain", "--notable")
    assert (said.code, said.out) == (0, "")
    assert "nothing remarkable of plain" in said.err
