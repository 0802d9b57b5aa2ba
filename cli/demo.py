"""`qsched demo`: triggers fire, the node is stopped until slots are missed, and the misfires are shown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ..triggers.instant import SECOND
from .exits import FAILED, CommandError
from .render import say
from .settings import Settings
from .tree import command

if TYPE_CHECKING:
    from ..scheduler.store.database import Store

DECLARATION: Final = """\
qsched: 1
namespace: demo
jobs:
  greet:       {python: "qsched.cli.demo_jobs:greet"}
  count_stock: {python: "qsched.cli.demo_jobs:count_stock"}
triggers:
  hello:    {job: greet, every: 2s, data: {name: demo}}
  stock:    {job: count_stock, quartz: "0/3 * * * * ?", misfire: {policy: fire_once, threshold: 2s}}
  beat:     {command: "echo still alive", every: 1s, misfire: {policy: skip, threshold: 2s}}
  invoices: {job: greet, cron: "15 2 * * mon-fri", time_zone: Europe/Istanbul, data: {name: night}}
"""

STORE: Final = "demo.db"
_PATIENCE: Final = 15.0
_LOOK: Final = 0.1
_FIRINGS: Final = 8
_AGAIN: Final = 4
_MISFIRING: Final = ("stock", "beat")
_MISSED: Final = 4 * SECOND


@command("demo")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep everything there.  [default: a temporary folder]",
)
@click.pass_context
def demo(context: click.Context, folder: Path | None) -> None:
    """Apply a declaration to an SQLite store, run a node, stop it until slots are missed, run it again.

    Ends by printing `qsched triggers list`, where the misfires are seen. Takes about half a minute.
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        _run(context, folder.resolve())
        return
    with tempfile.TemporaryDirectory(prefix="qsched-demo-") as made:
        _run(context, Path(made))


def _run(context: click.Context, folder: Path) -> None:
    settings: Settings = context.obj
    settings.store, settings.cluster = f"sqlite:///{folder / STORE}", "default"
    file = folder / "qsched.yaml"
    file.write_text(DECLARATION, encoding="utf-8")
    show = Stage(folder, settings)
    _step(f"The declaration, {file}:")
    say(DECLARATION)
    _step("qsched node -f qsched.yaml --name first       (applies the file, and triggers fire)")
    with show.node("first"):
        show.watch(f"{_FIRINGS} firings", lambda: show.succeeded() >= _FIRINGS)
    _step("No node runs now. Slots are missed …")
    show.watch("slots to be missed", lambda: show.behind() > _MISSED)
    before = show.misfires()
    _step("qsched node -f qsched.yaml --name second      (misfires are noticed)")
    with show.node("second"):
        show.watch("the misfires", lambda: all(show.misfires()[name] > before[name] for name in _MISFIRING))
        ran = show.succeeded()
        show.watch("firings that are on time again", lambda: show.succeeded() >= ran + _AGAIN)
    _step("qsched misfires list")
    show.qsched("misfires", "list", "--limit", "5")
    _step("qsched triggers list")
    from .trigger_list import list_triggers

    context.invoke(list_triggers, group=None, retired=False)


def _step(text: str) -> None:
    say(f"\n── {text}")


@dataclass
class Stage:
    """The demo's folder: runs commands in it, and watches its store."""

    folder: Path
    settings: Settings
    running: subprocess.Popen[bytes] | None = None
    open_store: Store | None = None

    def _command(self, *arguments: str) -> list[str]:
        # Not `-m qsched` in whatever folder this was started: a folder named qsched there would be imported.
        start = "import sys; sys.path[:1] = []; from qsched.cli.main import main; main()"
        return [sys.executable, "-c", start, "--store", self.settings.store, *arguments]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("QSCHED_")}
        return kept | {"QSCHED_LOG": "text"}

    def qsched(self, *arguments: str) -> None:
        """Run one command to its end, its answer among the talk."""
        ran = subprocess.run(
            self._command(*arguments), cwd=self.folder, env=self._environment(), stdout=2, check=False
        )
        if ran.returncode != 0:
            raise CommandError(f"`qsched {' '.join(arguments)}` ended with {ran.returncode}", code=FAILED)

    @contextmanager
    def node(self, name: str) -> Iterator[None]:
        """A node in a process of its own, drained at the end of the block."""
        command = self._command(
            "node", "-f", "qsched.yaml", "--name", name, "--app", "qsched.cli.demo_jobs", "--verbose"
        )
        child = subprocess.Popen(
            command, cwd=self.folder, env=self._environment(), stdin=subprocess.DEVNULL, stdout=2
        )
        self.running = child
        try:
            yield
            child.send_signal(signal.SIGTERM)
            child.wait(timeout=_PATIENCE)
        finally:
            self.running = None
            if child.poll() is None:
                child.kill()
                child.wait()

    def watch(self, what: str, true: Callable[[], bool]) -> None:
        """Look at the store until something is true; a node that ended meanwhile will not make it so."""
        from ..scheduler.clock import SystemClock

        clock, never = SystemClock(), threading.Event()
        until = clock.monotonic() + _PATIENCE
        while not true():
            if self.running is not None and (code := self.running.poll()) is not None:
                raise CommandError(f"the node ended with {code}", code=FAILED)
            if clock.monotonic() > until:
                raise CommandError(f"waited {_PATIENCE:.0f} s in vain for {what}", code=FAILED)
            clock.wait(never, _LOOK)

    def _store(self) -> Store:
        if self.open_store is None:
            self.open_store = self.settings.reading()
        return self.open_store

    def succeeded(self) -> int:
        """How many firings succeeded."""
        from ..scheduler.errors import StoreError
        from ..scheduler.store.firing_reports import Wanted, firings

        if not (self.folder / STORE).exists():  # the first node makes it
            return 0
        try:
            return len(list(firings(self._store(), Wanted(state="succeeded"))))
        except StoreError:
            return 0

    def misfires(self) -> dict[str, int]:
        """{trigger: its misfired slots}."""
        from ..scheduler.store.reports import triggers

        return {item["name"]: item["misfires"] for item in triggers(self._store())}

    def behind(self) -> int:
        """By how much the trigger that waits longest is behind, in µs."""
        from ..scheduler.store.reports import database_now, triggers
        from .rows import instant_of

        store = self._store()
        due = [at for item in triggers(store) if (at := instant_of(item["next_fire_at"])) is not None]
        return database_now(store) - min(due)
