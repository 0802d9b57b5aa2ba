"""Two triggers that fire each second for a day of clock: the ledger stays small, and taking costs what it did (B65)."""

import json
import logging
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from qsched.triggers.instant import HOUR, MINUTE, SECOND

from support.hand_node import HandNode, World, every
from support.history import HurriedClock, Row, prune, pruner_of, remember

log = logging.getLogger(__name__)

QUARTER = 15 * MINUTE
DRIVEN = 10
"""Seconds of each step whose slots are really decided, run and settled; the others are put into the ledger."""
FAILS = 100
"""One slot of so many fails."""


class Hands:
    """The world's time as `prune` moves it."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def instant(self) -> int:
        return self._world.time

    @instant.setter
    def instant(self, value: int) -> None:
        self._world.pass_time((value - self._world.time) / SECOND)


class Day:
    """A cluster of one node and two triggers, of which so many rows are kept, step by step."""

    def __init__(self, world: World, kept: int, step: int) -> None:
        self.world = world
        self.kept = kept
        self.step = step
        self.clock = HurriedClock()
        world.apply(every("a", 1), every("b", 1), cluster_defaults={"retention": {"per_trigger": kept}})
        self.node: HandNode = world.node()
        self.pruner = pruner_of(world.store, clock=self.clock)
        rows = world.sql("SELECT id, job_id FROM qsched_triggers WHERE cluster = ?", world.store.cluster_id)
        self.triggers = [(row[0], row[1]) for row in rows]
        self.longest: list[float] = []
        self.takes: list[float] = []
        """How long each driven second's takes took (s)."""
        self.most = self.rows = 0

    def passes(self, steps: int) -> None:
        """So many steps pass, and the pruner goes about its chore behind each."""
        for _ in range(steps):
            self._passes()

    def _passes(self) -> None:
        world = self.world
        first = world.time // SECOND * SECOND + SECOND
        last = first + self.step - (DRIVEN + 1) * SECOND
        slots = range(first, last, SECOND)
        world.pass_time((last - world.time - SECOND) / SECOND)
        remember(
            world.store,
            [
                Row(
                    at,
                    trigger,
                    job,
                    "failed" if at // SECOND % FAILS == 0 else "succeeded",
                    took=SECOND // 50,
                )
                for at in slots
                for trigger, job in self.triggers
            ],
        )
        world.sql(
            "UPDATE qsched_trigger_clocks SET watermark = ?, next_fire_at = ?, next_run_at = ?, version = version + 1"
            " WHERE cluster = ?",
            *(last - SECOND, last, last, world.store.cluster_id),
        )
        self.takes += [self.second() for _ in range(DRIVEN)]
        prune(world.store, Hands(world), self.pruner)
        self.look()

    def second(self) -> float:
        self.world.pass_time(1)
        began = self.clock.monotonic()
        taken = self.node.turn()
        took = self.clock.monotonic() - began
        assert len(taken) == 2
        self.node.run()
        return took

    def look(self) -> None:
        """What the pruner says it did last."""
        ((text,),) = self.world.sql(
            "SELECT said FROM qsched_chores WHERE cluster = ? AND name = 'prune'", self.world.store.cluster_id
        )
        said = json.loads(text)
        if said["total"] > self.rows:
            self.rows = said["total"]
            self.most = max(self.most, said["most"])
            self.longest.append(said["longest_ms"])

    def left(self, state: str) -> list[int]:
        """How many rows of a state each trigger has."""
        return [
            row[0]
            for row in self.world.sql(
                "SELECT COUNT(*) FROM qsched_firings WHERE cluster = ? AND state = ? GROUP BY trigger_id",
                *(self.world.store.cluster_id, state),
            )
        ]


@pytest.fixture
def own_world(made_sqlite: Path, tmp_path: Path) -> Iterator[World]:
    world = World(f"sqlite:///{shutil.copy(made_sqlite, tmp_path / 'day.db')}")
    yield world
    world.close()


def test_a_day_of_two_one_second_triggers_leaves_twenty_thousand_rows(
    own_world: World, made_sqlite: Path, tmp_path: Path, long_form: bool
) -> None:
    day = Day(own_world, 10_000, QUARTER if long_form else HOUR)
    day.passes(96 if long_form else 24)
    assert day.rows + sum(day.left("succeeded")) + sum(day.left("failed")) >= 172_000
    assert day.left("failed") >= [850, 850]  # all of them: failures go last
    judge(day, long_form=long_form)
    young = World(f"sqlite:///{shutil.copy(made_sqlite, tmp_path / 'young.db')}")
    ratio = compared(day, Day(young, 10_000, QUARTER), 300 if long_form else 20)
    young.close()
    log.warning("takes with 20,000 rows of history: %.2f × those with next to none", ratio)
    if long_form:  # else it is for show: a busy machine measures its neighbours
        assert ratio < 1.3


def test_it_is_so_on_a_server(server_world: World, long_form: bool) -> None:
    day = Day(server_world, 10_000 if long_form else 1000, QUARTER)
    day.passes(96 if long_form else 6)
    judge(day, long_form=long_form)
    if long_form:
        ratio = statistics.median(day.takes[-200:]) / statistics.median(day.takes[:20])
        log.warning("takes with 20,000 rows of history: %.2f × the first", ratio)
        assert ratio < 1.5


def judge(day: Day, *, long_form: bool) -> None:
    assert [n + m for n, m in zip(day.left("succeeded"), day.left("failed"), strict=True)] == [day.kept] * 2
    assert day.most <= 1000
    log.warning("longest transaction of a prune: %.0f ms", max(day.longest))
    assert (max(day.longest) if long_form else statistics.median(day.longest)) <= 200


def compared(old: Day, young: Day, seconds: int) -> float:
    """How much longer taking takes in the one than in the other, side by side: what else the machine does meets both."""
    old.takes, young.takes = [], []
    for _ in range(seconds):
        for day in (old, young):
            day.takes.append(day.second())
    return statistics.median(old.takes) / statistics.median(young.takes)
