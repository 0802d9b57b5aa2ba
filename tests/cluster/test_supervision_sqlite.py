"""A node whose SQLite file is locked by somebody, or moved away, for a while: it says so, and goes on by itself."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from qsched.scheduler.clock import SystemClock

from qsched import Node
from support.ledger import Ledger
from support.nodes import JOBS
from support.waiting import wait_until

YAML = """
qsched: 1
jobs:
  note: {{python: "{jobs}:note", data: {{ledger: "{ledger}"}}}}
triggers:
  tick: {{job: note, every: 1s}}
"""


class Scene:
    """One embedded node with a trigger each second."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(folder / "ledger")
        self.database = folder / "qsched.db"
        file = folder / "qsched.yaml"
        file.write_text(YAML.format(jobs=JOBS, ledger=self.ledger.path))
        # A short lease: what holds the file for a quarter of it is trouble.
        self.node = Node(f"sqlite:///{self.database}", app=[JOBS], files=(file,), lease="4s")
        self.node.start()
        assert self.node.wait_ready(60)
        self.wait_for_a_tick()

    def wait_for_a_tick(self) -> None:
        """Until the trigger fires again."""
        since = SystemClock().wall()
        wait_until(
            lambda: any(line["began"] > since for line in self.ledger.lines("ran")), "a tick", within=60
        )

    def lock(self) -> Callable[[], None]:
        other = sqlite3.connect(self.database, isolation_level=None, timeout=5)
        other.execute("BEGIN IMMEDIATE")
        return other.close

    def move_away(self) -> Callable[[], None]:
        away = self.database.with_name("elsewhere.db")

        def move(here: Path, there: Path) -> None:
            for suffix in ("", "-wal", "-shm"):
                here.with_name(here.name + suffix).rename(there.with_name(there.name + suffix))

        move(self.database, away)
        return lambda: move(away, self.database)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.node.stop(now=True)


@pytest.mark.parametrize("trouble", ["lock", "move_away"])
def test_a_file_that_is_out_of_reach_for_a_while_costs_time_and_nothing_else(
    scene: Scene, trouble: str
) -> None:
    incarnation = scene.node.incarnation
    mend = getattr(scene, trouble)()
    wait_until(lambda: "check-in" in scene.node.health(), "the node to see that it is ill")
    assert not scene.database.exists() or trouble == "lock"  # nobody made another one
    mend()
    scene.wait_for_a_tick()
    wait_until(lambda: not scene.node.health(), "it to be well again")
    assert scene.node.incarnation == incarnation
    ran = [line["slot"] for line in scene.ledger.lines("ran")]
    assert len(ran) == len(set(ran))
    with closing(sqlite3.connect(scene.database)) as reader:
        decided = reader.execute("SELECT scheduled_at, covers FROM qsched_firings ORDER BY 1").fetchall()
    slots = [slot for slot, _ in decided]
    assert len(slots) == len(set(slots))
    assert sum(covers for _, covers in decided) >= (slots[-1] - slots[0]) // 1_000_000
