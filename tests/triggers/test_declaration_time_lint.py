"""W010 and W011: changes of clocks within a year, and crowds in one second; and that every warning is documented."""

import re
from pathlib import Path

import pytest
from qsched.triggers.declaration import load_text
from qsched.triggers.declaration_problem import CODES, Problem
from qsched.triggers.instant import SECOND

NOW = 1_798_761_600 * SECOND
"""2027-01-01T00:00:00Z."""


def warned(triggers: str) -> list[Problem]:
    text = f"qsched: 1\njobs: {{j: {{command: 'true'}}}}\ntriggers:\n{triggers}"
    return [problem for problem in load_text(text, now=NOW).warnings if problem.code in ("W010", "W011")]


def one(schedule: str, zone: str = "Europe/Berlin", more: str = "") -> list[str]:
    said = f"  t: {{job: j, {schedule}, time_zone: {zone}{more}}}\n"
    return [problem.message for problem in warned(said)]


def test_a_time_in_a_gap_is_named_with_its_date_its_zone_and_what_happens() -> None:
    (message,) = one('cron: "30 2 * * *"')
    assert message == (
        "Europe/Berlin changes its clocks: 2027-03-28 02:30 does not exist on this day: runs when the gap ends;"
        " 2027-10-31 first 02:30 of two on this day: the second is not run"
    )


def test_the_other_dialect_is_looked_at_too() -> None:
    (message,) = one('quartz: "0 30 1 ? * SUN"', "America/New_York")
    assert "2027-11-07 first 01:30 of two" in message
    assert "03-14" not in message  # 01:30 is there on that day


@pytest.mark.parametrize(
    ("schedule", "zone", "more"),
    [
        ('cron: "30 4 * * *"', "Europe/Berlin", ""),
        ('cron: "*/30 * * * *"', "Europe/Berlin", ""),  # follows elapsed time
        ('cron: "30 2 * * *"', "UTC", ""),
        ('cron: "30 2 * * *"', "Europe/Istanbul", ""),
        ('cron: "30 2 * * 1"', "Europe/Berlin", ""),  # clocks change on Sundays
        ('cron: "30 2 * * *"', "Europe/Berlin", ", dst: {gap: run_after}"),  # it is meant
        ("every: 1h", "Europe/Berlin", ""),
    ],
)
def test_what_no_change_of_clocks_touches_or_what_is_meant_is_not_warned_of(
    schedule: str, zone: str, more: str
) -> None:
    assert one(schedule, zone, more) == []


def test_more_than_a_hundred_triggers_in_one_second_are_a_crowd_and_spread_ones_are_not() -> None:
    def crowd(number: int, schedule: str) -> list[Problem]:
        return warned("".join(f"  t{n:03}: {{job: j, {schedule}}}\n" for n in range(number)))

    (problem,) = crowd(101, 'cron: "0 5 * * *"')
    assert (problem.code, problem.line) == ("W011", 4)
    assert problem.message == "101 triggers are due in one second, 2027-01-01T05:00:00Z"
    assert "splay" in problem.hint
    assert crowd(100, 'cron: "0 5 * * *"') == []
    assert crowd(200, 'cron: "H H * * *"') == []
    assert crowd(200, 'cron: "0 5 * * *", splay: 1h') == []


def test_every_code_of_a_warning_is_in_the_documentation() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "declarations.md").read_text()
    told = set(re.findall(r"\bW\d{3}\b", page))
    assert {code for code in CODES if code.startswith("W")} <= told <= set(CODES)
