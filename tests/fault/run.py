"""One run: a stage, a load, a plan of faults; then everything is healed, comes to rest, and is read for the checker."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from qsched.scheduler.clock import SystemClock

from .customer import Customer
from .injections import Injections
from .machine import busy
from .nemesis import Nemesis
from .profiles import Profile
from .schedule import Fault, write
from .stage import Stage
from .workload import Workload, workload

_TICK = 0.5
_LOOK = 0.25
_REST = 40.0
"""Seconds in which everything must have come to rest after the last fault."""
_BEHIND = 2_500_000
"""µs: no trigger may be undecided for longer at rest; a busy job of the load keeps its own for less."""
_OLD = 3_000_000
"""µs: what was due so long before the last fault was healed, and later, must be gone at rest."""


class Run:
    """One run of a profile in a folder of its own."""

    def __init__(self, profile: Profile, seed: int, folder: Path) -> None:
        self.profile = profile
        self.seed = seed
        self.folder = folder
        self._clock = SystemClock()
        if (folder / "facts.json").exists():  # an older run's bodies would be taken for this one's
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)

    def play(self, faults: Sequence[Fault]) -> None:
        """Play the faults and leave the history in the folder."""
        profile = self.profile
        write(self.folder / "schedule.json", profile, self.seed, faults)
        with Stage(profile, self.folder) as stage:
            load = workload(
                self._clock.wall(), profile.minutes * 60 + 10, profile.lease, processes=profile.processes
            )
            self.say_what(stage, load)
            stage.begin(load)
            customer = Customer(stage.client_url, stage.history, self.seed)
            customer.start()
            stage.history.say("loaded", wall=self._clock.wall())
            self._rage(stage, Nemesis(stage, faults, Injections(stage, customer.fire_soon)))
            customer.stop()
            self.rest(stage)
            self.end(stage)

    def say_what(self, stage: Stage, load: Workload) -> None:
        facts = {"profile": {**asdict(self.profile), "quotas": dict(self.profile.quotas)}, "seed": self.seed}
        (self.folder / "facts.json").write_text(json.dumps({**facts, **load.facts()}))
        (self.folder / "secret").write_text(stage.secret)

    def _rage(self, stage: Stage, nemesis: Nemesis) -> None:
        """All the faults, with a clock tick twice a second; a gap between ticks is the harness's own stall."""
        tick_at = 0.0
        while not nemesis.done:
            nemesis.step()
            stage.look()
            now = self._clock.monotonic()
            if now >= tick_at:
                stage.history.say("tick", wall=self._clock.wall(), load=busy())
                tick_at = now + _TICK
            stage.pause(min(0.05, nemesis.next_in()))
        nemesis.heal_all()
        stage.history.say("all_healed", wall=self._clock.wall())

    def rest(self, stage: Stage) -> None:
        """Wait until every node is there and nothing old is open; what never ends is for the checker to see."""
        for seat in stage.seats:
            seat.start()
        healed = self._clock.wall()

        def at_rest() -> bool:
            stage.look()
            if not all(seat.life is not None and seat.life.ready for seat in stage.seats):
                return False
            open_rows = stage.inspector.rows(
                "SELECT count(*) FROM qsched_firings WHERE state IN ('due', 'running')"
                f" AND scheduled_at < {healed + _OLD}"
            )
            late = stage.inspector.rows(
                f"SELECT count(*) FROM qsched_trigger_clocks WHERE next_run_at < {self._clock.wall() - _BEHIND}"
            )
            return open_rows[0][0] == 0 and late[0][0] == 0 and self._clock.wall() > healed + _OLD

        until = self._clock.monotonic() + _REST
        while not (rested := at_rest()) and self._clock.monotonic() < until:
            stage.pause(_LOOK)
        stage.history.say("at_rest" if rested else "no_rest", wall=self._clock.wall())

    def end(self, stage: Stage) -> None:
        """Every node drains, and all that is known is written down."""
        stage.history.say("ending", wall=self._clock.wall())
        for seat in stage.seats:
            seat.wanted = False
            seat.terminate()
        for seat in stage.seats:
            if seat.life is not None:
                seat.life.wait(within=30)
                seat.look()
        stage.inspector.dump(self.folder)
        stage.history.say("read", wall=self._clock.wall())
        server = stage.database
        if server is not None:
            (self.folder / "server.log").write_bytes((server.folder / "log").read_bytes())
