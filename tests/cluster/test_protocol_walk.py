"""Random walks of three nodes through everything that can happen to them: the ledger keeps its promises at every step."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qsched.scheduler.context import RunRequest
from qsched.scheduler.control import fire, pause, resume
from qsched.scheduler.errors import StoreUnavailable
from qsched.scheduler.outcome import Outcome
from qsched.triggers.instant import SECOND
from qsched.triggers.misfire import MisfireRule
from qsched.triggers.retry import RetryPolicy

from support.faults import Faults
from support.hand_node import START, World, every, python

GAPS = {
    "allow": 10,
    "queue_a": 10,
    "queue_b": 15,
    "skip": 10,
    "cancel": 20,
    "all": 10,
    "late_skip": 10,
    "queue_all": 10,
}
RETRY = RetryPolicy.fixed(2, "3s")
JOBS = [
    python("allow", retry=RETRY, request_recovery=True),
    python("queue", overlap="queue", retry=RETRY, request_recovery=True),
    python("skip", overlap="skip", request_recovery=True),
    python("cancel", overlap="cancel", retry=RETRY, request_recovery=True),
]
TRIGGERS = [
    every("allow", 10, job="allow"),
    every("queue_a", 10, job="queue"),
    every("queue_b", 15, job="queue", priority=7),
    every("skip", 10, job="skip"),
    every("cancel", 20, job="cancel"),
    every("all", 10, job="allow", misfire=MisfireRule("fire_all", limit=4)),
    every("late_skip", 10, job="allow", misfire=MisfireRule("skip")),
    every("queue_all", 10, job="queue", misfire=MisfireRule("fire_all", limit=3)),
]
OUTCOMES = {
    "success": Outcome.success(),
    "failure": Outcome.failure("ValueError", "boom"),
    "permanent": Outcome.failure("PermanentError", "no", permanent=True),
    "cancelled": Outcome.cancelled("asked"),
    "interrupted": Outcome.cancelled("shutdown"),
}

node = st.integers(0, 2)
seconds = st.sampled_from([0.5, 1, 3, 5, 10, 25, 70, 130])
steps = st.one_of(
    st.tuples(st.just("time"), seconds),
    st.tuples(st.just("turn"), node),
    st.tuples(st.just("turn"), node),
    st.tuples(st.just("end"), node, st.integers(0, 30), st.sampled_from(sorted(OUTCOMES))),
    st.tuples(st.just("end"), node, st.integers(0, 30), st.sampled_from(["failure", "success"])),
    st.tuples(st.just("run"), node),
    st.tuples(st.just("release"), node, st.integers(0, 30)),
    st.tuples(st.just("verdict"), node),
    st.tuples(st.just("fenced_end"), node, st.sampled_from(sorted(OUTCOMES))),
    st.tuples(st.just("lost_take"), node, seconds, st.booleans()),
    st.tuples(st.just("lost_settle"), node, st.sampled_from(sorted(OUTCOMES)), st.booleans()),
    st.tuples(st.just("pause"), st.sampled_from(sorted(GAPS))),
    st.tuples(st.just("resume"), st.sampled_from(sorted(GAPS))),
    st.tuples(st.just("fire"), st.sampled_from(sorted(GAPS))),
)
_numbers = count(1)


class Walk:
    """One walk: does what it is told, and looks at the ledger after each step."""

    def __init__(self, url: str) -> None:
        self.world = World(url, f"walk{next(_numbers)}")
        self.world.functions = dict.fromkeys(("allow", "queue", "skip", "cancel"), lambda: None)
        self.world.apply(*TRIGGERS, jobs=JOBS)
        self.nodes = [self.world.node(name, own_store=True, capacity=4) for name in ("one", "two", "three")]
        self.faults = [Faults(node.store) for node in self.nodes]
        self.begun: Counter[tuple[int, int]] = Counter()

    def step(self, what: str, *how: Any) -> None:
        act: Callable[..., None] = getattr(self, f"_{what}")
        act(*how)
        self.check()

    def _time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    def _turn(self, number: int) -> None:
        for request in self.nodes[number].turn():
            if request.attempt:
                self._is_not_overtaken(request)

    def _run(self, number: int) -> None:
        for request in list(self.nodes[number].taken):
            self._finish(number, request, OUTCOMES["success"])

    def _end(self, number: int, which: int, outcome: str) -> None:
        taken = self.nodes[number].taken
        if taken:
            self._finish(number, taken[which % len(taken)], OUTCOMES[outcome])

    def _finish(self, number: int, request: RunRequest, outcome: Outcome) -> None:
        """Begin a body if its node may, and end it; what is not its own any more it neither begins nor changes."""
        node = self.nodes[number]
        before = self._row(request)
        ours = before[:3] == ("running", request.fence, request.incarnation)
        if node.settler.may_begin(request):
            assert ours, "a body was begun that somebody else may have begun"
            self.begun[request.firing_id, request.fence] += 1
            node.finish(request, outcome)
        else:
            node.release(request)
            node.settle()
        assert ours or self._row(request) == before, "a fenced node changed something"

    def _row(self, request: RunRequest) -> tuple[Any, ...]:
        (row,) = self.world.firings(
            "state, fence, incarnation, qsched_firings.*", f"id = {request.firing_id}"
        )
        return row

    def _release(self, number: int, which: int) -> None:
        node = self.nodes[number]
        if node.taken:
            node.release(node.taken[which % len(node.taken)])
            node.settle()

    def _verdict(self, number: int) -> None:
        """Silent for longer than its lease, declared dead, and rescued by others; it hears of it at its next check-in."""
        self.world.pass_time(16)
        for other in self.nodes:
            if other is not self.nodes[number]:
                other.check_in.step()
        node = self.nodes[number]
        incarnation = node.parts.who.incarnation
        node.declare_dead()
        self.world.sql(
            "UPDATE qsched_permits SET firing_id = NULL, fence = NULL WHERE firing_id IN"
            " (SELECT id FROM qsched_firings WHERE incarnation = ? AND state = 'running')",
            incarnation,
        )
        self.world.sql(
            "UPDATE qsched_firings SET state = 'due', incarnation = NULL, started_at = NULL, recoveries = recoveries + 1"
            " WHERE incarnation = ? AND state = 'running'",
            incarnation,
        )

    def _fenced_end(self, number: int, outcome: str) -> None:
        """A body begins, its node falls silent and is given up, and then it ends."""
        node = self.nodes[number]
        request = next(iter(node.taken), None)
        if request is not None and node.settler.may_begin(request):
            self.begun[request.firing_id, request.fence] += 1
            self._verdict(number)
            before = self._row(request)
            node.finish(request, OUTCOMES[outcome])
            assert self._row(request) == before, "a fenced node changed something"

    def _lost_take(self, number: int, seconds: float, landed: bool) -> None:
        self.world.pass_time(seconds)
        self.faults[number].lose_commit("take", landed=landed)
        with suppress(StoreUnavailable):  # twice in a row for nothing: its loop makes a pause then
            self._turn(number)

    def _lost_settle(self, number: int, outcome: str, landed: bool) -> None:
        self.faults[number].lose_commit("settle", landed=landed)
        self._end(number, 0, outcome)

    def _pause(self, key: str) -> None:
        pause(self.world.store, [key])

    def _resume(self, key: str) -> None:
        resume(self.world.store, [key])

    def _fire(self, key: str) -> None:
        fire(self.world.store, key, force=True)

    # -- what must be true ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        self._every_slot_is_decided_once()
        self._nobody_overlaps()
        assert all(times == 1 for times in self.begun.values())
        early = self.world.firings(
            "id", "(started_at < run_at OR started_at < scheduled_at) AND state = 'running'"
        )
        assert early == []

    def _every_slot_is_decided_once(self) -> None:
        rows = self.world.firings(
            "trigger_name, first_scheduled_at, scheduled_at, covers", "trigger_id IS NOT NULL"
        )
        clocks = self.world.sql(
            "SELECT t.name, c.watermark, c.next_fire_at FROM qsched_triggers t JOIN qsched_trigger_clocks c ON c.id = t.id"
            " WHERE t.cluster = ?",
            self.world.store.cluster_id,
        )
        for name, watermark, next_fire_at in clocks:
            gap, upto = GAPS[name] * SECOND, START
            for _, first, last, covers in sorted(row for row in rows if row[0] == name):
                assert first == upto + gap, (
                    f"{name}: {(first - upto) // gap - 1} slots are missing before {first}"
                )
                assert covers == (last - first) // gap + 1
                upto = last
            assert upto == watermark
            assert next_fire_at == watermark + gap

    def _nobody_overlaps(self) -> None:
        running = self.world.firings(
            "id, fence, job_name, trigger_name, misfire_policy, permit_key", "state = 'running'"
        )
        alone = Counter(row[2] for row in running if row[2] != "allow")
        assert all(number == 1 for number in alone.values()), alone
        serial = Counter(row[3] for row in running if row[4] == "fire_all")
        assert all(number == 1 for number in serial.values()), serial
        held = self.world.sql(
            "SELECT firing_id, fence, permit_key FROM qsched_permits WHERE cluster = ? AND firing_id IS NOT NULL",
            self.world.store.cluster_id,
        )
        assert sorted(held) == sorted((row[0], row[1], row[5]) for row in running if row[5] is not None)

    def _is_not_overtaken(self, request: RunRequest) -> None:
        """A retry starts only while no slot after those of its own decision is decided or due."""
        columns = "trigger_id, recoveries, next_at"
        ((trigger_id, recoveries, next_at),) = self.world.firings(columns, f"id = {request.firing_id}")
        outcomes = self.world.sql(
            "SELECT outcome FROM qsched_attempts WHERE firing_id = ?", request.firing_id
        )
        if trigger_id is None or recoveries or set(outcomes) != {("failed",)}:
            return
        clock = self.world.sql(
            "SELECT watermark, next_run_at FROM qsched_trigger_clocks WHERE id = ?", trigger_id
        )
        ((watermark, next_run_at),) = clock
        assert watermark < next_at
        assert next_run_at > self.world.time

    def come_to_rest(self) -> None:
        """With everything resumed and everybody alive, nothing is left over."""
        resume(self.world.store, sorted(GAPS))
        for _ in range(14):
            self.world.pass_time(2)
            for number in range(3):
                self._turn(number)
                self._run(number)
            self.check()
        assert self.world.firings("id", f"state = 'due' AND run_at < {self.world.time - 9 * SECOND}") == []
        assert self.world.firings("id", "state = 'running'") == []
        waiting = self.world.sql(
            "SELECT t.name FROM qsched_triggers t JOIN qsched_trigger_clocks c ON c.id = t.id"
            " WHERE t.cluster = ? AND (t.state <> 'waiting' OR c.next_run_at <= ?)",
            self.world.store.cluster_id,
            self.world.time - 9 * SECOND,
        )
        assert waiting == []
        for node in self.nodes:
            assert node.parts.hand.empty.is_set()
        self.world.close()


@pytest.fixture(scope="module")
def walk_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('walk') / 'qsched.db'}"


@settings(max_examples=settings().max_examples // 10)
@given(st.lists(steps, min_size=10, max_size=60))
def test_three_nodes_keep_the_ledgers_promises_wherever_they_walk(
    walk_url: str, walked: list[tuple[Any, ...]]
) -> None:
    walk = Walk(walk_url)
    for what in walked:
        walk.step(*what)
    walk.come_to_rest()
