"""What cron readers of other schedulers got wrong and no other file here asks (B45, B54, B56, B57).

Appendix A's table of changes of offset (B14, B15, B37) is in test_cron_zones, the property over samples (B16) there and in
test_cron_transitions; weekday numbers, fields, wraps and steps (B13, B54, B56, B57) in test_cron_reading; the two day fields
and leap years (B28, B45) in test_cron_calendar.
"""

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qsched.triggers.cron import Cron, Dialect
from qsched.triggers.errors import CronError

from support.clock_scan import EXPRESSIONS

DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
START = datetime(2024, 1, 10, tzinfo=UTC)
QUICK = 0.05
"""Seconds of this thread's time."""


def seconds_for(expr: str, dialect: Dialect = "unix") -> float:
    """How long it takes to read an expression, or to refuse it, at its best of three; any other error is let through."""
    best = float("inf")
    for _ in range(3):
        began = time.thread_time()
        try:
            Cron(expr, dialect)
        except CronError:
            pass
        best = min(best, time.thread_time() - began)
    return best


@given(st.integers(0, 6), st.integers(0, 6))
def test_a_range_of_weekdays_runs_on_all_its_days_or_is_refused_and_is_never_accepted_and_silent(
    first: int, last: int
) -> None:
    days = {(first + n) % 7 for n in range((last - first) % 7 + 1)}
    for expr, dialect in (
        (f"0 0 * * {DAYS[first]}-{DAYS[last]}", "unix"),
        (f"0 0 0 ? * {DAYS[first]}-{DAYS[last]}", "quartz"),
    ):
        try:
            cron = Cron(expr, "unix" if dialect == "unix" else "quartz")
        except CronError:
            assert first > last  # only what wraps is refused, and only by one of the two
            assert dialect == "unix"
            continue
        moment, seen = START, set()
        for _ in range(len(days)):
            found = cron.next_after(moment)
            assert found is not None
            assert found - START <= timedelta(days=7)
            moment = found
            seen.add((moment.weekday() + 1) % 7)
        assert seen == days


@given(st.integers(0, 23), st.integers(0, 23))
def test_a_range_of_hours_that_wraps_is_the_wrapped_set_or_refused(first: int, last: int) -> None:
    hours = {(first + n) % 24 for n in range((last - first) % 24 + 1)}
    for expr, dialect in ((f"0 {first}-{last} * * *", "unix"), (f"0 0 {first}-{last} * * ?", "quartz")):
        try:
            cron = Cron(expr, "unix" if dialect == "unix" else "quartz")
        except CronError:
            assert (first > last, dialect) == (True, "unix")
            continue
        moment, seen = START - timedelta(seconds=1), set()
        for _ in hours:
            found = cron.next_after(moment)
            assert found is not None
            moment = found
            seen.add(moment.hour)
        assert seen == hours
        assert moment - START < timedelta(days=1)


@pytest.mark.parametrize(
    ("expr", "dialect"),
    [
        ("0 0 30 2 *", "unix"),
        ("0 0 31 4,6 *", "unix"),
        ("0 0 0 30 2 ?", "quartz"),
        ("0 0 0 1 1 ? 1999", "quartz"),
        ("0 0 0 ? 2 MON#5 2025", "quartz"),
        ("0 0 29 2 */7", "unix"),
    ],
)
def test_whether_a_date_ever_comes_is_decided_quickly(expr: str, dialect: Dialect) -> None:
    assert seconds_for(expr, dialect) < QUICK


@pytest.mark.parametrize(
    "expr",
    [
        *(
            "0.5 * * * *",
            "+1 * * * *",
            "¹ * * * *",
            "１ * * * *",
            "* * * *  ",
            "",
            " ",
            "\t",
            "* * * * * # nightly",
        ),
        *(
            "*\t*\t*\t*\t*",
            "*\xa0* * * *",
            "* , * * *",
            "-1 * * * *",
            "1- * * * *",
            "1--3 * * * *",
            "1/ * * * *",
        ),
        *("9999999999999999999999 * * * *", "*/9999999999999999999 * * * *", "١ * * * *", "\x00 * * * *"),
        pytest.param("1," * 5_000 + "1 * * * *", id="ten thousand characters"),
        pytest.param("* * * * " + "MON," * 5_000, id="names without end"),
    ],
)
def test_odd_text_is_read_or_refused_quickly_and_by_one_kind_of_error(expr: str) -> None:
    assert seconds_for(expr) < QUICK
    assert seconds_for(expr, "quartz") < QUICK


def test_tabs_part_fields_as_blanks_do() -> None:
    assert Cron("0\t2\t*\t*\t*").next_after(START) == Cron("0 2 * * *").next_after(START)


def test_on_the_29th_of_february_every_expression_works() -> None:
    leap = datetime(2024, 2, 29, 12, tzinfo=UTC)
    for meant in EXPRESSIONS:
        found = Cron(meant.expr, "unix" if meant.dialect == "unix" else "quartz").next_after(leap)
        assert found is not None, meant.expr
        assert leap < found < leap + timedelta(days=32 if "3,10,11" not in meant.expr else 2), meant.expr


def test_a_year_field_names_only_its_year_and_is_over_after_it() -> None:
    cron = Cron("0 0 12 1 * ? 2026", "quartz")
    moment, months = datetime(2025, 6, 1, tzinfo=UTC), []
    while (found := cron.next_after(moment)) is not None:
        moment = found
        months.append((moment.year, moment.month))
    assert months == [(2026, month) for month in range(1, 13)]
