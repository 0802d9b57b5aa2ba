"""`calendars:` in YAML: what is read, what a trigger carries of it, and what is said of what cannot be meant."""

from pathlib import Path
from typing import Any

import pytest
from qsched.triggers.declaration import Declarations, load, load_text
from qsched.triggers.declaration_problem import DeclarationError

HEAD = "qsched: 1\n"
NOW = 1_780_000_000_000_000
"""In May 2026."""
TRIGGER = "triggers:\n  nightly: {cron: '15 2 * * *', command: ls, exclude: [closed]}\n"


def loaded(calendars: str, triggers: str = TRIGGER) -> Declarations:
    return load_text(f"{HEAD}calendars:\n{calendars}{triggers}", now=NOW)


def spec_of(said: str) -> Any:
    return loaded(f"  closed: {said}\n").triggers[0].calendars["closed"]


@pytest.mark.parametrize(
    ("said", "spec"),
    [
        ("{dates: 2026-12-24}", {"dates": [["2026-12-24", "2026-12-24"]]}),
        (
            "{dates: [2026-12-24..2027-01-02, 12-25]}",
            {"dates": [["2026-12-24", "2027-01-02"]], "yearly": [["12-25", "12-25"]]},
        ),
        ("{weekly: [sun, sat]}", {"weekly": ["sat", "sun"]}),
        ("{weekly: [Friday, sat-mon]}", {"weekly": ["mon", "fri", "sat", "sun"]}),
        ("{daily: 22:00-01:00}", {"daily": [["22:00", "01:00"]]}),
        ("{cron: '* * 24-31 12 *'}", {"cron": "* * 24-31 12 *"}),
        ("{holidays: tr}", {"holidays": {"country": "TR"}}),
        ("{holidays: {country: DE, subdivision: BY}}", {"holidays": {"country": "DE", "subdivision": "BY"}}),
        ("{weekly: sun, time_zone: Asia/Tokyo}", {"weekly": ["sun"], "time_zone": "Asia/Tokyo"}),
    ],
)
def test_a_calendar_is_read_to_one_form_however_it_is_written(said: str, spec: Any) -> None:
    assert spec_of(said) == spec


def test_a_trigger_carries_what_its_calendars_say_and_no_others() -> None:
    text = (
        "  closed: {any: [weekend, freeze]}\n  weekend: {weekly: [sat, sun]}\n  freeze: {dates: 2026-12-24}\n"
    )
    text += "  other: {weekly: mon}\n"
    (trigger,) = loaded(text).triggers
    assert trigger.exclude == ("closed",)
    assert trigger.calendars == {
        "closed": {"any": [{"weekly": ["sat", "sun"]}, {"dates": [["2026-12-24", "2026-12-24"]]}]}
    }
    assert trigger.on_excluded == "skip"


def test_a_changed_calendar_changes_when_its_triggers_fire_and_no_others_do() -> None:
    both = TRIGGER + "  hourly: {cron: '0 * * * *', command: ls}\n"
    before = {each.key: each for each in loaded("  closed: {weekly: sun}\n", both).triggers}
    after = {each.key: each for each in loaded("  closed: {weekly: sat}\n", both).triggers}
    assert before["nightly"].schedule_digest() != after["nightly"].schedule_digest()
    assert before["hourly"].digest() == after["hourly"].digest()


def test_a_definition_with_calendars_is_the_same_when_it_is_read_back() -> None:
    (trigger,) = loaded("  closed: {daily: [22:00-01:00], holidays: TR}\n").triggers
    again = type(trigger).from_spec(trigger.group, trigger.name, trigger.to_spec())
    assert again == trigger
    assert again.compile().slot_after(0) == trigger.compile().slot_after(0)


ERRORS = [
    ("{dates: 2026-02-30}", "E010", "not a date"),
    ("{dates: 2027-01-02..2026-12-24}", "E010", "ends before it begins"),
    ("{dates: 02-30}", "E010", "02-30"),
    ("{weekly: [sund]}", "E014", "did you mean `sun`?"),
    ("{daily: 22-06}", "E010", "22:00-06:00"),
    ("{daily: 22:00-22:00}", "E010", "ends when it begins"),
    ("{cron: '* * *'}", "E020", "5"),
    ("{holidays: XX}", "E020", "'XX' is not known"),
    ("{holidays: {country: DE, subdivision: QQ}}", "E020", "'DE QQ' is not known"),
    ("{time_zone: UTC}", "E013", "leaves nothing out"),
    ("{any: [weekend]}", "E024", "no calendar `weekend`"),
    ("{any: [closed]}", "E026", "circle: closed → closed"),
    ("{ics: missing.ics}", "E001", "cannot be read"),
    ("{week: [sun]}", "E011", "did you mean `weekly`?"),
    ("{dates: []}", "E010", "empty"),
]


@pytest.mark.parametrize(("said", "code", "words"), ERRORS)
def test_what_cannot_be_meant_is_told_with_its_place(said: str, code: str, words: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        loaded(f"  closed: {said}\n")
    problem = raised.value.problems[0]
    assert (problem.code, problem.line) == (code, 3)
    assert words in f"{problem.message}; {problem.hint}"


@pytest.mark.parametrize(
    ("keys", "code", "words"),
    [
        ("exclude: [clsed]", "E024", "did you mean `closed`?"),
        ("exclude: closed, on_excluded: nxt", "E014", "did you mean `next`?"),
        ("exclude: hours, on_excluded: next", "E020", "calendar 'hours' leaves out hours"),
        ("exclude: always", "E022", "can never fire"),
        ("exclude: always, on_excluded: next", "E022", "can never fire"),
    ],
)
def test_what_a_trigger_cannot_leave_out_is_told_with_its_place(keys: str, code: str, words: str) -> None:
    calendars = "  closed: {weekly: sun}\n  hours: {daily: 22:00-06:00}\n  always: {weekly: mon-sun}\n"
    with pytest.raises(DeclarationError) as raised:
        loaded(calendars, f"triggers:\n  a: {{cron: '0 9 * * *', command: ls, {keys}}}\n")
    (problem,) = raised.value.problems
    assert (problem.code, problem.line) == (code, 7)
    assert words in f"{problem.message}; {problem.hint}"


def test_on_excluded_without_calendars_has_no_effect_and_says_so() -> None:
    triggers = "triggers:\n  a: {cron: '0 9 * * *', command: ls, on_excluded: next}\n"
    found = loaded("  closed: {weekly: sun}\n", triggers)
    assert [problem.code for problem in found.warnings] == ["W006"]
    assert found.triggers[0].on_excluded == "skip"


ICS = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//bookstore//ops//EN
BEGIN:VEVENT
UID:1
SUMMARY:Stocktaking
DTSTART;VALUE=DATE:20270104
DTEND;VALUE=DATE:20270106
END:VEVENT
BEGIN:VEVENT
UID:2
SUMMARY:Database upgrade
DTSTART:20270201T220000Z
DURATION:PT3H
END:VEVENT
BEGIN:VEVENT
UID:3
SUMMARY:Weekly maintenance
DTSTART;TZID=Europe/Berlin:20270105T010000
DTEND;TZID=Europe/Berlin:20270105T020000
RRULE:FREQ=WEEKLY;BYDAY=TU
EXDATE;TZID=Europe/Berlin:20270112T010000
END:VEVENT
BEGIN:VEVENT
UID:4
SUMMARY:Founding day
DTSTART;VALUE=DATE:20200519
RRULE:FREQ=YEARLY
END:VEVENT
BEGIN:VEVENT
UID:5
STATUS:CANCELLED
DTSTART;VALUE=DATE:20270301
END:VEVENT
END:VCALENDAR
"""


def with_ics(folder: Path, content: str) -> Declarations:
    (folder / "ops.ics").write_text(content.replace("\n", "\r\n"))
    (folder / "qsched.yaml").write_text(f"{HEAD}calendars:\n  closed: {{ics: ops.ics}}\n{TRIGGER}")
    return load([folder / "qsched.yaml"], now=NOW)


def test_a_calendar_file_is_read_beside_the_declaration(tmp_path: Path) -> None:
    found = with_ics(tmp_path, ICS)
    assert found.calendars["closed"] == {
        "dates": [["2027-01-04", "2027-01-05"]],
        "spans": [["2027-02-01T22:00:00+00:00", "2027-02-02T01:00:00+00:00"]],
        "days": [{"rrule": "FREQ=YEARLY", "start": "2020-05-19T00:00:00", "length": 1}],
        "recurring": [
            {
                "rrule": "FREQ=WEEKLY;BYDAY=TU",
                "start": "2027-01-05T01:00:00",
                "except": ["2027-01-12T01:00:00"],
                "time_zone": "Europe/Berlin",
                "length": 3600,
            }
        ],
    }
    changed = with_ics(tmp_path, ICS.replace("20270104", "20270103"))
    assert changed.revision_digest != found.revision_digest


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("no calendar at all", "no iCalendar file"),
        (ICS.replace("DTSTART:20270201T220000Z", "DTSTART:20270201T220000"), "names no zone"),
        (ICS.replace("DTSTART;VALUE=DATE:20270104\n", ""), "has no DTSTART"),
    ],
)
def test_a_calendar_file_that_cannot_be_read_is_told_by_name(
    tmp_path: Path, content: str, words: str
) -> None:
    with pytest.raises(DeclarationError) as raised:
        with_ics(tmp_path, content)
    problem = raised.value.problems[0]
    assert problem.code == "E020"
    assert "ops.ics" in problem.message
    assert words in f"{problem.message}; {problem.hint}"
