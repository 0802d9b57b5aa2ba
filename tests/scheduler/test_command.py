"""Commands as real processes: what they get, what their end means, and that nothing of them is left."""

import json
import os
import shlex
import signal
import sys
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.context import JobContext
from qsched.scheduler.outcome import Outcome
from qsched.scheduler.running.command_output import CommandOutput
from qsched.scheduler.running.command_process import CommandProcess
from qsched.scheduler.running.runner import Runner
from qsched.scheduler.testing import request_for
from qsched.triggers.job import JobDefinition

from support.waiting import wait_until


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner(SystemClock(), grace=30.0)
    yield made
    made.close()


def python(code: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *arguments)


def context(target: str | tuple[str, ...], *, timeout: int | None = None, **said: Any) -> JobContext:
    """A run of a command; `said` are fields of its definition."""
    definition = JobDefinition(name="c", kind="command", target=target, **said)
    return JobContext(replace(request_for(definition), timeout=timeout), SystemClock())


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pids_in(path: Path, count: int) -> list[int]:
    """The numbers that processes wrote into a file, a line each, once there are `count` of them."""
    wait_until(lambda: path.exists() and path.read_text().count("\n") == count, f"{count} process numbers")
    return [int(line) for line in path.read_text().split()]


def test_a_command_that_ends_well_has_succeeded_and_its_output_is_the_result(runner: Runner) -> None:
    assert runner.run(context("echo hello; echo world >&2")) == Outcome.success("hello\nworld")
    assert runner.run(context("true")) == Outcome.success()


def test_a_string_goes_through_the_shell_and_a_list_does_not(runner: Runner) -> None:
    assert runner.run(context("echo $((1 + 2))")).result == "3"
    assert runner.run(context(("echo", "$((1 + 2)) *"))).result == "$((1 + 2)) *"


@pytest.mark.parametrize(
    ("target", "kind", "text"),
    [
        ("echo out of disk >&2; exit 3", "ExitCode", "exit code 3\nout of disk"),
        ("exit 1", "ExitCode", "exit code 1"),
        ("no-such-program-anywhere", "ExitCode", "exit code 127 (command not found)"),
        ("kill -KILL $$", "KilledBySignal", "ended by SIGKILL"),
        ("kill -SEGV $$", "KilledBySignal", "ended by SIGSEGV"),
    ],
)
def test_a_command_that_ends_badly_has_failed_and_says_how(
    runner: Runner, target: str, kind: str, text: str
) -> None:
    outcome = runner.run(context(target))
    assert (outcome.kind, outcome.error_type, outcome.permanent) == ("failed", kind, False)
    assert (outcome.error_message or "").startswith(text)


def test_what_cannot_be_started_is_a_permanent_failure_with_the_next_step(
    runner: Runner, tmp_path: Path
) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_text("x")
    cases: list[tuple[JobContext, str]] = [
        (context(("no-such-program",)), "cannot start 'no-such-program': No such file"),
        (context((str(plain),)), "Permission denied"),
        (context(("true", "a\0b")), "null byte"),
        (context("true", cwd=str(tmp_path / "gone")), "correct cwd"),
    ]
    for ctx, text in cases:
        outcome = runner.run(ctx)
        assert outcome.permanent
        assert text in (outcome.error_message or "")


def test_a_command_learns_about_its_run_from_the_environment(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QSCHED_STORE", "postgresql://user:password@host/db")
    monkeypatch.setenv("REGION", "eu")
    shown = python(
        "import os, json; print(json.dumps({k: v for k, v in os.environ.items()"
        " if k.startswith('QSCHED_') or k in ('MINE', 'REGION')}))"
    )
    ctx = context(shown, env={"MINE": "x-${REGION}"}, data={"n": 1, "s": "ç${REGION}"})
    ctx.request = replace(ctx.request, attempt=2, trigger="billing/c", default_key="k", fire_data={"n": 2})
    found = json.loads(runner.run(ctx).result or "")
    assert json.loads(found.pop("QSCHED_DATA")) == {"n": 2, "s": "çeu"}
    assert found == {
        "MINE": "x-eu",
        "REGION": "eu",
        "QSCHED_TRIGGER": "billing/c",
        "QSCHED_FIRING": "1",
        "QSCHED_SCHEDULED_AT": "2024-01-10T00:00:00Z",
        "QSCHED_ATTEMPT": "2",
        "QSCHED_IDEMPOTENCY_KEY": "k",
    }


def test_the_shell_expands_its_own_variables_and_qsched_leaves_them_alone(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGION", "eu")
    assert runner.run(context("A=1; echo ${A} ${REGION}")).result == "1 eu"
    assert runner.run(context(("echo", "${REGION}"))).result == "${REGION}"


def test_an_unset_variable_fails_the_run_before_it_starts(runner: Runner) -> None:
    outcome = runner.run(context("true", env={"A": "${QSCHED_TEST_UNSET}"}))
    assert outcome.kind == "failed"
    assert "QSCHED_TEST_UNSET" in (outcome.error_message or "")


def test_data_that_no_environment_can_hold_are_refused_with_a_reason(runner: Runner) -> None:
    outcome = runner.run(context("true", data={"x": "y" * 140_000}))
    assert outcome.permanent
    assert "pass an id or a path" in (outcome.error_message or "")
    assert runner.run(context("true", data={"x": "y" * 130_000})).kind == "succeeded"


def test_a_command_does_not_read_the_nodes_input(runner: Runner) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"typed at the node's terminal")
    os.close(theirs)
    kept = os.dup(0)
    os.dup2(ours, 0)
    try:
        assert runner.run(context("cat; echo end")).result == "end"
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(ours)


def test_a_command_runs_where_it_was_told_to(runner: Runner, tmp_path: Path) -> None:
    assert runner.run(context("pwd -P", cwd=str(tmp_path))).result == str(tmp_path.resolve())


def test_ten_megabytes_of_output_are_streamed_and_only_both_ends_kept(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    code = "import sys; sys.stdout.write('head' + 'x' * 10_000_000 + 'tail')"
    with caplog.at_level("INFO", "qsched.job.c"):
        outcome = runner.run(context(python(code)))
    assert outcome.result is not None
    assert outcome.result.startswith("headxxx")
    assert outcome.result.endswith("xxxtail")
    assert "bytes left out" in outcome.result
    assert len(outcome.result) <= 4096
    kept = json.loads(outcome.output or "")
    assert kept["size"] == 10_000_008
    assert kept["text"].startswith("headxxx")
    assert "… 9,934,472 bytes left out …" in kept["text"]
    logged = caplog.records[-1].getMessage()
    assert 60_000 < len(logged) < 70_000


def test_an_output_that_its_outcome_has_room_for_is_kept_once(runner: Runner) -> None:
    assert runner.run(context("echo short")).output is None


def test_output_of_any_length_takes_bounded_memory() -> None:
    output, piece = CommandOutput(), b"x" * 65536
    tracemalloc.start()
    for _ in range(400):
        output.add(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert output.size == 400 * 65536
    assert peak < 1_000_000


@given(st.lists(st.binary(max_size=40), max_size=12), st.integers(1, 30))
def test_what_is_kept_of_an_output_is_its_beginning_and_its_end(pieces: list[bytes], part: int) -> None:
    output, whole = CommandOutput(part), b"".join(pieces)
    for piece in pieces:
        output.add(piece)
    if len(whole) <= 2 * part:
        assert output.text() == whole.decode("utf-8", "replace")
    else:
        missing = f"\n… {len(whole) - 2 * part:,} bytes left out …\n"
        head, tail = whole[:part].decode("utf-8", "replace"), whole[-part:].decode("utf-8", "replace")
        assert output.text() == head + missing + tail


def test_output_that_is_no_text_does_no_harm(runner: Runner) -> None:
    outcome = runner.run(context(python("import sys; sys.stdout.buffer.write(bytes(range(256)) * 100)")))
    assert outcome.kind == "succeeded"
    assert "\0" not in (outcome.result or "")


def test_the_tail_of_the_output_survives_in_the_message_of_a_failure(runner: Runner) -> None:
    code = "print('x' * 100_000); print('the reason'); raise SystemExit(4)"
    message = runner.run(context(python(code))).error_message or ""
    assert message.startswith("exit code 4\nxxx")
    assert message.endswith("the reason")


def test_at_its_time_out_the_whole_group_is_ended_kindly(runner: Runner, tmp_path: Path) -> None:
    code = (
        "import signal, sys, os, threading\n"
        "def end(*_): print('cleaned up', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "open(sys.argv[1], 'a').write(f'{os.getpid()}\\n')\n"
        "threading.Event().wait()"
    )
    pids = tmp_path / "pids"
    child = shlex.join(python(code, str(pids)))
    ctx = context(f"{child} & {child}; echo never", timeout=10**12)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, ctx)
        started = pids_in(pids, 2)
        ctx.cancel("timeout")
        outcome = running.result(timeout=60)
    assert outcome.kind == "timed_out"
    assert (outcome.error_message or "").count("cleaned up") == 2
    assert not any(alive(pid) for pid in started)


def test_a_command_that_is_slower_than_its_time_out_has_timed_out(runner: Runner) -> None:
    outcome = runner.run(context("echo begun; sleep 600", timeout=300_000))
    assert outcome.kind == "timed_out"
    assert outcome.error_message == "ran longer than its timeout of 300ms\nbegun"


def test_what_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    runner = Runner(SystemClock(), grace=0.2)
    pids = tmp_path / "pids"
    stubborn = f"trap '' TERM; echo $$ >> {pids}; while :; do sleep 600; done"
    ctx = context(
        f"sh -c {shlex.quote(stubborn)} & trap '' TERM; echo $$ >> {pids}; while :; do sleep 600; done"
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, ctx)
        started = pids_in(pids, 2)
        ctx.cancel("shutdown")
        assert running.result(timeout=60).kind == "interrupted"
    wait_until(lambda: not any(alive(pid) for pid in started), "the end of the group")
    runner.close()


def test_a_lost_lease_kills_at_once(runner: Runner, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    ctx = context(f"trap '' TERM; echo $$ >> {pids}; while :; do sleep 600; done")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, ctx)
        (pid,) = pids_in(pids, 1)
        ctx.cancel("lease_lost")
        assert running.result(timeout=20).kind == "lost"  # the grace is 30 s
    assert not alive(pid)


def test_what_a_command_leaves_in_the_background_ends_with_it(runner: Runner, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    ctx = context(f"sh -c 'echo $$ >> {pids}; exec sleep 600' & while [ ! -s {pids} ]; do :; done; echo done")
    assert runner.run(ctx).result == "done"
    (pid,) = pids_in(pids, 1)
    assert not alive(pid)


def test_a_dead_process_that_nobody_reaps_does_not_keep_a_place(runner: Runner, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = (
        "import os, sys, threading\n"
        "if os.fork() == 0:\n"  # leaves the group, and never reaps the child that stays in it
        "    if os.fork() == 0: os._exit(0)\n"
        "    os.setsid()\n"
        "    open(sys.argv[1], 'a').write(f'{os.getpid()}\\n')\n"
        "    threading.Event().wait()\n"
        "while not os.path.exists(sys.argv[1]): pass\n"
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, context(python(code, str(pids))))
        (escaped,) = pids_in(pids, 1)
        try:
            assert running.result(timeout=20).kind == "succeeded"  # the grace is 30 s
            assert alive(escaped)
        finally:
            os.kill(escaped, signal.SIGKILL)


def test_a_command_that_closes_its_output_is_awaited_all_the_same(runner: Runner, tmp_path: Path) -> None:
    done = tmp_path / "done"
    assert runner.run(context(f"exec >&- 2>&-; sleep 0.2; touch {done}")).kind == "succeeded"
    assert done.exists()


def test_a_command_that_ended_by_itself_before_the_cancel_has_succeeded(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context("true")
    follow = CommandProcess.follow

    def cancelled_at_the_end(process: CommandProcess, grace: float) -> int:
        status = follow(process, grace)
        ctx.cancel("shutdown")
        return status

    monkeypatch.setattr(CommandProcess, "follow", cancelled_at_the_end)
    assert runner.run(ctx).kind == "succeeded"


def test_a_command_is_told_of_a_cancel_that_came_before_it_started(runner: Runner) -> None:
    ctx = context("sleep 600")
    ctx.cancel("shutdown")
    assert runner.run(ctx).kind == "interrupted"


def test_no_zombie_and_no_open_file_is_left(runner: Runner) -> None:
    me = psutil.Process()
    runner.run(context("true"))
    files, children = me.num_fds(), me.children()
    for target in ("true", "exit 3", "kill -KILL $$", "sleep 600 & true"):
        runner.run(context(target))
    runner.run(context(("no-such-program",)))
    assert me.num_fds() == files
    assert me.children() == children


def test_without_descriptors_for_processes_the_end_is_noticed_too(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", missing)
    assert runner.run(context("exec >&- 2>&-; sleep 0.1; exit 3")).error_message == "exit code 3"


def test_many_commands_at_once_keep_their_outputs_apart(runner: Runner) -> None:
    with ThreadPoolExecutor(8) as pool:
        outcomes = pool.map(lambda n: runner.run(context(f"echo {n}; exit 0")), range(24))
    assert [outcome.result for outcome in outcomes] == [str(n) for n in range(24)]


def test_the_last_moment_of_a_process_can_kill_what_still_runs(runner: Runner, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    ctx = context(f"trap '' TERM; echo $$ >> {pids}; while :; do sleep 600; done")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, ctx)
        (pid,) = pids_in(pids, 1)
        assert runner.kill_commands() == 1
        assert running.result(timeout=20).error_type == "KilledBySignal"
    assert not alive(pid)
    assert runner.kill_commands() == 0
    assert runner.run(context("true")).kind == "interrupted"  # nothing is started in that moment


def test_signals_to_the_node_do_not_reach_its_commands(runner: Runner, tmp_path: Path) -> None:
    """Ctrl-C in the terminal is the node's: it drains, and its commands finish."""
    pids = tmp_path / "pids"
    ctx = context(f"echo $$ >> {pids}; sleep 600")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, ctx)
        (pid,) = pids_in(pids, 1)
        assert os.getpgid(pid) == pid != os.getpgrp()
        assert os.getsid(pid) == pid
        os.killpg(pid, signal.SIGKILL)
        assert running.result(timeout=20).error_type == "KilledBySignal"
