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
        self._covered: dict[int, bool] = {}

    def of(self, clock: DueClock, row: Row) -> str | None:
        """overlap, database_down, no_capacity or node_down; None for what did not misfire."""
        if row.cause is not None or row.policy is None:
            return row.cause
        slot = row.first_scheduled_at
        if clock.overlap != "allow" and take_rows.was_running(self._tx, clock.id, slot):
            return "overlap"
        if self._who.database_was_down(slot):
            return "database_down"
        if slot not in self._covered:
            self._covered[slot] = node_rows.covered(self._tx, slot)
        return "no_capacity" if self._covered[slot] else "node_down"
