"""A node whose loops all have something to do each second, in one thread and on the world's time."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from qsched.cluster.health import Health
from qsched.cluster.loop import Loop, Rhythm
from qsched.triggers.instant import SECOND
from qsched.triggers.retry import RetryPolicy

from .hand_node import START, HandNode, World, every, python
from .statement_faults import StatementFaults

GAPS = {"tick": 1, "sure": 5, "alone": 2, "broken": 7}
"""The triggers, and the seconds between their slots."""


class BusyNode:
    """The node, its loops, and what must hold of what they did."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.functions |= {"tick": _nothing, "sure": _nothing, "alone": _nothing, "broken": _fail}
        world.apply(
            *(every(name, gap, job=name) for name, gap in GAPS.items()),
            jobs=[
                python("tick"),
                python("sure", request_recovery=True),
                python("alone", overlap="queue"),
                python("broken", retry=RetryPolicy.fixed(1, "1s")),
            ],
        )
        self.node = world.node(own_store=True)
        self.faults = StatementFaults(self.node.store)
        self.loops = _loops(self.node)
        self.health = Health(self.node.clock, self.loops)
        self.reds: set[str] = set()
        self.succeeded: dict[str, float] = {}
        self._due = dict.fromkeys(self.loops, world.elapsed)
        self._deaths = 0
        self.after_step: Callable[[], None] = lambda: None
        """What the test does after each step of a loop."""
        telling = self.node.check_in._telling
        self.node.check_in._telling = replace(telling, available=self._available)

    def _available(self) -> None:
        for name in self.loops:
            self._due[name] = self.world.elapsed

    def live(self, seconds: float) -> None:
        """Let so much time pass, in which every loop does what it has to."""
        until = self.world.elapsed + seconds
        while self.world.elapsed < until:
            for name, loop in self.loops.items():
                self._turn(name, loop)
            for request in list(self.node.taken):
                if self.node.settler.may_begin(request):
                    self.node.end(request, self.node.runner.run(self.node.context_of(request)))
                else:
                    self.node.release(request)
            self.reds |= self.health.reds().keys()
            self.world.pass_time(0.5)

    def _turn(self, name: str, loop: Loop) -> None:
        for _ in range(50):
            if self._due[name] > self.world.elapsed:
                return
            wait = loop.turn()
            self.after_step()
            if loop._reason is None and loop._rhythm.trouble() is None:
                self.succeeded[name] = self.world.elapsed
            if wait > 0:
                self._due[name] = self.world.elapsed + wait
        raise AssertionError(f"{name} spins")

    def someone_dies(self) -> None:
        """A node that runs something is gone: what the rescuer is there for."""
        self._deaths += 1
        other = self.world.node(f"other{self._deaths}")
        self.world.nodes.remove(other)
        for request in other.turn():
            other.context_of(request)
        other.kill()

    # -- what must hold ------------------------------------------------------------------------------------------------

    def all_work_again(self, within: float, what: str) -> None:
        """Soon after all has healed every loop succeeds, and every trigger is decided as it comes due."""
        healed = self.world.elapsed
        while missing := [*self._without_success(healed), *self._undecided()]:
            assert self.world.elapsed < healed + within, f"{what}: {missing} not at work after {within} s"
            self.live(1.0)
        assert not self.health.reds(), what

    def _without_success(self, since: float) -> list[str]:
        return [name for name in self.loops if self.succeeded.get(name, 0.0) < since]

    def _undecided(self) -> list[str]:
        """Triggers with a slot that is older than it should be, and not decided."""
        latest = {name: self.world.clock_of(name, "c.watermark")[0] or 0 for name in GAPS}
        return [name for name, gap in GAPS.items() if latest[name] < self.world.time - (gap + 2) * SECOND]

    def nothing_is_lost_or_doubled(self) -> None:
        slots: Counter[tuple[int, int]] = Counter()
        decided: Counter[int] = Counter()
        for trigger, slot, covers in self.world.firings("trigger_id, scheduled_at, covers"):
            slots[trigger, slot] += 1
            decided[trigger] += covers
        assert max(slots.values()) == 1
        for name, gap in GAPS.items():
            trigger, watermark = self.world.clock_of(name, "t.id, c.watermark")
            assert decided[trigger] == (watermark - START) // (gap * SECOND), name

    def nothing_is_stuck(self, after: float) -> None:
        """What was begun has ended."""
        self.live(after)
        old = self.world.time - 10 * SECOND
        assert not self.world.firings("id, job_name", f"state IN ('running', 'due') AND noticed_at < {old}")
        assert self.node.parts.hand.running() <= len(GAPS)


def _loops(node: HandNode) -> dict[str, Loop]:
    def settle() -> float:
        node.settle()
        return 0.25

    services: dict[str, tuple[Callable[[], float], Rhythm]] = {
        "check-in": (node.check_in.step, Rhythm(1.0, (0.25, 0.25), lambda: node.check_in.trouble)),
        "planner": (node.planner.step, Rhythm()),
        "settler": (settle, Rhythm(trouble=lambda: node.settler.trouble)),
        "upkeep": (node.upkeep.step, Rhythm()),
        "rescuer": (node.rescuer.step, Rhythm()),
    }
    loops = {name: Loop(name, step, node.clock, rhythm) for name, (step, rhythm) in services.items()}
    for loop in loops.values():
        loop._thread = threading.current_thread()  # alive: the test itself does what it would do
    return loops


def _nothing() -> None:
    return None


def _fail() -> None:
    raise ValueError("as it always does")
