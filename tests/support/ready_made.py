"""Processes that need no time to load: one that has loaded all of qsched forks for each command line or script it is given.

What runs is a process of its own, with its own folder, environment and output; only the loading, which takes most of a second
and is the same each time, is done once.
"""

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

_TESTS = Path(__file__).resolve().parents[1]


class ReadyMade:
    """The process that forks; ended with its `with` block, which ends nothing that was begun and not waited for."""

    def __init__(self) -> None:
        load = f"import sys; sys.path[:1] = [{str(_TESTS)!r}]; from {__name__} import serve; serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", load], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def begin(self, what: Sequence[str] | str, folder: Path, env: Mapping[str, str], output: Path) -> int:
        """Start a command line (its arguments) or a script (its text); answers its process id."""
        return self._ask(
            what=what if isinstance(what, str) else list(what),
            folder=str(folder),
            env=dict(env),
            output=str(output),
        )

    def wait(self, pid: int) -> int:
        """Wait for the end of what was begun; answers its exit code."""
        return self._ask(wait=pid)

    def _ask(self, **request: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(request)}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def serve() -> None:
    """Fork for each line of standard input, until it ends."""
    _load()
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        elif (answer := os.fork()) == 0:
            _become(request)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _load() -> None:
    from qsched.cli.main import COMMANDS

    import qsched

    for leaf in COMMANDS.values():
        import_module(f"qsched.cli.{leaf.place.partition(':')[0]}")
    for name in qsched.__all__:
        getattr(qsched, name)
    for module in ("apply", "plan", "control", "store.firing_reports", "store.reports", "store.schema"):
        import_module(f"qsched.scheduler.{module}")
    for module in ("psycopg", "alembic.command", "qsched.triggers.declaration"):
        import_module(module)


def _become(request: Mapping[str, Any]) -> NoReturn:
    code = 1
    try:
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["env"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        written = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(written, stream)
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        code = _run(request["what"])
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _run(what: list[str] | str) -> int:
    if isinstance(what, list):
        from qsched.cli.main import run

        return run(what)
    sys.path.insert(0, os.getcwd())
    exec(compile(what, "<document>", "exec"), {"__name__": "__main__"})
    return 0
