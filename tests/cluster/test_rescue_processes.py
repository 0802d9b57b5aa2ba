"""Real nodes are killed and stopped in the middle of jobs: what they ran is run again, or lost, and finished once."""

import signal
from pathlib import Path

import pytest

from support.nodes import Nodes
from support.takeover import Rivals, states
from support.waiting import wait_until

FAST = "500ms", "3s"


def in_long_form(database: str) -> object:
    """A database that the long form tries too."""
    return pytest.param(database, marks=pytest.mark.long)


@pytest.mark.parametrize("database", ["sqlite", in_long_form("postgresql"), in_long_form("mariadb")])
def test_a_killed_node_is_rescued_by_the_one_that_is_started_in_its_place(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """kill -9 in mid-job, all nodes gone, the same name again (B04); no row says `running` for ever, and nothing is silent."""
    url = str(request.getfixturevalue(f"{database}_url"))
    with Nodes(tmp_path, url) as nodes, Rivals(nodes, "web", pace=FAST) as rivals:
        victim = rivals.start("web-1")
        victim.wait_ready()
        recovers, alone, fragile = rivals.fire("hold"), None, None
        first = rivals.began(recovers)
        fragile = rivals.fire("fragile")
        rivals.began(fragile)
        alone = rivals.fire("hold_alone")  # waits: the node is full
        rivals.kill(victim)
        rivals.start("web-1").wait_ready()
        again = rivals.ended(recovers, 2)
        assert rivals.began(recovers, 2)["recovering"]
        assert (again["slot"], again["trigger"]) == (first["slot"], first["trigger"])
        assert not rivals.began(alone)["recovering"]
        wait_until(lambda: "rescue firings=2" in nodes.all[1].log(), "both to be rescued")
        assert len(rivals.lines("began", fragile)) == 1
        rows = states(nodes.url, "web")
        assert (rows[0]["recovering"], rows[1]["state"]) == (True, "lost")
        assert nodes.all[1].log().count("node.dead") == 1


@pytest.mark.parametrize("database", ["postgresql", in_long_form("mariadb")])
def test_a_node_that_was_stopped_beyond_its_lease_is_told_and_finishes_nothing(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """SIGSTOP, its successor runs and ends, SIGCONT: one completion is accepted, the other body hears `lease_lost`."""
    url = str(request.getfixturevalue(f"{database}_url"))
    with Nodes(tmp_path, url) as nodes, Rivals(nodes, "stop", pace=FAST) as rivals:
        rivals.start_ready(2)
        firing = rivals.fire("hold_alone")
        stopped = rivals.node_of(rivals.began(firing))
        rivals.stop(stopped)
        rivals.ended(firing, 2)
        stopped.signal(signal.SIGCONT)
        assert rivals.ended(firing, 1)["told"] == "lease_lost"
        wait_until(lambda: "node.rejoined" in stopped.log(), "a new life")
        wait_until(lambda: "settle.fenced" in stopped.log(), "its end to be refused")
        (row,) = states(url, "stop")
        assert (row["state"], row["outcome"], row["recovering"]) == ("succeeded", "succeeded", True)
        after = rivals.fire("hold_alone")  # and both go on
        rivals.began(after)


@pytest.mark.long
@pytest.mark.alone
def test_sixteen_bodies_that_never_wait_starve_no_check_in(store_url: str, tmp_path: Path) -> None:
    """Pure Python on every core for two minutes (B05): the check-in has a thread of its own, and nobody is declared dead."""
    with Nodes(tmp_path, store_url) as nodes, Rivals(nodes, "hogs", capacity=16) as rivals:
        busy = rivals.start()
        busy.wait_ready()
        firings = [rivals.fire("hog", seconds=120.0) for _ in range(16)]
        for firing in firings:
            rivals.began(firing)
        rivals.start().wait_ready()
        for firing in firings:
            assert rivals.ended(firing, within=300)["told"] is None
        assert "node.dead" not in "".join(node.log() for node in nodes.all)
        assert "node.untrusted" not in busy.log()
