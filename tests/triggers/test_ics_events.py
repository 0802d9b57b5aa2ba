"""Events of an iCalendar file that are easily lost: further dates, moved occurrences, and what cannot be read."""

import pytest
from qsched.triggers.calendars.ics import read_ics
from qsched.triggers.errors import ScheduleError

WEEKLY = ("DTSTART;VALUE=DATE:20270104", "RRULE:FREQ=WEEKLY;COUNT=3")
MOVED = ("RECURRENCE-ID;VALUE=DATE:20270111", "DTSTART;VALUE=DATE:20270113")


def file(*events: tuple[str, ...]) -> bytes:
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//qsched//test"]
    for event in events:
        lines += ["BEGIN:VEVENT", "UID:shut", "SUMMARY:shut", *event, "END:VEVENT"]
    return "\r\n".join([*lines, "END:VCALENDAR", ""]).encode()


def test_further_dates_are_days_as_the_first_one() -> None:
    read = read_ics(
        file(("DTSTART;VALUE=DATE:20270101", "DTEND;VALUE=DATE:20270103", "RDATE;VALUE=DATE:20270301"))
    )
    assert read == {"dates": [["2027-01-01", "2027-01-02"], ["2027-03-01", "2027-03-02"]]}


def test_further_dates_stand_beside_a_rule() -> None:
    read = read_ics(file((*WEEKLY, "RDATE;VALUE=DATE:20270301")))
    assert read["dates"] == [["2027-03-01", "2027-03-01"]]
    assert len(read["days"]) == 1


def test_a_moved_occurrence_is_left_out_where_it_was() -> None:
    read = read_ics(file(WEEKLY, MOVED))
    assert read["dates"] == [["2027-01-13", "2027-01-13"]]
    assert read["days"][0]["except"] == ["2027-01-11T00:00:00"]


def test_a_single_occurrence_that_is_cancelled_is_no_more() -> None:
    read = read_ics(file(WEEKLY, (*MOVED, "STATUS:CANCELLED")))
    assert "dates" not in read
    assert read["days"][0]["except"] == ["2027-01-11T00:00:00"]


@pytest.mark.parametrize(
    "lines",
    [
        ("DTSTART:soon",),
        ("DTSTART;VALUE=DATE:20270101", "DTEND:20270102T000000Z"),
        (*WEEKLY, "RRULE:FREQ=MONTHLY"),
        ("DTSTART:20270101T100000Z", "RRULE:FREQ=DAILY;UNTIL=20270110T00Z"),
        ("DTSTART:20270101T100000Z", "RDATE;VALUE=PERIOD:20270301T100000Z/PT2H"),
    ],
)
def test_what_cannot_be_read_names_its_event(lines: tuple[str, ...]) -> None:
    with pytest.raises(ScheduleError, match="the event 'shut'"):
        read_ics(file(lines))
