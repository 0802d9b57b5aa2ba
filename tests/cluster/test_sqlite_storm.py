"""An SQLite file that others write to flat out, or hold for seconds: nothing is missed and nobody is declared dead (B67, E6)."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from qsched.triggers.instant import SECOND

from support.acceptance import four_nodes, run_for, write_yaml
from support.hand_node import World
from support.nodes import Nodes
from support.waiting import wait_until


def storm(nodes: Nodes, name: str, file: Path, seconds: float, hold: float, pause: float) -> None:
    """Start a process that writes to the file."""
    words = [str(seconds), str(hold), str(pause)]
    nodes.launch(name, [sys.executable, "-m", "support.sqlite_storm", str(file), *words])


def test_every_check_in_lands_while_other_processes_write_flat_out(tmp_path: Path) -> None:
    file = tmp_path / "qsched.db"
    world = World(f"sqlite:///{file}")
    node = world.node()
    # A reader of its own: what the test asks never waits for a writer, and so is no part of what it judges.
    with Nodes(tmp_path, world.url) as nodes, closing(sqlite3.connect(file)) as reader:
        for number in range(3):
            storm(nodes, f"writer{number}", file, 60, 0, 0)
        written = "SELECT MAX(id) FROM storm"
        there = "SELECT 1 FROM sqlite_master WHERE name = 'storm'"
        wait_until(lambda: reader.execute(there).fetchall(), "the storm")
        before = reader.execute(written).fetchone()[0] or 0
        (first,) = reader.execute("SELECT renew_seq FROM qsched_nodes").fetchone()
        for number in range(15):
            world.pass_time(1)
            node.check_in.step()
            seen = reader.execute("SELECT renew_seq, lease_until FROM qsched_nodes").fetchall()
            assert seen == [(first + number + 1, world.time + 15 * SECOND)]
        assert reader.execute(written).fetchone()[0] - before > 15  # it was a storm
    world.close()


@pytest.mark.long
def test_four_nodes_miss_nothing_beside_a_process_that_holds_the_file(
    sqlite_url: str, tmp_path: Path
) -> None:
    file, keys = write_yaml(tmp_path, triggers=50)
    seconds, hold, pause = 60, 3.0, 7.0
    with Nodes(tmp_path, sqlite_url) as nodes:
        four_nodes(nodes, file)
        storm(nodes, "holder", Path(sqlite_url.removeprefix("sqlite:///")), seconds + 3, hold, pause)
        result = run_for(nodes, keys, seconds, working=4)
    judged = result.judgement
    assert (judged.missing, judged.double, judged.strange, judged.early) == (set(), set(), set(), 0)
    assert (result.rows_missing, result.rows_double) == (0, 0)
    assert result.troubles == []
    assert set(result.exit_codes[:4]) == {0}
