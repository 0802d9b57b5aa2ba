"""Playing one plan, and what is told of it afterwards: plain values that cross from one process to another."""

import gc
from collections import Counter
from dataclasses import dataclass, field

from qsched.scheduler.clock import SystemClock

from .draw import draw
from .judge import judge
from .plan import Plan
from .world import Complaint, World


@dataclass(frozen=True, slots=True)
class Choice:
    """Which part of a seed's plan is played; None: all of it."""

    minutes: float = 10
    nodes: tuple[int, int] = (3, 5)
    shuffle: int = 0
    until: float | None = None
    """Minutes after which the run is cut off."""
    strikes: tuple[int, ...] | None = None
    verbs: tuple[int, ...] | None = None
    triggers: tuple[int, ...] | None = None
    whole: bool = False

    def plan(self, seed: int) -> Plan:
        plan = draw(seed, minutes=self.minutes, nodes=self.nodes)
        for name in ("strikes", "verbs", "triggers"):
            kept = getattr(self, name)
            if kept is not None:
                plan = plan.keeping(name, set(kept))
        return plan if self.until is None else plan.cut(int(self.until * 60_000_000))

    def words(self, seed: int) -> str:
        """The command that plays it again."""
        said = [
            f"python -m sim --seed {seed} --minutes {self.minutes:g} --nodes {self.nodes[0]}-{self.nodes[1]}"
        ]
        if self.shuffle:
            said.append(f"--shuffle {self.shuffle}")
        if self.until is not None:
            said.append(f"--until {self.until:g}")
        for name in ("strikes", "verbs", "triggers"):
            kept = getattr(self, name)
            if kept is not None:
                said.append(f"--{name} {','.join(map(str, kept)) or '-'}")
        return " ".join(said)


@dataclass(slots=True)
class Result:
    """What is left of a run."""

    seed: int
    digest: str
    seconds: float
    minutes: float
    nodes: int
    firings: int
    bodies: int
    transactions: int
    faults: Counter[str]
    seen: Counter[str]
    complaints: list[Complaint] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    """What happened around the first complaint."""


def play(seed: int, choice: Choice, *, told: bool = False) -> Result:
    """Play a seed and judge it; `told`: with the whole story."""
    began = SystemClock().monotonic()
    world = World(choice.plan(seed), shuffle=choice.shuffle, whole=choice.whole)
    enabled = gc.isenabled()
    gc.disable()
    try:
        world.run()
        world.close()
        complaints = judge(world)
    finally:
        if enabled:
            gc.enable()
    return _result(world, complaints, SystemClock().monotonic() - began, told=told)


def _result(world: World, complaints: list[Complaint], seconds: float, *, told: bool) -> Result:
    history, plan = world.history, world.plan
    firings = sum(
        1
        for commit in history.commits
        for table, verb, row in commit.changes
        if table == "firings" and verb == "INSERT" and row[8] != "skipped"
    )
    return Result(
        seed=plan.seed,
        digest=history.digest(),
        seconds=seconds,
        minutes=plan.length / 60_000_000,
        nodes=plan.nodes,
        firings=firings,
        bodies=len(history.bodies),
        transactions=sum(history.transactions.values()),
        faults=history.faults,
        seen=history.seen,
        complaints=complaints,
        story=_story(world, complaints, told=told),
    )


def _story(world: World, complaints: list[Complaint], *, told: bool) -> list[str]:
    if told:
        return world.history.story(0, 1 << 62)
    if not complaints:
        return []
    first = complaints[0]
    around = 20_000_000
    if first.firing:
        touched = [
            commit.at
            for commit in world.history.commits
            if any(table == "firings" and row[0] == first.firing for table, _, row in commit.changes)
        ]
        return world.history.story(min(touched) - around, max(touched) + around, firing=first.firing)
    return world.history.story(first.at - around, first.at + around // 4)[-120:]
