"""A named scenario's stage: a cluster under load, one thing done to it on purpose, and then the same rest, read and rules."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qsched.scheduler.clock import SystemClock

from .check import check
from .evidence import Evidence, read
from .machine import busy
from .profiles import Profile
from .run import Run
from .seats import Life, Seat
from .sometimes import times
from .stage import Stage
from .violation import Violation
from .workload import Workload

_TICK = 0.5
_LOOK = 0.02


class Scene:
    """What a scenario's script works with."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.seats = stage.seats
        self._clock = SystemClock()
        self._tick_at = 0.0
        self._faults = 0

    def now(self) -> float:
        return self._clock.monotonic()

    def wait(self, seconds: float) -> None:
        """Let so much time pass."""
        until = self.now() + seconds
        self.until(lambda: self.now() >= until, "time to pass", within=seconds + 60)

    def until(self, true: Callable[[], bool], what: str, *, within: float = 60.0) -> float:
        """Until it is so; answers how long that took."""
        began = self.now()
        while not true():
            if self.now() > began + within:
                raise AssertionError(f"waited {within:g} s in vain for {what}")
            self.stage.look()
            if self.now() >= self._tick_at:
                self.stage.history.say("tick", wall=self._clock.wall(), load=busy())
                self._tick_at = self.now() + _TICK
            self.stage.pause(_LOOK)
        return self.now() - began

    def fault(self, kind: str, target: str, **options: Any) -> Callable[[], None]:
        """Say that a fault begins; answers what says that it has ended."""
        number, self._faults = self._faults, self._faults + 1
        self.stage.history.say("fault", n=number, kind=kind, target=target, seconds=0, options=options)
        return lambda: self.stage.history.say("healed", n=number, unmet=False)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Ask the database directly; no rows while it is away."""
        try:
            return self.stage.inspector.rows(statement)
        except Exception:  # of three drivers
            return []

    def replace(self, seat: Seat, within: float = 60.0) -> None:
        """Told to stop, gone, started by its supervisor, ready."""
        old: Life | None = seat.life
        seat.terminate()
        self.until(
            lambda: seat.life is not None and seat.life is not old, f"{seat.name} to leave", within=within
        )
        self.back(seat, within)

    def back(self, seat: Seat, within: float = 60.0) -> None:
        """Until the seat's node takes work."""
        self.until(
            lambda: seat.life is not None and seat.life.ready, f"{seat.name} to be ready", within=within
        )


@dataclass(frozen=True)
class Scenario:
    """One scenario: its stage, its load, its script, and what it promises beyond the rules of every run."""

    name: str
    profile: Profile
    load: Callable[[int], Workload]
    script: Callable[[Scene], None]
    promise: Callable[[Evidence], list[Violation]]
    says: Callable[[Evidence], dict[str, Any]] = lambda evidence: {}


@dataclass(frozen=True)
class Told:
    """How a scenario went."""

    scenario: str
    database: str
    folder: Path
    violations: list[Violation]
    figures: dict[str, Any]

    @property
    def verdict(self) -> str:
        return "RED" if self.violations else "green"

    def __str__(self) -> str:
        lines = [f"{self.scenario} on {self.database}: {self.verdict}   ({self.folder})"]
        lines += [f"  {name}: {value}" for name, value in self.figures.items()]
        lines += [f"  {violation}" for violation in self.violations[:12]]
        return "\n".join(lines)


def play(scenario: Scenario, folder: Path) -> Told:
    """Play it, read it, judge it."""
    run = Run(scenario.profile, 0, folder)
    clock = SystemClock()
    with Stage(scenario.profile, folder) as stage:
        load = scenario.load(clock.wall())
        run.say_what(stage, load)
        stage.begin(load)
        stage.history.say("loaded", wall=clock.wall())
        scenario.script(Scene(stage))
        stage.history.say("all_healed", wall=clock.wall())
        run.rest(stage)
        run.end(stage)
    evidence = read(folder)
    told = Told(
        scenario.name,
        scenario.profile.database,
        folder,
        check(evidence) + scenario.promise(evidence),
        {"firings": len(evidence.final["firings"]), **times(evidence), **scenario.says(evidence)},
    )
    said = {**asdict(told), "folder": str(folder)}
    (folder / "report.json").write_text(json.dumps(said, indent=1))
    return told
