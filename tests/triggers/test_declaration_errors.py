"""Every error and warning of a declaration, with its exact file, line and column, and all of them at once."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from qsched.triggers.declaration import load, load_text
from qsched.triggers.declaration_problem import CODES, DeclarationError, Problem
from qsched.triggers.errors import QschedError

NOW = 1_735_689_600_000_000  # 2025-01-01T00:00:00Z
JOBS = "qsched: 1\njobs: {fetch: {command: ls}}\ntriggers:\n"
NIGHTLY = "qsched: 1\ntriggers:\n  nightly:\n    command: ls\n"


def problems(text: str, environ: Mapping[str, str] | None = None) -> tuple[Problem, ...]:
    """All that is wrong with a text, but for the warning that the short jobs of these texts may pile up."""
    with pytest.raises(DeclarationError) as raised:
        load_text(text, now=NOW, environ=environ)
    return tuple(problem for problem in raised.value.problems if problem.code != "W012")


# What is written below the trigger `nightly` (line 5 on), the code, line, column and part of the message or the hint.
IN_A_TRIGGER = [
    ("every: 5s\ntimezon: UTC", "E011", 6, 5, "did you mean `time_zone`?"),
    ("every: 5s\ntz: UTC", "E011", 6, 5, "did you mean `time_zone`?"),
    ("every: 5s\nMisfire: skip", "E011", 6, 5, "did you mean `misfire`?"),
    ("every: 5s\nmisfire_grace: 5m", "E011", 6, 5, "did you mean `misfire`?"),
    ("every: 5s\nzzzzzz: 5m", "E011", 6, 5, "`qsched schema`"),
    ("every: 5s\nnamespace: x", "E011", 6, 5, "belongs to the top of the file"),
    ("every: 5s\nmax_retries: 3", "E011", 6, 5, "belongs to `retry`"),
    ("every: 5s\nmisfire: {polcy: skip}", "E011", 6, 15, "did you mean `policy`?"),
    ("every: 5s\nmisfire: {grace: 5s}", "E011", 6, 15, "known are policy, threshold, window, limit"),
    ("cron: 0 0 * * *\ndst: {gab: skip}", "E011", 6, 11, "did you mean `gap`?"),
    ("every: 5s\nretry: {max_attempts: 3}", "E011", 6, 13, "did you mean `max_retries`?"),
    ("every: 5s\nexclude: [closed]", "E024", 6, 15, "declare it under `calendars`"),
    ("every: 5s\nrun_in: proces", "E014", 6, 13, "did you mean `process`?"),
    ("priority: 3", "E013", 3, 3, "`nightly` has no schedule"),
    ("every: 5s\ncron: '* * * * *'", "E021", 6, 5, "`every` and `cron` are given"),
    ("every: 5s\npython: a:b", "E021", 6, 5, "both `command` and `python`"),
    ("every: 5s\njob: x", "E021", 4, 5, "both `job` and `command`"),
    ("every: 5s\nmisfire: once", "E014", 6, 14, "did you mean `fire_once`?"),
    ("every: 5s\nmisfire: DO_NOTHING", "E014", 6, 14, "did you mean `skip`?"),
    ("every: 5s\noverlap: Forbid", "E014", 6, 14, "write one of"),
    ("every: 5s\noverlap: quue", "E014", 6, 14, "did you mean `queue`?"),
    ("every: 5s\nretry: {max_retries: 3, on_exhausted: fial}", "E014", 6, 43, "did you mean `fail`?"),
    ("every: 5s\nretry: hangfir", "E014", 6, 12, "did you mean `hangfire`?"),
    ("every: 5", "E015", 5, 12, "'5' is not a duration"),
    ("every: 0s", "E015", 5, 12, "greater than zero"),
    ("every: -5s", "E015", 5, 12, "not a duration"),
    ("every: 5 minutes", "E015", 5, 12, "30s, 5m, 1h30m"),
    ("every: 5s\ntimeout: 1m1h", "E015", 6, 14, "not a duration"),
    ("every: 5s\nmisfire: {threshold: 5}", "E015", 6, 26, "not a duration"),
    ("every: 5s\nretry: {max_retries: 3, delays: [2s, 5]}", "E015", 6, 42, "not a duration"),
    ("at: tomorrow", "E016", 5, 9, "not a date or a time"),
    ("at: 2027-02-30", "E016", 5, 9, "does not exist"),
    ("at: 2027-01-01 25:00", "E016", 5, 9, "does not exist"),
    ("at: 2027-01-01 12:00 +02:75", "E016", 5, 9, "does not exist"),
    ("at: 0001-01-01", "E016", 5, 9, "between the years"),
    ("every: 5s\nstart_at: 12:30", "E016", 6, 15, "without a date"),
    ("every: 5s\nend_at: 1700000000", "E016", 6, 13, "not a date"),
    ("every: 5s\nanchor: 12:30", "E016", 6, 13, "without a date"),
    ("every: 5s\ngroup: a/b", "E017", 6, 12, "holds a `/`"),
    ("every: 5s\ngroup: ' a'", "E017", 6, 12, "blank"),
    ("every: 5s\ngroup: ''", "E017", 6, 12, "empty"),
    ("every: 5s\ngroup: " + "x" * 201, "E017", 6, 12, "201 characters"),
    ("every: 5s\ntags: [a, b/c]", "E017", 6, 15, "holds a `/`"),
    ('every: 5s\ntags: "a\\tb"', "E017", 6, 11, "control character"),
    ("every: 5s\nenv: {'A=B': x}", "E017", 6, 11, "environment variable"),
    ("every: 5s\nrenamed_from: 'a/b/c'", "E017", 6, 19, "holds a `/`"),
    ("every: 5s\ntime_zone: Europe/Berln", "E018", 6, 16, "did you mean 'Europe/Berlin'?"),
    ("every: 5s\ntime_zone: localtime", "E018", 6, 16, "not known"),
    ("every: 5s\npriority: high", "E019", 6, 15, "expected a number"),
    ("every: 5s\npriority: '5'", "E019", 6, 15, "without quotes"),
    ("every: 5s\npriority: 5.5", "E019", 6, 15, "whole number"),
    ("every: 5s\npriority: true", "E019", 6, 15, "expected a number"),
    ("every: 5s\nmax_fires: 0", "E019", 6, 16, "from 1"),
    ("every: 5s\nretry: 1001", "E019", 6, 12, "from 0 to 1000"),
    ("every: 5s\nretry: -1", "E019", 6, 12, "from 0 to 1000"),
    ("every: 5s\nmisfire: {policy: fire_all, limit: 0}", "E019", 6, 40, "from 1"),
    ("cron: '0 0 * *'", "E020", 5, 11, "has 4 fields, not 5"),
    ("cron: '0 0 0 * * *'", "E020", 5, 11, "quartz:"),
    ("cron: 61 * * * *", "E020", 5, 11, "minute"),
    ("quartz: 0 0 0 1 1 1", "E020", 5, 13, "?"),
    ("cron: 0 0 30 2 *", "E022", 5, 11, "can never fire"),
    ("quartz: 0 0 0 31 4 ?", "E022", 5, 13, "can never fire"),
    (
        "cron: 0 0 1 6 *\nstart_at: 2027-01-01\nend_at: 2027-02-01",
        "E022",
        5,
        11,
        "within start_at and end_at",
    ),
    ("at: 2027-01-01\nend_at: 2026-01-01", "E022", 5, 9, "within start_at and end_at"),
    ("every: 5s\nstart_at: 2027-01-02\nend_at: 2027-01-01", "E023", 7, 13, "before `start_at`"),
    ("at: 2027-01-01\nanchor: 2027-01-01", "E026", 6, 5, "`anchor` goes with `every`"),
    ("every: 5s\nrun_in: thread", "E026", 6, 5, "no meaning for a `command` job"),
    ("every: 5s\ndescription: ${HOME}", "E028", 6, 18, "only in env, http and data"),
    ("every: 5s\ncwd: ${HOME}", "E028", 6, 10, "only in env, http and data"),
    ("every: 5s\ndata: {a: [1, '${1X}']}", "E028", 6, 19, "cannot be read"),
    ("every: 5s\nenv: {A: '${X:?no}'}", "E028", 6, 14, "cannot be read"),
    ("every: 5s\nenv: {A: '${X'}", "E028", 6, 14, "cannot be read"),
    ("every: 5s\nretry: {delay: 5s}", "E033", 6, 12, "needs max_retries"),
    ("every: 5s\nretry: {max_retries: 1, jitter: 2}", "E033", 6, 37, "jitter"),
    ("every: 5s\nretry: {max_retries: 1, delays: [5s], delay: 1s}", "E033", 6, 37, "delays"),
    ("every: 5s\nretry: {preset: none, delay: 1s}", "E033", 6, 21, "stands alone"),
    ("every: 5s\nretry: {max_retries: 1, retry_on: '1x'}", "E033", 6, 39, "name of an exception"),
    ("every: 5s\ndata: {a: " + "x" * 300_000 + "}", "E034", 6, 11, "256 KiB"),
    ("every: 5s\nkey: 'a:{order'", "E010", 6, 10, "template"),
    ("every: 5s\nkey: 'a:{0}'", "E010", 6, 10, "template"),
    ("every: 5s\nkey: 'a:{a.b}'", "E010", 6, 10, "template"),
    ("every: 5s\ndata: 5", "E010", 6, 11, "expected a mapping"),
    ("every: 5s\nenv: {A: }", "E010", 6, 11 + 3, "needs a text"),
    ("every: 5s\nmisfire: [skip]", "E010", 6, 14, "must be a mapping"),
    ("every: 5s\ntime_zone: [UTC]", "E010", 6, 16, "this is a list"),
    ("every: 5s\npaused:", "E010", 6, 12, "nothing is given"),
    ("every: 5s\nretry: {max_retries: 3, delays: 5s}", "E010", 6, 37, "list of durations"),
    ("every: [5s]", "E010", 5, 12, "this is a list"),
]


@pytest.mark.parametrize(("lines", "code", "line", "column", "words"), IN_A_TRIGGER)
def test_an_error_in_a_trigger_is_told_at_its_place(
    lines: str, code: str, line: int, column: int, words: str
) -> None:
    found = problems(NIGHTLY + "".join(f"    {each}\n" for each in lines.splitlines()))
    told = [(problem.code, problem.line, problem.column) for problem in found]
    assert told == [(code, line, column)]
    assert words in f"{found[0].message} {found[0].hint}"
    assert found[0].path.startswith("triggers.nightly")
    assert found[0].hint
    assert (found[0].file, found[0].severity) == ("qsched.yaml", "error")


# What stands after `http:` in a job (line 2, column 22 on), the code, column and part of the message or the hint.
IN_A_REQUEST = [
    ("ftp://x/", "E010", 22, "begins with https:// or http://"),
    ("'https://'", "E010", 22, "names no host"),
    ("https://a:b@x/", "E010", 22, "must not hold a name or password"),
    ("'https://x/a b'", "E010", 22, "percent-encode"),
    ("'https://{host}/'", "E010", 22, "data must not choose the host"),
    ("'https://x/${VAR'", "E028", 22, "${VAR:-default}"),
    ("[https://x/]", "E010", 22, "mapping"),
    ("{method: GET}", "E013", 16, "has no `url`"),
    ("{url: 'https://x/', verb: GET}", "E011", 42, "did you mean `method`?"),
    ("{url: 'https://x/', method: get}", "E014", 50, "did you mean `GET`?"),
    ("{url: 'https://x/', headers: {Host: y}}", "E010", 52, "is set by qsched"),
    ("{url: 'https://x/', headers: {A B: y}}", "E010", 52, "cannot be the name of a header"),
    ("{url: 'https://x/', headers: {A: y, a: z}}", "E010", 58, "given twice"),
    ("{url: 'https://x/', headers: {A: 'ğ'}}", "E010", 52, "another character"),
    ('{url: "https://x/", headers: {A: "s3cret\\r\\nB: c"}}', "E010", 52, "the header A holds a line break"),
    ("{url: 'https://x/', json: 1, body: a}", "E021", 51, "both `json` and `body`"),
    ("{url: 'https://x/', expected_status: 99}", "E010", 59, "write 204, or 200-299"),
    ("{url: 'https://x/', expected_status: [200, 299-200]}", "E010", 65, "no status"),
    ("{url: 'https://x/', expected_status: []}", "E010", 59, "no status would be a success"),
    ("{url: 'https://x/', follow_redirects: 4}", "E019", 60, "from 0 to 3"),
]


@pytest.mark.parametrize(("request_text", "code", "column", "words"), IN_A_REQUEST)
def test_an_error_in_a_request_is_told_at_its_place(
    request_text: str, code: str, column: int, words: str
) -> None:
    text = (
        f"qsched: 1\njobs: {{fetch: {{http: {request_text}}}}}\ntriggers: {{t: {{every: 5s, job: fetch}}}}\n"
    )
    found = problems(text)
    assert [(problem.code, problem.line, problem.column) for problem in found] == [(code, 2, column)]
    assert words in f"{found[0].message} {found[0].hint}"
    assert "s3cret" not in f"{found[0].message} {found[0].hint}"


def test_a_variable_of_a_request_that_is_not_set_is_told_at_its_place() -> None:
    text = "qsched: 1\njobs: {a: {http: {url: 'https://${HOST}/', json: [1, {b: '${T}'}]}}}\ntriggers: {t: {every: 5s, job: a}}\n"
    told = [(problem.code, problem.line, problem.column) for problem in problems(text, {})]
    assert told == [("E029", 2, 24), ("E029", 2, 58)]


# A whole file, the code, line, column and part of the message or the hint.
IN_A_FILE = [
    ("triggers: {a: {every: 5s, command: ls}}\n", "E013", 1, 1, "format version"),
    ("qsched: 2\ntriggers: {a: {every: 5s, command: ls}}\n", "E035", 1, 9, "format 1"),
    ("qsched: 1\nnamespace: a/b\ntriggers: {a: {every: 5s, command: ls}}\n", "E017", 2, 12, "`/`"),
    ("qsched: 1\ntime_zone: UTC\ntriggers: {a: {every: 5s, command: ls}}\n", "E011", 2, 1, "it belongs to"),
    ("qsched: 1\nTrigers: {}\ntriggers: {a: {every: 5s, command: ls}}\n", "E011", 2, 1, "`triggers`"),
    (
        "qsched: 1\ncalendars: {a: {}}\ntriggers: {a: {every: 5s, command: ls}}\n",
        "E013",
        2,
        13,
        "leaves nothing out",
    ),
    (
        "qsched: 1\ndefaults: {exclude: [closed]}\ntriggers: {a: {every: 5s, command: ls}}\n",
        "E011",
        2,
        12,
        "a trigger",
    ),
    ("qsched: 1\ndefaults: {cron: x}\ntriggers: {a: {every: 5s, command: ls}}\n", "E011", 2, 12, "a trigger"),
    (
        "qsched: 1\ncluster: {time_zone: UTC}\ntriggers: {a: {every: 5s, command: ls}}\n",
        "E011",
        2,
        11,
        "`defaults`",
    ),
    (
        "qsched: 1\ncluster: {retry: {delay: 5s}}\ntriggers: {a: {every: 5s, command: ls}}\n",
        "E033",
        2,
        18,
        "needs",
    ),
    (
        "qsched: 1\ndefaults: {retry: {delay: 5s}}\ntriggers: {a: {every: 5s, command: ls}}\n",
        "E033",
        2,
        19,
        "needs",
    ),
    ("qsched: 1\ntriggers: [a]\n", "E010", 2, 11, "mapping"),
    ("qsched: 1\ntriggers: {a: 5}\n", "E010", 2, 15, "mapping"),
    ("qsched: 1\ntriggers: {a: }\n", "E010", 2, 12, "empty"),
    ("qsched: 1\ntriggers:\n  a/b: {every: 5s, command: ls}\n", "E017", 3, 3, "`group: a`"),
    ("qsched: 1\ntriggers:\n  ' a': {every: 5s, command: ls}\n", "E017", 3, 3, "blank"),
    ('qsched: 1\ntriggers:\n  "a\\nb": {every: 5s, command: ls}\n', "E017", 3, 3, "control"),
    ("qsched: 1\ntriggers:\n  '': {every: 5s, command: ls}\n", "E017", 3, 3, "empty"),
    (f"qsched: 1\ntriggers:\n  {'n' * 201}: {{every: 5s, command: ls}}\n", "E017", 3, 3, "201"),
    ("qsched: 1\ntriggers:\n  '${X}': {every: 5s, command: ls}\n", "E028", 3, 3, "`${`"),
    (JOBS + "  a: {every: 5s}\n", "E013", 4, 3, "what to run"),
    (JOBS + "  a: {every: 5s, job: fetsh}\n", "E024", 4, 23, "did you mean `fetch`?"),
    (JOBS + "  a: {every: 5s, job: zzz}\n", "E024", 4, 23, "declare it under `jobs`"),
    (JOBS + "  a: {every: 5s, job: 'a:b c'}\n", "E024", 4, 23, "no job"),
    (JOBS + "  a: {every: 5s, job: fetch, timeout: 5s}\n", "E026", 4, 30, "belongs to the job"),
    (JOBS + "  a: {every: 5s, job: fetch, env: {A: b}}\n", "E026", 4, 30, "belongs to the job"),
    (JOBS + "  fetch: {every: 5s, command: ls}\n", "E025", 4, 3, "line 2"),
    (
        JOBS + "  a: {every: 5s, job: fetch}\n  b: {every: 5s, job: fetch, renamed_from: a}\n",
        "E026",
        5,
        44,
        "still",
    ),
    (JOBS.replace("command: ls", "command: ''") + "  a: {every: 5s, job: fetch}\n", "E036", 2, 25, "empty"),
    (JOBS.replace("command: ls", "command: []") + "  a: {every: 5s, job: fetch}\n", "E036", 2, 25, "empty"),
    (
        JOBS.replace("command: ls", "python: foo") + "  a: {every: 5s, job: fetch}\n",
        "E036",
        2,
        24,
        "module:func",
    ),
    (
        JOBS.replace("command: ls", "python: a:b, cwd: /") + "  a: {every: 5s, job: fetch}\n",
        "E026",
        2,
        29,
        "`cwd`",
    ),
    (
        JOBS.replace("command: ls", "python: a:b, command: x") + "  a: {every: 5s, job: fetch}\n",
        "E021",
        2,
        29,
        "both",
    ),
    (
        JOBS.replace("command: ls", "tags: [a]") + "  a: {every: 5s, job: fetch}\n",
        "E013",
        2,
        8,
        "nothing to run",
    ),
    (
        JOBS.replace("command: ls", "command: ls, splay: 5s") + "  a: {every: 5s, job: fetch}\n",
        "E011",
        2,
        29,
        "`splay`",
    ),
    (
        JOBS.replace("command: ls", "command: ls, paused: true") + "  a: {every: 5s, job: fetch}\n",
        "E011",
        2,
        29,
        "a tr",
    ),
]


@pytest.mark.parametrize(("text", "code", "line", "column", "words"), IN_A_FILE)
def test_an_error_in_a_file_is_told_at_its_place(
    text: str, code: str, line: int, column: int, words: str
) -> None:
    found = problems(text)
    assert [(problem.code, problem.line, problem.column) for problem in found] == [(code, line, column)]
    assert words in f"{found[0].message} {found[0].hint}"
    assert found[0].hint


def test_an_unset_variable_is_an_error_where_an_environment_is_given() -> None:
    text = (
        NIGHTLY + "    every: 5s\n    env: {A: '${TOKEN}', B: '${OTHER:-x}', C: '$${NOT}', D: '${file:/x}'}\n"
    )
    text += "    data: {a: ['x ${PART} ${PART}']}\n"
    assert load_text(text, now=NOW).jobs[0].env["A"] == "${TOKEN}"
    found = problems(text, environ={})
    told = [(problem.code, problem.line, problem.column, problem.message.split()[2]) for problem in found]
    assert told == [("E029", 6, 14, "TOKEN"), ("E029", 7, 16, "PART"), ("E029", 7, 16, "PART")]
    assert load_text(text, now=NOW, environ={"TOKEN": "", "PART": "x"}).triggers


def test_all_errors_of_all_places_are_told_at_once() -> None:
    text = (
        "qsched: 1\nnamespace: a/b\nwhat: 1\ndefaults: {time_zone: Nowhere}\n"
        "jobs:\n  j: {python: x, timeout: 5}\n"
        "triggers:\n  t: {job: k, cron: '0 0 30 2 *', time_zone: Mars, priority: high, data: {a: '${', b: .inf}}\n"
        "  u: {every: 5, at: 12:30}\n"
    )
    told = [(problem.code, problem.line) for problem in problems(text)]
    assert told == [
        ("E017", 2), ("E011", 3), ("E018", 4), ("E036", 6), ("E015", 6), ("E024", 8), ("E022", 8), ("E018", 8),
        ("E019", 8), ("E028", 8), ("E034", 8), ("E013", 9), ("E015", 9), ("E021", 9), ("E016", 9),
    ]  # fmt: skip


def test_a_declaration_error_is_one_of_the_house_and_a_value_error() -> None:
    with pytest.raises(DeclarationError) as raised:
        load_text("qsched: 1\n", now=NOW)
    assert isinstance(raised.value, QschedError)
    assert isinstance(raised.value, ValueError)
    assert str(raised.value) == raised.value.render()
    assert str(raised.value.problems[0]).startswith("qsched.yaml: error[E032]: declares no triggers")


def test_every_code_has_a_test_and_a_meaning() -> None:
    here = Path(__file__)
    texts = "".join(
        path.read_text()
        for path in here.parent.glob("test_*.py")
        if "declaration" in path.name or "yaml" in path.name
    )
    untested = {code for code in CODES if f'"{code}"' not in texts}
    assert not untested
    code = "".join(path.read_text() for path in (here.parents[2] / "triggers").glob("*.py"))
    unused = {name for name in CODES if code.count(f'"{name}"') < 2}
    assert not unused


def test_a_problem_can_be_written_in_one_line() -> None:
    (found,) = problems(NIGHTLY + "    every: 5\n")
    assert str(found).startswith("qsched.yaml:5:12: error[E015]: '5' is not a duration; write a number")


def test_a_long_line_is_shown_around_the_place() -> None:
    (found,) = problems(NIGHTLY + f"    every: 5s\n    data: {{a: {'x' * 500}, b: .inf}}\n")
    rows = found.render().splitlines()
    assert len(rows[3]) < 140
    assert rows[3][rows[4].index("^")] == "."


def test_many_problems_are_counted_and_not_all_shown() -> None:
    rows = "".join(f"  t{number}: {{every: 5, command: ls}}\n" for number in range(150))
    with pytest.raises(DeclarationError) as raised:
        load_text(f"qsched: 1\ntriggers:\n{rows}", now=NOW)
    assert len(raised.value.problems) == 150
    assert "… and 50 more" in str(raised.value)
    assert str(raised.value).endswith("150 errors in 1 file")


def test_values_of_variables_never_appear_in_a_problem() -> None:
    text = NIGHTLY + "    every: 5s\n    env: {A: '${SECRET}${UNSET}'}\n"
    with pytest.raises(DeclarationError) as raised:
        load_text(text, now=NOW, environ={"SECRET": "hunter2"})
    assert "hunter2" not in str(raised.value)


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError) as raised:
        load([tmp_path / "none.yaml"], now=NOW)
    (found,) = raised.value.problems
    assert (found.code, found.file, found.line) == ("E001", str(tmp_path / "none.yaml"), 0)
