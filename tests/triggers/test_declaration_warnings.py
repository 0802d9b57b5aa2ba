"""What is allowed and seldom meant is told at its place, and stops nothing."""

import pytest
from qsched.triggers.declaration import load_text

NOW = 1_735_689_600_000_000  # 2025-01-01T00:00:00Z
NIGHTLY = "qsched: 1\ntriggers:\n  nightly:\n    command: ls\n"

# What is written below `nightly`, the code, line and column of the one warning, and part of its text.
WARNED = [
    ("at: 2024-12-31", "W001", 5, 9, "2024-12-31T00:00:00Z"),
    ("every: 5s\nend_at: 2024-12-31", "W001", 6, 13, "stored as done"),
    ("cron: 0 0 * * *\nend_at: 2024-12-31", "W001", 6, 13, "2024-12-31T00:00:00Z"),
    ("cron: 0 0 13 * 5", "W002", 5, 11, "either"),
    ("cron: 5/15 * * * *", "W003", 5, 11, "5-59/15"),
    ("every: 10s\nretry: {max_retries: 3, delay: 9s}", "W004", 6, 12, "dropped"),
    ("cron: '* * * * *'\nretry: {max_retries: 3, delay: 1m}", "W004", 6, 12, "1m"),
    ("cron: '0 0,1 * * *'\nretry: {max_retries: 3, delay: 1h}", "W004", 6, 12, "1h"),
    ("every: 10s\ndata: {a: [{b: no}]}", "W005", 6, 20, "text"),
    ("every: 10s\ndst: {gap: skip}", "W006", 6, 5, "no effect"),
    ("at: 2027-01-01\ndst: {gap: skip}", "W006", 6, 5, "no effect"),
    ("every: 10s\nmisfire: {policy: skip, limit: 3}", "W006", 6, 29, "`fire_all` only"),
    ("every: 10s\nmisfire: {window: 3h}", "W006", 6, 15, "`fire_all` only"),
    (
        "every: 10s\nrequest_recovery: true\nretry: {max_retries: 1, delay: 1s, on_exhausted: discard}",
        "W008",
        7,
        12,
        "don't",
    ),
    ("every: 10s\nkey: mail:{n}\nretry: {max_retries: 0, on_exhausted: discard}", "W008", 7, 12, "`key`"),
    (
        "every: 10s\nretry: {max_retries: 1, delay: 1s, retry_on: [OSError, TimeOutError]}",
        "W009",
        6,
        60,
        "did you mean `TimeoutError`?",
    ),
    (
        "every: 10s\nretry: {max_retries: 1, delay: 1s, retry_on: trasient}",
        "W009",
        6,
        50,
        "did you mean `transient`?",
    ),
    (
        "every: 10s\nretry: {max_retries: 1, delay: 1s, no_retry_on: [Outage]}",
        "W009",
        6,
        54,
        "write its module too",
    ),
]


@pytest.mark.parametrize(("lines", "code", "line", "column", "words"), WARNED)
def test_a_warning_is_told_at_its_place_and_stops_nothing(
    lines: str, code: str, line: int, column: int, words: str
) -> None:
    read = load_text(NIGHTLY + "".join(f"    {each}\n" for each in lines.splitlines()), now=NOW)
    (found,) = read.warnings
    assert (found.severity, found.code, found.line, found.column) == ("warning", code, line, column)
    assert words in f"{found.message} {found.hint}"
    assert len(read.triggers) == 1


@pytest.mark.parametrize(
    "lines",
    [
        "every: 10s\nretry: {max_retries: 3, delay: 8s}",
        "cron: '* * * * *'\nretry: {max_retries: 3, delay: 58s}",
        "quartz: '* * * * * ?'\nretry: none",
        "at: 2027-01-01\nretry: 3",
        "every: 10s\nmisfire: {policy: fire_all, limit: 3, window: 1h}",
        "cron: 0 0 13 * *",
        "cron: 0 0 */2 * 5",
        "every: 5s\nend_at: 2025-01-02",
        "every: 5s\ncommand: [sh, -c, 'echo ${HOME}']",
        "every: 10s\nretry: {max_retries: 1, delay: 1s, on_exhausted: discard}",
        "every: 10s\nrequest_recovery: true\nretry: {max_retries: 1, delay: 1s, on_exhausted: pause_trigger}",
        "every: 10s\nretry: {max_retries: 1, delay: 1s, retry_on: [transient, IOError, httpx.Timeout], no_retry_on: ExitCode}",
    ],
)
def test_what_is_right_is_not_warned_of(lines: str) -> None:
    text = NIGHTLY.replace("    command: ls\n", "") if "command" in lines else NIGHTLY
    read = load_text(text + "".join(f"    {each}\n" for each in lines.splitlines()), now=NOW)
    assert read.warnings == ()


def test_a_variable_in_a_list_of_arguments_is_warned_of() -> None:
    read = load_text("qsched: 1\ntriggers: {a: {every: 5s, command: [ls, '${HOME}']}}\n", now=NOW)
    (found,) = read.warnings
    assert (found.code, found.line, found.column) == ("W007", 2, 41)


def test_a_retry_of_the_job_or_of_the_cluster_is_held_against_the_gap_too() -> None:
    jobs = "{j: {command: ls, overlap: queue, retry: {max_retries: 1, delay: 1m}}}"
    text = f"qsched: 1\njobs: {jobs}\ntriggers: {{a: {{every: 10s, job: j}}}}\n"
    assert [problem.code for problem in load_text(text, now=NOW).warnings] == ["W004"]
    text = (
        "qsched: 1\ncluster: {retry: {max_retries: 1, delay: 1m}}\ntriggers: {a: {every: 10s, command: ls}}\n"
    )
    assert [problem.code for problem in load_text(text, now=NOW).warnings] == ["W004"]


def test_important_work_of_a_job_that_is_discarded_is_warned_of_at_the_trigger() -> None:
    text = (
        "qsched: 1\njobs: {j: {command: ls, overlap: skip, request_recovery: true,"
        " retry: {max_retries: 1, delay: 1s, on_exhausted: discard}}}\n"
        "triggers: {a: {every: 10s, job: j}}\n"
    )
    (found,) = load_text(text, now=NOW).warnings
    assert (found.code, found.line) == ("W008", 3)


@pytest.mark.parametrize("place", ["cluster", "defaults"])
def test_a_name_of_no_exception_is_warned_of_where_it_is_said_and_once(place: str) -> None:
    retry = "{retry: {max_retries: 1, delay: 1s, retry_on: [KeyEror]}}"
    text = f"qsched: 1\n{place}: {retry}\ntriggers: {{a: {{every: 10s, command: ls}}, b: {{every: 10s, command: ls}}}}\n"
    (found,) = load_text(text, now=NOW).warnings
    assert (found.code, found.line) == ("W009", 2)


PILING = (
    "qsched: 1\njobs:\n  poll: {command: ./poll%s}\n  tidy: {command: ls}\n"
    "triggers:\n  a: {every: 10s, job: poll}\n  b: {every: 5m, job: tidy}\n"
)


@pytest.mark.parametrize(
    ("said", "codes"),
    [("", ["W012"]), (", timeout: 5s", []), (", overlap: allow", []), (", overlap: queue", [])],
)
def test_a_job_of_seconds_whose_runs_may_pile_up_is_warned_of_until_something_is_said(
    said: str, codes: list[str]
) -> None:
    found = load_text(PILING % said, now=0)
    assert [problem.code for problem in found.warnings] == codes
