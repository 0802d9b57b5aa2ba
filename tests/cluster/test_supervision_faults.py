"""Each statement of each loop fails for a while, in each way, and heals: every loop works again, and nothing is lost."""

from collections.abc import Callable

import pytest
from qsched.scheduler.store.dialects import SQLITE

from support.busy_node import BusyNode
from support.hand_node import World
from support.statement_faults import COMMIT

HANG = 10.0
LOCKED = {
    "qsched_nodes": "renew_seq",
    "qsched_clusters": "epoch",
    "qsched_jobs": "id",
    "qsched_trigger_clocks": "version",
    "qsched_firings": "fence",
}
"""The tables whose rows are locked, and a column of each."""
SHARE = {"landed": 2, "lost": 3, "hang": 5, "bug": 5, "exit": 5}
"""The short form takes each so manieth statement."""


def _faults(scene: BusyNode, way: str, until: float) -> Callable[[], None]:
    """What befalls a statement until the time `until`."""

    def befall() -> None:
        if scene.world.elapsed >= until:
            return
        if way == "hang":
            scene.world.pass_time(HANG)
        if way == "bug":
            raise RuntimeError("a bug")
        if way == "exit":
            raise SystemExit
        scene.faults.lost()

    return befall


@pytest.mark.parametrize("way", ["lost", "hang", "landed", "bug", "exit"])
def test_every_statement_of_every_loop_may_fail_for_a_while(world: World, way: str, long_form: bool) -> None:
    scene = BusyNode(world)
    scene.live(8)
    scene.someone_dies()
    scene.live(8)
    statements = list(scene.faults.heard)
    outage = 60.0 if long_form else 6.0
    # A row that met a bug is left alone for up to a minute; after a minute of that it is in error, which clears in another.
    within = (160.0 if long_form else 75.0) if way == "bug" else 15.0
    if way == "landed":
        scene.faults.landed = True
        statements = [statement for statement in statements if statement.startswith(COMMIT)]
    if not long_form:
        statements = statements[:: SHARE[way] if world.store.dialect is SQLITE else len(statements)]
    for statement in statements:
        scene.someone_dies()
        scene.faults.fault = _faults(scene, way, world.elapsed + outage)
        scene.faults.failing, scene.faults.met = statement, 0
        scene.live(outage)
        scene.faults.failing = None
        scene.all_work_again(within, f"{way}, {scene.faults.met} times: {statement}")
        scene.nothing_is_lost_or_doubled()
    scene.nothing_is_stuck(within + 5.0)
    if way == "lost" and len(statements) > 20:
        assert scene.reds == scene.loops.keys() - {
            "settler"
        }  # which waits within its step, and is well again after it


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_a_hundred_errors_at_any_statement_leave_no_lock_behind(
    world: World, error: type[BaseException]
) -> None:
    """B50: nobody waits for what a failed step had locked, in this process or in the database."""
    scene = BusyNode(world)
    scene.live(8)
    statements = list(scene.faults.heard)
    met: list[str] = []

    def befall() -> None:
        if not met:
            met.append(str(scene.faults.failing))
            raise error

    def probe() -> None:
        """Whatever the failed step had locked, others can lock at once."""
        if met and met[0] != "probed":
            met[0] = "probed"
            for table, column in LOCKED.items():
                world.sql(f"UPDATE {table} SET {column} = {column} + 1 - 1")

    scene.faults.fault, scene.after_step = befall, probe
    probed = 0
    for number in range(100):
        met.clear()
        scene.faults.failing = statements[number % len(statements)]
        scene.live(0.5)
        probed += bool(met)
    assert probed > 40
    assert scene.node.store.gate._holder is None
