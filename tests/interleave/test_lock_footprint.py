"""What a take locks, and what an error leaves: the two places where one server behaves as the other does not."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from qsched.scheduler.control import fire
from qsched.scheduler.errors import ConstraintHit
from qsched.scheduler.store.take_rows import Wanted, lock_due_clocks, lock_due_firings, lock_startless_clocks
from qsched.scheduler.store.tx import Tx

from support.hand_node import START, World, every, python

DUE = 60
TAKEN = 7


@pytest.fixture(params=["postgresql", "mariadb"])
def due_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Sixty triggers and sixty requests that are due, at many instants and of many priorities."""
    made = request.getfixturevalue(f"made_{request.param}")
    made.empty()
    with ExitStack() as stack:
        world = World(made.url)
        stack.callback(world.close)
        jobs = [python("report"), python("skip", overlap="skip")]
        world.apply(
            *(every(f"t{n}", 5 + n % 9, priority=1 + n % 7, job="skip") for n in range(DUE)), jobs=jobs
        )
        for n in range(DUE):
            fire(world.store, f"t{(n * 7) % DUE}", request_key=str(n))
            world.pass_time(0.25)
        yield world


LOCKS: dict[str, Callable[[Tx, int, Wanted], list[object]]] = {
    "lock_due_clocks": lock_due_clocks,  # type: ignore[dict-item]
    "lock_startless_clocks": lock_startless_clocks,  # type: ignore[dict-item]
    "lock_due_firings": lock_due_firings,  # type: ignore[dict-item]
}


@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS.keys())
def test_a_take_locks_what_it_takes_and_nothing_else(
    due_world: World, lock: Callable[[Tx, int, Wanted], list[object]]
) -> None:
    """Through a sort MariaDB would lock every due row, and the other nodes would find none."""
    world = due_world
    other = world.open()

    def hold(tx: Tx) -> tuple[int, int]:
        mine = lock(tx, world.time, Wanted(TAKEN))
        theirs = other.transaction("others", lambda inner: lock(inner, world.time, Wanted(10 * DUE)))
        assert not set(mine) & set(theirs)
        return len(mine), len(theirs)

    try:
        assert world.time > START + DUE // 4
        assert world.store.transaction("hold", hold) == (TAKEN, DUE - TAKEN)
    finally:
        other.close()


def test_a_unique_key_undoes_what_was_inserted_before_it(due_world: World) -> None:
    """MariaDB undoes only the statement that failed, keeps its lock, and would commit the rest."""
    world = due_world
    other = world.open()

    def insert(tx: Tx) -> None:
        tx.run("INSERT INTO qsched_clusters (name, uuid, created_at) VALUES ('earlier', 'u', 1)")
        tx.run("INSERT INTO qsched_clusters (name, uuid, created_at) VALUES ('default', 'u', 1)")

    with pytest.raises(ConstraintHit):
        world.store.transaction("insert", insert)
    try:
        names = "SELECT name FROM qsched_clusters"
        assert world.sql(names) == [("default",)]
        touch = "UPDATE qsched_clusters SET epoch = 0 WHERE name = 'default'"
        other.transaction("touch", lambda tx: tx.run(touch) and None, patience=0.0)
        assert world.sql(names) == [("default",)]
    finally:
        other.close()
