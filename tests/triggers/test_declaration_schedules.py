"""Calendar intervals, daily windows, recurrences and combinations as YAML has them, and what is wrong with them, in place."""

from datetime import UTC, datetime

import pytest
from qsched.triggers.declaration import Declarations, load_text
from qsched.triggers.declaration_problem import DeclarationError, Problem
from qsched.triggers.instant import HOUR, MINUTE, from_instant, to_instant
from qsched.triggers.trigger import TriggerDefinition, schedule_text

NOW = to_instant(datetime(2027, 1, 1, tzinfo=UTC))
HEAD = "qsched: 1\ntriggers:\n  nightly:\n    command: ls\n"


def loaded(body: str) -> Declarations:
    return load_text(HEAD + "".join(f"    {line}\n" for line in body.splitlines()), now=NOW)


def trigger(body: str) -> TriggerDefinition:
    (found,) = loaded(body).triggers
    return found


def problems(body: str) -> tuple[Problem, ...]:
    with pytest.raises(DeclarationError) as raised:
        loaded(body)
    return raised.value.problems


def test_each_kind_is_kept_in_one_writing_and_read_back_from_it() -> None:
    for body, schedule, text in [
        (
            "calendar_interval: {months: 1, day: last, at: 9:00}",
            {"calendar_interval": {"months": 1, "day": "last", "at": "09:00"}},
            "every month on its last day at 09:00",
        ),
        (
            "daily_window: {every: 15m, from: 9:00, to: '17:00:00', days: [mon-wed, Friday], repeat: 3}",
            {"daily_window": {"every": 15 * MINUTE, "from": "09:00", "to": "17:00",
                              "days": ["mon", "tue", "wed", "fri"], "repeat": 3}},
            "every 15m from 09:00 to 17:00 on mon, tue, wed, fri, 3 a day",
        ),
        (
            "rrule: FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=18",
            {"rrule": "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=18"},
            "rrule FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=18",
        ),
        (
            "any:\n- cron: 0 9 * * 1-5\n- at: 2027-12-24 08:00\ntime_zone: Europe/Berlin",
            {"any": [{"cron": "0 9 * * 1-5"}, {"at": to_instant(datetime(2027, 12, 24, 7, tzinfo=UTC))}]},
            "any of (0 9 * * 1-5; at 2027-12-24T07:00:00Z)",
        ),
        (
            "all:\n- {every: 2h, anchor: 2027-01-01}\n- any: [{cron: 0 * * * *}, {quartz: 0 30 * * * ?}]",
            {"all": [{"every": 2 * HOUR, "anchor": NOW}, {"any": [{"cron": "0 * * * *"}, {"quartz": "0 30 * * * ?"}]}]},
            "all of (every 2h from 2027-01-01T00:00:00Z; any of (0 * * * *; quartz 0 30 * * * ?))",
        ),
    ]:  # fmt: skip
        definition = trigger(body)
        assert definition.schedule == schedule
        assert schedule_text(definition.schedule) == text
        again = TriggerDefinition.from_spec("default", "nightly", definition.to_spec())
        assert again.compile().slot_after(NOW) == definition.compile().slot_after(NOW) is not None


def test_they_are_counted_from_start_at_and_run_not_before_it() -> None:
    said = "time_zone: Europe/Berlin\nstart_at: 2027-02-10 08:30\n"
    for body, first in [
        ("calendar_interval: {weeks: 2}", "2027-02-10T07:30:00+00:00"),
        ("rrule: FREQ=WEEKLY;COUNT=2", "2027-02-10T07:30:00+00:00"),
        ("calendar_interval: {months: 1, day: 5, at: '12:00'}", "2027-03-05T11:00:00+00:00"),
        ("daily_window: {every: 1h, from: '08:00', to: '12:00'}", "2027-02-10T08:00:00+00:00"),
        ("any: [{every: 1d}, {rrule: FREQ=MONTHLY}]", "2027-02-10T07:30:00+00:00"),
    ]:
        slot = trigger(said + body).compile().slot_after(NOW)
        assert slot is not None
        assert from_instant(slot).isoformat() == first, body


def test_dst_answers_reach_every_schedule_of_local_times() -> None:
    before = to_instant(datetime(2027, 3, 27, 12, tzinfo=UTC))
    for body in (
        "calendar_interval: {days: 1, at: '02:30'}",
        "rrule: FREQ=DAILY;BYHOUR=2;BYMINUTE=30",
        "any: [{cron: 30 2 * * *}, {at: 2040-01-01}]",
    ):
        zone = "time_zone: Europe/Berlin\n"
        late = trigger(zone + body).compile().slot_after(before)
        assert late == to_instant(datetime(2027, 3, 28, 1, tzinfo=UTC))
        skipped = trigger(zone + "dst: {gap: skip}\n" + body).compile().slot_after(before)
        assert skipped == to_instant(datetime(2027, 3, 29, 0, 30, tzinfo=UTC))


WRONG = [
    ("calendar_interval: {}", "E020", 5, 24, "no unit is given"),
    ("calendar_interval: {weeks: 1, days: 1}", "E020", 5, 24, "weeks and days are given"),
    ("calendar_interval: {weeks: 1, day: 3}", "E020", 5, 24, "goes with years and months"),
    ("calendar_interval: {months: 1, day: 32}", "E019", 5, 41, "not a whole number from 1 to 31"),
    ("calendar_interval: {months: 1, at: 25:00}", "E016", 5, 40, "'25:00' is not a time of day"),
    ("calendar_interval: {month: 1}", "E011", 5, 25, "did you mean `months`?"),
    ("calendar_interval: monthly", "E010", 5, 24, "must be a mapping"),
    ("daily_window: {every: 5m, from: '09:00'}", "E020", 5, 19, "to is missing"),
    ("daily_window: {every: 5m, from: '09:00', to: '10:00', days: [mo]}", "E014", 5, 65, "'mo' is no day of the week"),
    ("daily_window: {every: 5m, form: '09:00', to: '10:00'}", "E011", 5, 31, "did you mean `from`?"),
    ("rrule: FREQ=DALY", "E020", 5, 12, "use one of YEARLY"),
    ("rrule: FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "E022", 5, 12, "can never fire"),
    ("rrule: FREQ=DAILY;COUNT=3", "E020", 5, 12, "add start_at"),
    ("any: []", "E020", 5, 10, "it takes 2 to 20"),
    ("any: [{cron: 0 9 * * *}]", "E020", 5, 10, "it takes 2 to 20"),
    ("any: 5s", "E010", 5, 10, "must be a list"),
    ("any: [{cron: 0 9 * * *, every: 5s}, {every: 5s}]", "E021", 5, 29, "make two items of them"),
    ("any: [{anchor: 2027-01-01}, {every: 5s}]", "E013", 5, 11, "has no schedule"),
    ("any: [{delay: 5s}, {every: 5s}]", "E011", 5, 12, "does not belong to an item of `any`"),
    ("any: [{every: 5s}, {cron: 0 25 * * *}]", "E020", 5, 31, "25"),
    ("any: [{every: 5s}, {all: [{every: 5s}, {cron: 0 0 30 2 *}]}]", "E022", 5, 51, "can never fire"),
    ("any: [{every: 5s}, {all: [{any: []}, {every: 5s}]}]", "E011", 5, 32, "any"),
    ("all: [{cron: '0 * * * *'}, {cron: 30 * * * *}]", "E022", 5, 10, "never coincide"),
    ("all: [{at: 2027-01-01, anchor: 2027-01-01}, {every: 5s}]", "E026", 5, 28, "`anchor` goes with `every`"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "code", "line", "column", "part"), WRONG)
def test_what_is_wrong_is_said_in_its_place(body: str, code: str, line: int, column: int, part: str) -> None:
    (problem,) = problems(body)
    assert (problem.code, problem.line, problem.column) == (code, line, column)
    assert part in f"{problem.message} {problem.hint}"


def test_all_that_is_wrong_with_a_list_is_said_at_once() -> None:
    found = problems("any: [{every: 5}, {rrule: 3, at: x}, {daily_window: {from: '9'}}]")
    assert [problem.code for problem in found] == ["E015", "E016", "E016"]


WARNINGS = [
    (
        "daily_window: {every: 5m, from: '09:00', to: '10:00'}\ndst: {gap: skip}",
        "W006",
        "no effect on `daily_window`",
    ),
    ("any: [{cron: 0 9 13 * 5}, {every: 5s}]", "W002", "either"),
    ("rrule: FREQ=DAILY;UNTIL=20260101", "W001", "the last slot was 2026-01-01T00:00:00Z"),
]


@pytest.mark.parametrize(("body", "code", "part"), WARNINGS)
def test_what_is_allowed_and_seldom_meant_is_a_warning(body: str, code: str, part: str) -> None:
    (warning,) = loaded(body).warnings
    assert warning.code == code
    assert part in f"{warning.message} {warning.hint}"
