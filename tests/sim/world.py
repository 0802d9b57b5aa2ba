"""One run: a database, its nodes, what strikes them and what operators do, from the first moment to the last."""

import logging
from dataclasses import dataclass, field
from random import Random

from qsched.scheduler.apply import apply
from qsched.scheduler.store.database import Store

from support.declared import Declared

from .chronicle import History
from .database import Database
from .operators import Operators
from .plan import Plan
from .process import Birth, Process
from .striker import Striker
from .timeline import SECOND, START, Life, Spin, Timeline
from .virtual_redis import VirtualRedis
from .weather import Weather


@dataclass(frozen=True, slots=True)
class Complaint:
    """Something that must never be: which invariant, when, and what was seen."""

    code: str
    at: int
    text: str
    firing: int | None = None


@dataclass(slots=True)
class Lives:
    """When each process of a node was there, in true time."""

    born: list[tuple[int, str]] = field(default_factory=list)
    died: list[tuple[int, str]] = field(default_factory=list)


class World:
    """Made of a plan; `run` plays it. What went wrong on the way is in `complaints`."""

    def __init__(self, plan: Plan, *, shuffle: int = 0, whole: bool = False) -> None:
        logging.getLogger("qsched").setLevel(logging.CRITICAL + 1)
        self.plan = plan
        self.whole = whole
        """With SQLAlchemy between the store and its driver, as in production; else without, and three times as fast."""
        self._random = Random(f"{plan.seed}/{shuffle}")
        self.timeline = Timeline(self._fork())
        self.history = History()
        self.complaints: list[Complaint] = []
        self.database = Database(self.timeline, self.history)
        self.weather = Weather(self.timeline, self.database, self._fork(), plan.timing.latency)
        self.redis = VirtualRedis(self.timeline)
        self.skews: dict[int, int] = {}
        self.registered: dict[int, Process] = {}
        """{incarnation: the process that has or had it}"""
        self.sensed: dict[tuple[str, int], list[int]] = {}
        """{(process, incarnation): when it sensed that one to be gone}"""
        self.processes: list[Process | None] = [None] * plan.nodes
        self.lives = [Lives() for _ in range(plan.nodes)]
        self._life = Life(self.timeline, "world")
        self.striker = Striker(self, self._fork())
        self.operators = Operators(self, self._fork())

    def _fork(self) -> Random:
        return Random(self._random.random())

    def run(self) -> None:
        """From the first declaration to the end of the quiet at the end."""
        self._declare()
        for node in range(self.plan.nodes):
            self._life.after(int(self._random.random() * 2 * SECOND), lambda each=node: self.start(each))  # type: ignore[misc]
        self.striker.start()
        self.operators.start()
        try:
            self.timeline.run(START + self.plan.length)
        except Spin as error:
            self.complain("spin", str(error))
        for name, failure in self.timeline.failures:
            self.raised(name, failure)

    def close(self) -> None:
        """Let every greenlet end, so that the next run has the database to itself."""
        for process in self.processes:
            if process is not None:
                process.life.end()
        self.operators.life.end()

    def _declare(self) -> None:
        store = Store("sqlite://", now=self.database.clock)
        self.database.adopt(store)
        self.database.begin()
        apply(store, self.declared())
        self.database.committed("operator", 0, "apply", told=True)

    def declared(self, changed: dict[str, object] | None = None) -> Declared:
        """What the plan declares."""
        return Declared(self.plan.triggers, self.plan.jobs, limits=self.plan.limits[0])

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def start(self, node: int) -> None:
        """Start a process for this node, unless there is one."""
        if self.processes[node] is not None:
            return
        lives = self.lives[node]
        process = Process(self, Birth(node, len(lives.born) + 1, self._fork()))
        lives.born.append((self.timeline.now, process.name))
        self.processes[node] = process
        process.start()

    def died(self, process: Process) -> None:
        self.processes[process.node] = None
        self.lives[process.node].died.append((self.timeline.now, process.name))

    def restart(self, node: int, down: int) -> None:
        """Start this node again after `down` µs."""
        self._life.after(down, lambda: self.start(node))

    def wake_others(self, process: Process) -> None:
        """What NOTIFY does: the other planners look now."""
        for other in self.processes:
            if (
                other is not None
                and other is not process
                and other.up
                and self.weather.cut_of(other.node) is None
            ):
                other.loops["planner"].wake()

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def complain(self, code: str, text: str, firing: int | None = None) -> None:
        self.complaints.append(Complaint(code, self.timeline.now, text, firing))

    def raised(self, where: str, error: BaseException) -> None:
        """A service raised what no service may raise."""
        self.complain("raised", f"{where}: {type(error).__name__}: {error}")
