"""A C call that holds the interpreter's lock for longer than the lease: a node that cannot check in is rightly given up."""

import signal
from pathlib import Path

import pytest

from support.declared import rows
from support.fired import Fired

HERE = "support.containment_jobs"
FAST = ("--app", HERE, "--check-in", "500ms", "--lease", "1500ms")
JOBS = f"""\
  hold_lock: {{python: "{HERE}:hold_lock", request_recovery: true}}
  hold_lock_in_process: {{python: "{HERE}:hold_lock_in_process", run_in: process}}
  in_thread: {{python: "{HERE}:in_thread"}}
"""
HELD = 5


def in_long_form(database: str) -> object:
    return pytest.param(database, marks=pytest.mark.long)


@pytest.mark.parametrize("database", ["postgresql", in_long_form("mariadb"), in_long_form("sqlite")])
def test_its_node_is_fenced_and_the_firing_recovered_elsewhere(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = str(request.getfixturevalue(f"{database}_url"))
    with Fired(tmp_path, url, JOBS) as stage:
        nodes = {name: stage.node(name, *FAST) for name in ("one", "two")}
        firing = stage.fire("hold_lock", seconds=HELD)
        state, fence, recoveries, note = stage.ended(firing, "state, fence, recoveries, note")
        other = note.partition(",")[0]
        (held,) = nodes.keys() - {other}
        assert (state, fence, recoveries, note) == ("succeeded", 2, 1, f"{other}, told None")
        said = "SELECT outcome, note FROM qsched_attempts WHERE firing_id = ?"
        ((outcome, why),) = rows(stage.store, said, firing)
        assert outcome == "lost"
        assert held in why
        assert "silent" in why
        # the late end of the first body changes nothing, and its node goes on under a new incarnation
        stage.until(lambda: "node.rejoined" in nodes[held].log(), "the node to come back")
        stage.until(lambda: "settle.fenced" in nodes[held].log(), "its end to be refused")
        assert stage.row(firing, "state, fence, note") == ("succeeded", 2, f"{other}, told None")
        nodes[other].signal(signal.SIGTERM)
        assert nodes[other].wait() == 0
        assert stage.ended(stage.fire("in_thread", deed="well"), "state, note") == ("succeeded", "well")


def test_in_a_process_it_costs_its_node_nothing(sqlite_url: str, tmp_path: Path) -> None:
    with Fired(tmp_path, sqlite_url, JOBS) as stage:
        nodes = [stage.node(name, *FAST) for name in ("one", "two")]
        held = [stage.fire("hold_lock_in_process", seconds=3) for _ in range(2)]
        for firing in held:
            state, fence, note = stage.ended(firing, "state, fence, note")
            assert (state, fence, note.endswith("told None")) == ("succeeded", 1, True)
        assert not [node for node in nodes if "node.fenced" in node.log() or "node.dead" in node.log()]
        assert rows(stage.store, "SELECT DISTINCT state FROM qsched_nodes") == [("up",)]
