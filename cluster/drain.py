"""The end of a node: wait for what runs, then cancel it, then settle what cannot be stopped and leave."""

import logging
import os
from collections.abc import Callable

from ..scheduler.errors import SHUTDOWN
from ..scheduler.store.finish import Ending, finish_ours, release
from ..scheduler.store.firing_rows import OpenFiring, open_firings
from ..scheduler.store.node_rows import STOPPED, set_state
from ..scheduler.store.tx import Tx
from ..triggers.instant import SECOND
from .services import Services

CANCEL_GRACE = 2.0
"""Seconds that bodies get to end after they were told."""
HANDED_OVER = 8
_LOOK = 0.05

log = logging.getLogger("qsched.drain")


class Drain:
    """One drain; `hurry` answers whether it is to end now."""

    def __init__(self, services: Services, hurry: Callable[[], bool]) -> None:
        self._services = services
        self._parts = services.parts
        self._hurry = hurry
        self._interrupted_before = services.settler.interrupted

    @property
    def handed_over(self) -> int:
        """Bodies that were broken off by this shutdown."""
        return self._services.settler.interrupted - self._interrupted_before

    def wait(self, seconds: float) -> None:
        """Until nothing is in hand or on its way into it, or the time is over, or somebody is in a hurry."""
        until = self._parts.clock.monotonic() + seconds
        while not self._parts.hand.idle() and not self._hurry():
            left = until - self._parts.clock.monotonic()
            if left <= 0:
                return
            self._parts.pause(min(left, _LOOK))

    def wait_for_cancelled(self) -> None:
        """What was told to stop gets a moment to end, and to be settled."""
        until = self._parts.clock.monotonic() + CANCEL_GRACE
        while not self._parts.hand.idle() and self._parts.clock.monotonic() < until:
            self._parts.pause(_LOOK)

    def exit_code(self) -> int:
        return HANDED_OVER if self.handed_over or not self._parts.hand.idle() else 0

    def abandon(self) -> None:
        """Settle what threads still run, in one last transaction, and leave as the very next statement.

        A body that cannot be stopped must not run beside its successor: nothing of this process runs after the commit, and
        the successor is not due before a second has passed. What has ended and waits for the database is not touched: its
        end is known, and calling it lost would run it again.
        """
        incarnation = self._parts.who.incarnation
        running = self._services.pool.running()
        begun = [entry.request.firing_id for entry in running if entry.began is not None]
        unbegun = {(entry.request.firing_id, entry.request.fence) for entry in running if entry.began is None}
        unsettled = self._parts.hand.running() - len(running)
        self._services.pool.kill_commands()
        log.warning("node.left running=%s not_begun=%s unsettled=%s", len(begun), len(unbegun), unsettled)
        logging.shutdown()  # now: between the commit and the end there is no time for a full pipe

        def settle(tx: Tx) -> None:
            rows = [row for row in open_firings(tx, begun).values() if row.incarnation == incarnation]
            if rows:
                finish_ours(tx, [_ending(row, incarnation, tx.now()) for row in rows])
            release(tx, incarnation, unbegun)
            if unsettled <= 0:
                set_state(tx, incarnation, STOPPED)

        try:
            self._parts.store.transaction("abandon", settle, patience=3.0)
        finally:
            os._exit(
                HANDED_OVER
            )  # also without the database: the others will rescue what runs here by its lease


def _ending(row: OpenFiring, incarnation: int, now: int) -> Ending:
    again = bool(row.request_recovery)
    return Ending(
        row.id,
        incarnation,
        row.fence,
        row.trigger_id,
        row.permit_key,
        "due" if again else "lost",
        "interrupted" if again else "lost",
        now,
        note=f"{SHUTDOWN}: its thread did not end" + ("; due again for any node" if again else ""),
        run_at=now + SECOND if again else None,
        attempt=row.attempt,
        next_attempt=row.attempt,
        refires=row.refires,
        recoveries=row.recoveries,
        recovering=row.recoveries > 0,
        started_at=row.started_at,
    )
