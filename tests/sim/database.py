"""The one database of a run: SQLite in memory, fresh from a ready image, its clock virtual, its every change seen."""

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store

from .chronicle import Change, Commit, History
from .rows import triggers_sql
from .thin import ThinConnection
from .timeline import START, Timeline


class Shared:
    """What all runs of this operating-system process share: one connection, one engine, and the image of an empty store."""

    def __init__(self) -> None:
        self.store = open_store("sqlite://", create=True, now=lambda: START)
        self.raw: Any = self.engine.raw_connection().driver_connection
        self.saw: Callable[..., None] = lambda *_: None
        self.raw.create_function("sim_saw", -1, self._saw)
        self.raw.execute("UPDATE qsched_clusters SET uuid = '00000000-0000-0000-0000-000000000000'")
        for statement in triggers_sql():
            self.raw.execute(statement)
        self.image: bytes = self.raw.serialize()

    def _saw(self, *values: Any) -> None:
        self.saw(*values)

    @property
    def engine(self) -> Any:
        return self.store._engine("work")


@cache
def shared() -> Shared:
    logging.getLogger("alembic").setLevel(logging.WARNING)
    return Shared()


class Database:
    """Fresh for one run. Whoever commits says who it is; what it changed goes into the history."""

    def __init__(self, timeline: Timeline, history: History) -> None:
        self.timeline = timeline
        self.history = history
        self.jumped = 0
        """How far its clock is from the truth, µs."""
        self._steps: list[tuple[int, int]] = [(0, 0)]
        """(true time, how far it was off from then on)"""
        self._pending: list[Change] = []
        self._shared = shared()
        self._raw = self._shared.raw
        self._raw.deserialize(self._shared.image)
        self.thin = ThinConnection(self._raw)
        self._shared.saw = self._saw

    def clock(self) -> int:
        return self.timeline.now + self.jumped

    def jump(self, size: int) -> None:
        """Set its clock forth or back."""
        self.jumped += size
        self._steps.append((self.timeline.now, self.jumped))

    def came(self, instant: int) -> int:
        """The true time at which its clock first showed `instant` or later."""
        for place, (since, off) in enumerate(self._steps):
            until = self._steps[place + 1][0] if place + 1 < len(self._steps) else 1 << 62
            if (at := max(instant - off, since)) < until:
                return at
        raise AssertionError("the last step lasts for ever")

    def before(self, instant: int) -> list[tuple[int, int]]:
        """The spans of true time in which its clock showed less than `instant`."""
        ends = [*(at for at, _ in self._steps[1:]), 1 << 62]
        spans = [
            (since, min(instant - off, until)) for (since, off), until in zip(self._steps, ends, strict=True)
        ]
        return [span for span in spans if span[0] < span[1]]

    def adopt(self, store: Store) -> None:
        """Let `store` be one of this database's."""
        store._engines = self._shared.store._engines
        store.cluster_id = self._shared.store.cluster_id

    # -- what is seen --------------------------------------------------------------------------------------------------

    def _saw(self, table: str, verb: str, *row: Any) -> None:
        self._pending.append((table, verb, row))

    def begin(self) -> None:
        """What is changed from now on belongs to the transaction that begins."""
        self._pending = []

    def committed(self, actor: str, incarnation: int, name: str, *, told: bool) -> None:
        """It was committed."""
        if self._pending:
            commits = self.history.commits
            commits.append(
                Commit(
                    len(commits),
                    self.timeline.now,
                    self.clock(),
                    actor,
                    incarnation,
                    name,
                    tuple(self._pending),
                    told,
                )
            )
            self._pending = []

    # -- what the simulator asks ---------------------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """µs until something becomes due, by the rows; None where nothing will."""
        row = self._raw.execute(
            "SELECT (SELECT MIN(next_run_at) FROM qsched_trigger_clocks WHERE cluster = 1 AND next_run_at > ?1),"
            " (SELECT MIN(run_at) FROM qsched_firings WHERE cluster = 1 AND state = 'due' AND run_at > ?1)",
            (self.clock(),),
        ).fetchone()
        ahead = [instant for instant in row if instant is not None]
        return min(ahead) - self.clock() if ahead else None

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a query answers; outside of every transaction."""
        found: list[tuple[Any, ...]] = self._raw.execute(statement, values).fetchall()
        return found

    def snapshot(self) -> bytes:
        """The database as it is now."""
        image: bytes = self._raw.serialize()
        return image

    def restore(self, image: bytes) -> None:
        self._raw.deserialize(image)
