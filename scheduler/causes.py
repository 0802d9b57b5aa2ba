"""Why a misfired slot was late, as far as the rows and this node's memory tell."""

from ..triggers.decide import Row
from .identity import Identity
from .store import node_rows, take_rows
from .store.take_rows import DueClock
from .store.tx import Tx


class Causes:
    """For one take; the same question is asked of the database once."""

    def __init__(self, tx: Tx, who: Identity) -> None:
        self._tx = tx
        self._who = who
        self._lives: dict[int, bool | None] = {}

    def of(self, clock: DueClock, row: Row) -> str | None:
        """overlap, database_down, clock_step, no_capacity, node_down or unknown; None for what did not misfire."""
        if row.cause is not None or row.policy is None:
            return row.cause
        slot = row.first_scheduled_at
        if clock.overlap != "allow" and take_rows.was_running(self._tx, clock.id, slot):
            return "overlap"
        if self._who.database_was_down(slot):
            return "database_down"
        if self._who.clock_jumped(slot):
            return "clock_step"
        if slot not in self._lives:
            self._lives[slot] = node_rows.lived(self._tx, slot)
        lived = self._lives[slot]
        if lived is None:  # decided before, and by nobody: the rows of those nodes are gone
            return "unknown" if clock.fires or clock.misfires else "node_down"
        return "no_capacity" if lived else "node_down"
