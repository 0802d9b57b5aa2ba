"""The end of a node: wait for what runs, then cancel it, then settle what cannot be stopped and leave."""

import logging
import os
import threading

from ..scheduler.errors import SHUTDOWN, SchedulerError
from ..scheduler.store.finish import Ending, finish_ours
from ..scheduler.store.firing_rows import OpenFiring, open_firings
from ..scheduler.store.node_rows import STOPPED, set_state
from ..scheduler.store.tx import Tx
from ..triggers.instant import SECOND
from .services import Services

CANCEL_GRACE = 2.0
"""Seconds that bodies get to end after they were told."""
HANDED_OVER = 8

log = logging.getLogger("qsched.drain")


class Drain:
    """One drain; `hurry` is set by the second signal."""

    def __init__(self, services: Services, hurry: threading.Event) -> None:
        self._services = services
        self._parts = services.parts
        self._hurry = hurry
        self._interrupted_before = services.settler.interrupted

    @property
    def handed_over(self) -> int:
        """Bodies that were broken off by this shutdown."""
        return self._services.settler.interrupted - self._interrupted_before

    def wait(self, seconds: float) -> None:
        """Until nothing is in hand, or the time is over, or somebody is in a hurry."""
        until = self._parts.clock.monotonic() + seconds
        while not self._parts.hand.empty.is_set() and not self._hurry.is_set():
            left = until - self._parts.clock.monotonic()
            if left <= 0:
                return
            self._parts.clock.wait(self._parts.hand.empty, min(left, 0.1))

    def wait_for_cancelled(self) -> None:
        """What was told to stop gets a moment to end, and to be settled."""
        until = self._parts.clock.monotonic() + CANCEL_GRACE
        while not self._parts.hand.empty.is_set() and self._parts.clock.monotonic() < until:
            self._parts.clock.wait(self._parts.hand.empty, 0.05)

    def exit_code(self) -> int:
        return HANDED_OVER if self.handed_over or not self._parts.hand.empty.is_set() else 0

    def abandon(self) -> None:
        """Settle what threads still run, in one last transaction, and leave as the very next statement.

        A body that cannot be stopped must not run beside its successor: nothing of this process runs after the commit, and
        the successor is not due before a second has passed.
        """
        incarnation = self._parts.who.incarnation
        ids = [request.firing_id for request in self._parts.hand.requests()]
        self._services.pool.kill_commands()
        try:
            self._parts.store.transaction(
                "abandon", lambda tx: self._settle_all(tx, ids, incarnation), patience=3.0
            )
        except SchedulerError as error:
            log.error("node.left_running firings=%s reason=%s; the others will rescue them", len(ids), error)
        finally:
            log.warning("node.left threads=%s", len(ids))
            logging.shutdown()
            os._exit(HANDED_OVER)

    def _settle_all(self, tx: Tx, ids: list[int], incarnation: int) -> None:
        rows = [row for row in open_firings(tx, ids).values() if row.incarnation == incarnation]
        if rows:
            finish_ours(tx, [_ending(row, incarnation, tx.now()) for row in rows])
        set_state(tx, incarnation, STOPPED)


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
