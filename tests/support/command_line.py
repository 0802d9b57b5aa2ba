"""Running commands in tests, and stores for them to look at."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qsched.scheduler.apply import apply
from qsched.scheduler.store.database import Store
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
