"""Whatever a body does, its node lives, checks in and runs the next job, and the row tells the truth."""

import json
from pathlib import Path

import pytest

from support.declared import rows
from support.fired import Fired

HERE = "support.containment_jobs"
JOBS = f"""\
  in_thread: {{python: "{HERE}:in_thread"}}
  in_process: {{python: "{HERE}:in_process"}}
  on_loop: {{python: "{HERE}:on_loop"}}
"""
RAISES = {
    "system_exit": ("failed", "SystemExit", "3"),
    "keyboard_interrupt": ("failed", "KeyboardInterrupt", ""),
    "memory_error": ("failed", "MemoryError", ""),
    "generator_exit": ("failed", "GeneratorExit", ""),
    "bottom": ("failed", "Bottom", "deep"),
    "mute": ("failed", "Mute", "<its text cannot be shown: __str__ raised RuntimeError>"),
    "deadly": ("failed", "Deadly", "the error could not be read"),
    "holder": ("failed", "Holder", "holds a lock"),
    "group": ("failed", "BaseExceptionGroup", "two (2 sub-exceptions)"),
    "recursion": ("failed", "RecursionError", "maximum recursion depth exceeded"),
}
RETURNS = {
    "returns_lock": ("succeeded", "<lock: not stored, JSON cannot carry it>"),
    "returns_shy": ("succeeded", "<list: not stored, JSON cannot carry it>"),
    "returns_nan": ("succeeded", '{"rate": NaN}'),
    "leave_threads": ("succeeded", "left"),
}
IN_A_PROCESS = {
    "leave": ("failed", "ExitCode", "its process died: exit code 3"),
    "abort": ("failed", "KilledBySignal", "its process died: ended by SIGABRT"),
    "segfault": ("failed", "KilledBySignal", "its process died: ended by SIGSEGV"),
    "hide_errors": ("failed", "SystemExit", "4"),
}
RETURNS_IN_A_PROCESS = {"close_streams": ("succeeded", "closed"), "rebind": ("succeeded", "rebound")}


def told(stage: Fired, firing: int) -> tuple[str, ...]:
    """State, then the error's type and message, or what was returned."""
    state, error, note = stage.ended(firing, "state, error, note")
    if error is None:
        return state, note
    said = json.loads(error)
    return state, said["type"], said["message"]


@pytest.mark.parametrize("job", ["in_thread", "on_loop", "in_process"])
def test_the_node_outlives_whatever_a_body_does_and_says_it(
    job: str, sqlite_url: str, tmp_path: Path
) -> None:
    expected: dict[str, tuple[str, ...]] = {**RAISES, **RETURNS}
    if job == "in_process":
        expected |= {**IN_A_PROCESS, **RETURNS_IN_A_PROCESS}
    else:
        expected["hide_errors"] = ("failed", "SystemExit", "4")
    with Fired(tmp_path, sqlite_url, JOBS) as stage:
        node = stage.node("one", "--app", HERE, "--check-in", "500ms", "--lease", "5s")
        fired = {deed: stage.fire(job, deed=deed) for deed in expected}
        found = {deed: told(stage, firing) for deed, firing in fired.items()}
        for deed, words in expected.items():
            assert found[deed][:2] == words[:2], deed
            assert found[deed][-1].startswith(words[-1]), deed
        assert told(stage, stage.fire("in_thread", deed="well")) == ("succeeded", "well")
        assert rows(stage.store, "SELECT incarnation, state FROM qsched_nodes") == [(1, "up")]
        checked_in = "SELECT renew_seq FROM qsched_nodes"
        before = rows(stage.store, checked_in)
        stage.until(lambda: rows(stage.store, checked_in) > before, "a further check-in")
        assert stage.nodes.stop() == [0]
        assert "node.fenced" not in node.log()


def test_a_module_that_leaves_when_it_is_imported_costs_only_its_own_job(
    sqlite_url: str, tmp_path: Path
) -> None:
    yaml = f'  leaves: {{python: "support.exits_at_import:work"}}\n  well: {{python: "{HERE}:in_thread"}}'
    with Fired(tmp_path, sqlite_url, yaml) as stage:
        stage.node("one", "-f", str(stage.file), "--check-in", "500ms", "--lease", "5s")
        firing = stage.fire("leaves")
        assert told(stage, stage.fire("well", deed="well")) == ("succeeded", "well")
        said = "SELECT unloadable FROM qsched_nodes"
        stage.until(
            lambda: "SystemExit" in str(rows(stage.store, said)), "the node to say why it cannot load it"
        )
        assert "cannot import support.exits_at_import" in str(rows(stage.store, said))
        assert stage.row(firing) == ("due", None)  # left to a node that can
        assert stage.nodes.stop() == [0]
