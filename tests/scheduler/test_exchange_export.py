"""Exports: YAML that says the same again, and other formats that say what they leave out."""

from datetime import UTC, datetime

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from qsched.scheduler.exchange.exporting import Span, export
from qsched.triggers.declaration import Declarations, load_text
from qsched.triggers.instant import to_instant

NOW = to_instant(datetime(2026, 10, 24, 0, 0, 17, tzinfo=UTC))
TEXT = """
qsched: 1
namespace: shop
defaults: {time_zone: Europe/Berlin}
calendars:
  closed: {dates: [2026-12-24..2027-01-02, 12-31], weekly: [sun], daily: ["22:00-06:00"]}
jobs:
  rates:
    python: "shop.jobs:rates"
    retry: {max_retries: 3, delay: 2s, multiplier: 2}
    overlap: queue
    timeout: 10m
    data: {base: EUR}
  page: {http: {method: POST, url: "https://example.org/x", json: {a: [1, "2", null]}}}
triggers:
  nightly: {job: rates, cron: "15 12 * * *", exclude: [closed], misfire: {policy: fire_all, window: 2h, limit: 5}, retry: none}
  close: {job: rates, quartz: "0 30 18 LW * ?", data: {month: true}, priority: 8, dst: {gap: skip, overlap: twice}}
  beat: {every: 10s, command: "echo 100%; date +%F", env: {A: "no"}, cwd: /tmp}
  other: {every: 90s, anchor: 2026-01-01T00:00:07Z, command: [ls, "-l"], group: files, paused: true, tags: [a]}
  once: {job: page, at: 2027-03-28T02:30:00, end_at: 2028-01-01}
  both: {job: page, all: [{quartz: "0 0 3 1-7 * ?"}, {quartz: "0 0 3 ? * MON"}], jitter: 90s, max_fires: 9}
  often: {job: page, daily_window: {every: 20m, from: "08:00", to: "18:00", days: [mon, fri]}}
  months: {job: page, calendar_interval: {months: 2, day: last, at: "06:30"}, start_at: 2026-01-01}
  rule: {job: page, rrule: "FREQ=WEEKLY;BYDAY=TU;BYHOUR=9;BYMINUTE=0;BYSECOND=0"}
  behind: {job: page, after: {job: rates, on: failed}, retry: {max_retries: 2, delays: [5s, 1m]}}
  later: {job: page, delay: 45m}
"""


def loaded(text: str) -> Declarations:
    return load_text(text, now=NOW)


def same(one: Declarations, other: Declarations) -> bool:
    return (
        one.namespace == other.namespace
        and {job.name: job.digest() for job in one.jobs} == {job.name: job.digest() for job in other.jobs}
        and {each.key: each.digest() for each in one.triggers}
        == {each.key: each.digest() for each in other.triggers}
    )


def test_what_is_exported_as_yaml_is_read_as_the_same() -> None:
    first = loaded(TEXT)
    again = loaded(export("yaml", first, Span(NOW)).text)
    assert {t.key: t.to_spec() for t in again.triggers} == {t.key: t.to_spec() for t in first.triggers}
    assert same(first, again)


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=30))
def test_any_text_comes_back_as_it_was(text: str) -> None:
    document = {
        "qsched": 1,
        "triggers": {"t": {"every": "5s", "command": ["echo", text], "data": {"said": text}}},
    }
    first = loaded(
        yaml.safe_dump(document, allow_unicode=True, default_style='"').replace(
            '"qsched": !!int "1"', "qsched: 1"
        )
    )
    assert same(first, loaded(export("yaml", first, Span(NOW)).text))


def test_a_crontab_says_what_it_leaves_out() -> None:
    first = '  a: {cron: "5 0 * * *", command: "date +%F", time_zone: Europe/Berlin, jitter: 5s}'
    text = f"qsched: 1\ntriggers:\n{first}\n  b: {{every: 5s, command: ls}}\n"
    made = export("crontab", loaded(text), Span(NOW))
    assert made.text.splitlines()[1:] == [
        "# qsched: lost a: jitter",
        "CRON_TZ=Europe/Berlin",
        "5 0 * * * date +\\%F",
        "# qsched: lost b: its schedule is `every`, and a crontab has five plain fields",
    ]
    assert len(made.lost) == 2


def test_a_cron_job_says_the_schedule_and_the_overlap() -> None:
    text = 'qsched: 1\ntriggers:\n  a_b: {cron: "5 0 * * *", command: "ls", overlap: skip, timeout: 90s, paused: true}\n'
    made = yaml.safe_load(export("k8s", loaded(text), Span(NOW)).text)
    assert made["metadata"] == {"name": "a-b"}
    spec = made["spec"]
    assert (spec["schedule"], spec["timeZone"]) == ("5 0 * * *", "UTC")
    assert (spec["suspend"], spec["concurrencyPolicy"]) == (True, "Forbid")
    assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 90


def test_a_calendar_file_has_an_event_for_each_fire() -> None:
    icalendar = pytest.importorskip("icalendar")
    text = 'qsched: 1\ntriggers:\n  a: {cron: "30 2 * * *", time_zone: Europe/Berlin, command: ls}\n'
    made = export("ics", loaded(text), Span(NOW, days=3))
    starts = [event["DTSTART"].dt for event in icalendar.Calendar.from_ical(made.text).walk("VEVENT")]
    assert [f"{each:%d %H:%M}" for each in starts] == ["24 00:30", "25 00:30", "26 01:30"]
