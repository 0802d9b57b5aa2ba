"""Commands run in this process or a new one, and stores for them to look at; a plugin that brings the fixtures."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from qsched.cli.main import run
from qsched.scheduler.apply import apply
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.scheduler.store.tables import metadata
from qsched.triggers.declaration import load_text
from qsched.triggers.instant import SECOND

NOW = 1_576_713_600 * SECOND
"""Thursday 2019-12-19T00:00:00Z: what the stores of these tests were filled at."""

START = "import sys; sys.path[:1] = []; from qsched.cli.main import main; main()"


@dataclass(frozen=True)
class Said:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def items(self) -> list[dict[str, Any]]:
        """The items of a JSON answer."""
        document = json.loads(self.out)
        assert document["apiVersion"] == "qsched/v1"
        return list(document["items"])


Command = Callable[..., Said]


def clean_environment(**extra: str) -> dict[str, str]:
    """This environment without qsched's own variables, and with `extra`."""
    return {name: value for name, value in os.environ.items() if not name.startswith("QSCHED_")} | extra


@dataclass
class Filled:
    """A store with some triggers, open for tests that write rows as nodes would."""

    url: str
    store: Store

    def declare(self, text: str) -> None:
        """Apply a declaration."""
        apply(self.store, load_text(text, now=NOW))

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """Run a statement in a transaction of its own."""

        def work(tx: Any) -> list[Any]:
            result = tx.run(statement, *values)
            return list(result) if result.returns_rows else []

        return self.store.transaction("test", work)

    def trigger_id(self, name: str) -> int:
        return int(self.sql("SELECT id FROM qsched_triggers WHERE name = ?", name)[0][0])

    def firing(self, trigger: str, **columns: Any) -> int:
        """Insert a firing of `trigger` as a node would have left it."""
        found = self.sql("SELECT id, job_id, cluster FROM qsched_triggers WHERE name = ?", trigger)[0]
        row: dict[str, Any] = {
            "cluster": found[2],
            "trigger_id": found[0],
            "job_id": found[1],
            "trigger_name": trigger,
            "job_name": "j",
            "scheduled_at": NOW,
            "covers": 1,
            "reason": "schedule",
            "state": "succeeded",
            "precedence": 95,
            "fence": 1,
            "attempt": 0,
            "refires": 0,
            "recoveries": 0,
            "request_recovery": 0,
            "max_recoveries": 3,
            **columns,
        }
        at = row["scheduled_at"]
        row = {"first_scheduled_at": at, "run_at": at, "noticed_at": at, **row}
        names = ",".join(row)
        marks = ",".join("?" * len(row))
        self.sql(f"INSERT INTO qsched_firings ({names}) VALUES ({marks})", *row.values())
        return int(self.sql("SELECT max(id) FROM qsched_firings")[0][0])

    def clock(self, trigger: str, **columns: Any) -> None:
        """Set columns of a trigger's clock row."""
        sets = ",".join(f"{name} = ?" for name in columns)
        self.sql(
            f"UPDATE qsched_trigger_clocks SET {sets} WHERE id = ?",
            *columns.values(),
            self.trigger_id(trigger),
        )


SHOP = """
qsched: 1
namespace: shop
jobs: {j: {command: "true"}, r: {python: "no.such.module:rates", request_recovery: true, timeout: 10m, overlap: skip}}
triggers:
  nightly: {job: j, cron: "0 2 * * 0", time_zone: Europe/Istanbul}
  hourly: {job: r, quartz: "0 0 * * * ?", group: billing, paused: true}
"""


def misfired(filled: Filled) -> int:
    """A trigger of nine missed slots, as the planner would have left it; answers the firing's id."""
    filled.declare(SHOP)
    slot = NOW - 5 * SECOND
    number = filled.firing(
        "nightly",
        scheduled_at=slot,
        first_scheduled_at=slot - 80 * SECOND,
        covers=9,
        reason="misfire",
        noticed_at=NOW,
        first_started_at=NOW + SECOND // 2,
        started_at=NOW + SECOND // 2,
        finished_at=NOW + 2 * SECOND,
        outcome="failed",
        state="failed",
        error='{"type": "builtins.OSError", "message": "no route"}',
        misfire_cause="node_down",
        misfire_policy="fire_once",
        misfire_decision="ran the last of 9",
        note="retries exhausted",
    )
    filled.clock("nightly", fires=1, misfires=9, last_fire_at=slot, last_misfire_at=slot)
    return number


def copies(table: str, columns: str, values: str, count: int, of: int) -> str:
    """SQL that copies row `of` of a table `count` times, with other `values` in `columns`."""
    changed = dict(zip(columns.split(", "), values.split(", "), strict=True))

    names = [column.name for column in metadata.tables[table].columns]
    chosen = ", ".join(changed.get(name, name) for name in names)
    return (
        f"INSERT INTO {table} ({', '.join(names)}) WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k"
        f" WHERE n < {count}) SELECT {chosen} FROM {table}, k WHERE id = {of}"
    )


@pytest.fixture
def qsched(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sqlite_url: str
) -> Command:
    """Run a command line in this process, in a folder of its own, on `sqlite_url`."""
    for name in [name for name in os.environ if name.startswith("QSCHED_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("QSCHED_STORE", sqlite_url)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Said:
        capfd.readouterr()
        code = run(arguments)
        said = capfd.readouterr()
        return Said(code, said.out, said.err)

    return call


@pytest.fixture
def qsched_process(tmp_path: Path, sqlite_url: str) -> Command:
    """Run a command line as a process of its own, as a shell does."""

    def call(*arguments: str, **environment: str) -> Said:
        ran = subprocess.run(
            [sys.executable, "-c", START, *arguments],
            cwd=tmp_path,
            env=clean_environment(QSCHED_STORE=sqlite_url, **environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Said(ran.returncode, ran.stdout, ran.stderr)

    return call


@pytest.fixture
def filled(sqlite_url: str, made_sqlite: Path) -> Iterator[Filled]:
    """A store, empty if no command made it, whose clock stands at NOW."""
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    if not path.exists():  # what a command made before is kept
        shutil.copy(made_sqlite, path)
    store = open_store(sqlite_url, create=True, now=lambda: NOW)
    yield Filled(sqlite_url, store)
    store.close()
