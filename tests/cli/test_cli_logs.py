"""A node's log: stable event names, one line per record, every `name=value` a field of its own in JSON."""

import json
import logging

import pytest
from qsched.cli.logs import JsonLines, TextLines, wants_json


def record(message: str, *values: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("qsched.planner", logging.WARNING, "", 0, message, values, None)
    made.__dict__.update(extra)
    made.created = 1_576_713_600.25
    return made


def test_json_has_the_event_and_its_fields() -> None:
    said = json.loads(JsonLines().format(record("misfire trigger=%s late=%.1fs covers=%d", "etl", 3.25, 9)))
    assert said["event"] == "misfire"
    assert said["level"] == "warning"
    assert said["at"] == "2019-12-19T00:00:00.250000Z"
    assert (said["trigger"], said["late"], said["covers"]) == ("etl", 3.25, 9)
    assert said["message"] == "misfire trigger=etl late=3.2s covers=9"


def test_a_value_between_fields_does_not_shift_them() -> None:
    said = json.loads(JsonLines().format(record("take.failed %s trigger=%s", "x", "etl")))
    assert said["trigger"] == "etl"


def test_a_jobs_record_carries_its_ids() -> None:
    said = json.loads(JsonLines().format(record("hello", trigger="etl", firing=7)))
    assert (said["trigger"], said["firing"]) == ("etl", 7)


def test_text_is_one_line_whatever_the_message_holds() -> None:
    line = TextLines().format(record("job.failed reason=%s", "a\nb\x1b[31m"))
    assert line == "00:00:00.250 WARNING job.failed reason=a b [31m"


def test_a_traceback_follows_where_there_is_one() -> None:
    try:
        raise ValueError("boom")
    except ValueError as error:
        made = record("job.failed")
        made.exc_info = (ValueError, error, None)
    assert "ValueError: boom" in TextLines().format(made)
    assert "ValueError: boom" in json.loads(JsonLines().format(made))["traceback"]


@pytest.mark.parametrize(("form", "json_wanted"), [("json", True), ("text", False)])
def test_the_form_is_chosen_by_a_variable(
    form: str, json_wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QSCHED_LOG", form)
    assert wants_json() is json_wanted
