"""How every command behaves: options before and after, help without secrets, one line per error, exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import START, Command, Filled, clean_environment

COMMANDS = [
    (),
    ("node",),
    ("apply",),
    ("plan",),
    ("check",),
    ("schema",),
    ("triggers",),
    ("triggers", "list"),
    ("triggers", "show"),
    ("triggers", "next"),
    ("triggers", "pause"),
    ("triggers", "resume"),
    ("triggers", "fire"),
    ("triggers", "reset"),
    ("triggers", "delete"),
    ("misfires", "list"),
    ("firings", "list"),
    ("firings", "show"),
    ("events",),
    ("jobs", "list"),
    ("nodes", "list"),
    ("cron",),
    ("db", "upgrade"),
    ("db", "current"),
    ("db", "sql"),
    ("demo",),
]
"""Every command there is in this version; those of later issues are absent, not stubs."""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_is_there_and_never_prints_values_of_the_environment(
    qsched: Command, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QSCHED_STORE", "postgresql://u:hunter2@db/x")
    monkeypatch.setenv("QSCHED_CLUSTER", "hunter2")
    monkeypatch.setenv("QSCHED_NODE_NAME", "hunter2")
    monkeypatch.setenv("QSCHED_NODE_APP", "hunter2")
    said = qsched(*command, "--help")
    assert said.code == 0
    assert "Usage: qsched" in said.out
    assert "--store URL" in said.out
    assert "hunter2" not in said.out + said.err
    assert said.err == ""


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(("trigers",), "triggers"), (("triggers", "lst"), "list"), (("node", "--capcity", "3"), "--capacity")],
)
def test_a_mistyped_word_is_met_with_the_one_that_was_meant(
    qsched: Command, typed: tuple[str, ...], meant: str
) -> None:
    said = qsched(*typed)
    assert said.code == 2
    assert "did you mean" in said.err.lower()
    assert meant in said.err
    assert said.err.count("\n") == 1


def test_global_options_stand_before_or_after_the_command_and_the_last_one_counts(
    qsched: Command, filled: Filled
) -> None:
    filled.declare(ONE)
    before = qsched("-o", "json", "triggers", "list")
    assert before == qsched("triggers", "list", "-o", "json")
    assert before == qsched("triggers", "-o", "json", "list")
    assert before == qsched("-o", "yaml", "triggers", "list", "-o", "json")
    assert [item["name"] for item in before.items] == ["nightly"]


def test_what_is_said_outranks_the_environment(
    qsched: Command, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.declare(ONE)
    monkeypatch.setenv("QSCHED_STORE", "sqlite:////nowhere/at/all.db")
    assert qsched("triggers", "list").code == 5
    assert qsched("--store", filled.url, "triggers", "list").code == 0
    assert qsched("triggers", "list", "--store", filled.url).code == 0


def test_the_version_is_printed(qsched: Command) -> None:
    said = qsched("--version")
    assert (said.code, said.out.split()[0]) == (0, "qsched")


BAD = [
    (("triggers", "list", "--store", "nonsense"), 5, "write sqlite:///"),
    (("triggers", "list", "--store", "oracle://h/d"), 5, "unknown scheme"),
    (("triggers", "list", "--store", "sqlite:////no/such/folder/q.db"), 5, "folder"),
    (("triggers", "list"), 5, "`qsched apply` or `qsched node` makes it"),
    (("triggers", "list", "--tz", "Europe/Berln"), 2, "Europe/Berlin"),
    (("triggers", "list", "--group"), 2, "requires an argument"),
    (("node", "--capacity", "0"), 2, "--capacity"),
    (("node", "--lease", "1s"), 2, "lease must be at least three check-ins"),
    (("node", "--lease", "15"), 2, "not a duration"),
    (("node", "--coordination", "primary"), 2, "is not one of"),
    (("node", "--allow", "http,ftp"), 2, "not one of"),
    (("node", "--http-allow", "http://intra"), 2, "write api.internal, 10.0.0.5 or 10.0.0.0/8"),
    (("node", "--app", "no_such_module_x"), 1, "no_such_module_x"),
    (("node", "-f", "missing.yaml"), 3, "missing.yaml"),
    (("apply",), 3, "qsched.yaml"),
    (("apply", "-f", "missing.yaml"), 3, "missing.yaml"),
    (("check", "-f", "unset.yaml"), 3, "NO_SUCH_VARIABLE_X"),
    (("check", "-f", "loop.yaml"), 3, "loop.yaml"),
    (("check", "-f", "glob.yaml"), 3, "nothing/*.yaml"),
    (("check", "-f", "job.yaml"), 3, "did you mean"),
    (("check", "--app", "raises_at_import"), 1, "boom"),
    (("cron", "61 * * * *"), 2, "61"),
    (("cron", "0 0 2 ? * 0", "--quartz"), 2, "day-of-week"),
    (("cron", "H 2 * * *"), 2, "on a command line, --key NAME"),
    (("cron", "* * * * *", "-n", "0"), 2, "-n"),
    (("cron", "* * * * *", "--from", "2026-01-01T00:00:00"), 2, "has no zone"),
    (("triggers", "next", "x", "-n", "0"), 2, "-n"),
    (("triggers", "next", "x", "--from", "2026-01-01"), 2, "has no zone"),
    (("firings", "list", "--limit", "0"), 2, "--limit"),
    (("firings", "list", "--since", "5"), 2, "not a duration"),
    (("firings", "list", "--state", "dead"), 2, "--state"),
]


@pytest.mark.parametrize(
    ("arguments", "code", "words"), BAD, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_each_bad_input_is_one_line_with_a_next_step_and_its_exit_code(
    qsched: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    _bad_files(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    said = qsched(*arguments)
    assert said.err.count("\n") == 1, said.err
    assert "Traceback" not in said.err
    assert words in said.err
    assert (said.code, said.out) == (code, "")


def _bad_files(folder: Path) -> None:
    job = "jobs: {j: {command: 'true'}}\n"
    (folder / "unset.yaml").write_text(
        "qsched: 1\njobs: {j: {command: 'true', env: {A: '${NO_SUCH_VARIABLE_X}'}}}\ntriggers: {t: {job: j, every: 1h}}\n"
    )
    (folder / "loop.yaml").write_text(
        f"qsched: 1\ninclude: [loop.yaml]\n{job}triggers: {{t: {{job: j, every: 1h}}}}\n"
    )
    (folder / "glob.yaml").write_text(
        f"qsched: 1\ninclude: ['nothing/*.yaml']\n{job}triggers: {{t: {{job: j, every: 1h}}}}\n"
    )
    (folder / "job.yaml").write_text(
        "qsched: 1\njobs: {fetch: {command: 'true'}}\ntriggers: {t: {job: fetsh, every: 1h}}\n"
    )
    (folder / "raises_at_import.py").write_text("raise RuntimeError('boom')\n")


def test_reading_never_creates_a_store(qsched: Command, tmp_path: Path) -> None:
    for command in (
        ("triggers", "list"),
        ("misfires", "list"),
        ("firings", "list"),
        ("jobs", "list"),
        ("nodes", "list"),
        ("triggers", "show", "x"),
        ("db", "current"),
    ):
        assert qsched(*command).code == 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("module", "url"), [("psycopg", "postgresql://h/d"), ("pymysql", "mariadb://h/d")])
def test_a_missing_driver_names_its_extra(
    qsched_process: Command, tmp_path: Path, module: str, url: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nreal = u.find_spec\n"
        f"u.find_spec = lambda name, *rest: None if name == {module!r} else real(name, *rest)\n"
    )
    said = qsched_process("triggers", "list", "--store", url, PYTHONPATH=str(tmp_path))
    assert said.code == 5
    assert "pip install 'qsched[" in said.err
    assert said.err.count("\n") == 1


def test_an_error_never_shows_the_password_of_the_store(qsched: Command) -> None:
    for url in (
        "postgresql://u:hunter2@127.0.0.1:1/d",
        "oracle://u:hunter2@h/d",
        "mariadb://u:hunter2@127.0.0.1:1/d",
        "u:hunter2@h",
    ):
        said = qsched("triggers", "list", "--store", url)
        assert said.code == 5
        assert "hunter2" not in said.err


def test_an_unexpected_error_is_one_line_unless_its_place_is_asked_for(
    qsched: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qsched.cli.settings.Settings.reading", _lost)
    said = qsched("triggers", "list")
    assert (said.code, said.err) == (
        1,
        "error: unexpected KeyError: 'lost' (QSCHED_TRACEBACK=1 shows where)\n",
    )
    monkeypatch.setenv("QSCHED_TRACEBACK", "1")
    with pytest.raises(KeyError):
        qsched("triggers", "list")


def _lost(_self: object) -> None:
    raise KeyError("lost")


def test_ctrl_c_is_silent(qsched: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("qsched.cli.settings.Settings.reading", interrupted)
    said = qsched("triggers", "list")
    assert (said.code, said.out, said.err) == (130, "", "")


def test_a_reader_that_has_seen_enough_ends_the_command_in_silence(filled: Filled, tmp_path: Path) -> None:
    filled.declare(
        "qsched: 1\njobs: {j: {command: 'true'}}\ntriggers:\n"
        + "".join(f"  t{n}: {{job: j, every: 1h}}\n" for n in range(2000))
    )
    for form in ("table", "json", "name"):
        with subprocess.Popen(
            [sys.executable, "-c", START, "triggers", "list", "-o", form],
            cwd=tmp_path,
            env=clean_environment(QSCHED_STORE=filled.url),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            assert child.stdout.readline() != b""
            child.stdout.close()
            assert child.stderr.read() == b""
            assert child.wait(timeout=60) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux's full device")
def test_an_answer_that_cannot_be_written_is_an_error(filled: Filled, tmp_path: Path) -> None:
    filled.declare(ONE)
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [sys.executable, "-c", START, "triggers", "list"],
            cwd=tmp_path,
            env=clean_environment(QSCHED_STORE=filled.url),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ran.returncode == 1
    assert "No space left" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_terminal_that_knows_only_ascii_still_gets_its_answer(
    qsched_process: Command, filled: Filled
) -> None:
    filled.declare(ONE)
    said = qsched_process("triggers", "list", PYTHONIOENCODING="ascii")
    assert said.code == 0
    assert "\\u25cf waiting" in said.out


ONE = "qsched: 1\njobs: {j: {command: 'true'}}\ntriggers: {nightly: {job: j, cron: '15 2 * * *'}}\n"


def test_no_standard_output_is_no_error(filled: Filled, tmp_path: Path) -> None:
    filled.declare(ONE)
    script = f'exec "{sys.executable}" -c "{START}" triggers list >&-'
    ran = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env=clean_environment(QSCHED_STORE=filled.url),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_shells_can_complete_commands(qsched_process: Command) -> None:
    said = qsched_process(
        _QSCHED_COMPLETE="bash_complete", COMP_WORDS="qsched triggers ", COMP_CWORD="2", PYTHONPATH=""
    )
    assert "plain,pause" in said.out
