"""`qsched calendars`: what there is, who uses it, and when a calendar leaves time out; reads only."""

import json
from pathlib import Path

from support.command_line import Command

FILE = """\
qsched: 1
calendars:
  weekend: {weekly: [sat, sun], time_zone: Europe/Istanbul}
  closed: {any: [weekend], dates: 2027-01-01}
triggers:
  nightly: {cron: "15 2 * * *", command: ls, exclude: closed}
"""


def applied(qsched: Command, folder: Path) -> None:
    (folder / "qsched.yaml").write_text(FILE)
    assert qsched("apply", "-f", str(folder / "qsched.yaml")).code == 0


def test_the_list_says_what_is_left_out_and_by_whom(qsched: Command, tmp_path: Path) -> None:
    applied(qsched, tmp_path)
    said = qsched("calendars", "list", "-o", "json")
    items = {item["name"]: item for item in json.loads(said.out)["items"]}
    assert items["closed"]["triggers"] == ["nightly"]
    assert items["closed"]["words"] == "2027-01-01; sat, sun (Europe/Istanbul)"
    assert items["weekend"]["triggers"] == []


def test_a_check_shows_spans_that_touch_as_one(qsched: Command, tmp_path: Path) -> None:
    applied(qsched, tmp_path)
    said = qsched("calendars", "check", "closed", "--from", "2026-12-29T00:00Z", "-n", "1", "-o", "json")
    # Friday the 1st in UTC, the weekend in Istanbul: from midnight to Sunday 21:00 UTC.
    assert json.loads(said.out)["items"] == [{"from": "2027-01-01T00:00:00Z", "to": "2027-01-03T21:00:00Z"}]


def test_a_check_of_an_instant_says_whether_it_is_left_out(qsched: Command, tmp_path: Path) -> None:
    applied(qsched, tmp_path)
    said = qsched("calendars", "check", "weekend", "--date", "2027-01-02T12:00Z", "--tz", "UTC")
    assert said.out == "Sat  2 Jan 2027 12:00:00 is left out\n"
    said = qsched("calendars", "check", "weekend", "--date", "2027-01-01T12:00Z", "--tz", "UTC")
    assert said.out == "Fri  1 Jan 2027 12:00:00 is not left out\n"


def test_a_calendar_that_is_not_there_ends_with_4_and_the_nearest(qsched: Command, tmp_path: Path) -> None:
    applied(qsched, tmp_path)
    said = qsched("calendars", "check", "closd")
    assert said.code == 4
    assert "did you mean 'closed'?" in said.err
