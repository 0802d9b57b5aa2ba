"""The end of a node: wait for what runs, tell it to stop, kill what can be killed, settle the rest in one transaction, leave."""

import logging
import os
import threading
from collections.abc import Callable, Collection
from typing import NoReturn

from ..scheduler.clock import SystemClock
from ..scheduler.errors import SHUTDOWN
from ..scheduler.leaving import leave
from ..scheduler.store.tx import Tx
from .services import Services

CANCEL_GRACE = 0.75
"""Seconds that bodies get to end after they were told: with all that follows, the process is gone within a second."""
_KILL_GRACE = 0.25
_STORE_GRACE = 2.0
"""Seconds for ends that the database has not heard of; less than its deadlines, for the process must leave."""
_LEAVE_WITHIN = 5.0
"""Seconds after the wait in which the process is gone, whatever hangs: a database that does not answer, most likely."""
_COMMIT_WITHIN = 0.5
"""Seconds for the answer to the last COMMIT: what is left is anybody's after a second, heard of or not."""
_THREADS_WITHIN = 2.0
HANDED_OVER = 8
_LOOK = 0.02

log = logging.getLogger("qsched.drain")


class Drain:
    """One drain. `hurry` answers whether it is to end now; `leaves`: the process is the node's own and may be ended."""

    def __init__(self, services: Services, hurry: Callable[[], bool], *, leaves: bool) -> None:
        self._services = services
        self._parts = services.parts
        self._hurry = hurry
        self._leaves = leaves
        self._interrupted_before = services.settler.interrupted
        self._over = threading.Event()

    @property
    def handed_over(self) -> int:
        """Bodies that were broken off by this shutdown."""
        return self._services.settler.interrupted - self._interrupted_before

    def ended(self) -> bool:
        """Whether nothing is in hand, and nothing can come into it any more."""
        return not self._services.takes() and self._parts.hand.idle()

    def run(self, timeout: float) -> bool:
        """Take nothing more and wait `timeout` seconds, then break off what runs; answers whether all of it has ended."""
        self._services.stop_taking()
        self._wait(timeout, self._hurry)
        if self._leaves:
            threading.Thread(target=self._leave_anyway, name="qsched-leaving", daemon=True).start()
        if self.ended():
            return True
        pool = self._services.pool
        pool.cancel_all(SHUTDOWN)
        self._wait(CANCEL_GRACE)
        # What is a process of its own can be ended for certain; then its body has ended, and is handed over as such.
        if not self.ended() and pool.kill_commands() + pool.kill_processes():
            self._wait(_KILL_GRACE)
        if not pool.running():
            self._wait(_STORE_GRACE, self._hurry)
        return self.ended()

    def wait_on(self) -> None:
        """Until all has ended, however long: an application's process cannot be left for one body."""
        self._wait(float("inf"))

    def over(self) -> None:
        """The node has stopped: the process need not be ended by force."""
        self._over.set()

    def exit_code(self) -> int:
        """0 when all that ran has ended by itself, 8 when something was broken off or is left behind."""
        return HANDED_OVER if self.handed_over or not self.ended() else 0

    def _wait(self, seconds: float, enough: Callable[[], bool] = lambda: False) -> None:
        until = self._parts.clock.monotonic() + seconds
        while not self.ended() and not enough():
            left = until - self._parts.clock.monotonic()
            if left <= 0:
                return
            self._parts.pause(min(left, _LOOK))

    def _leave_anyway(self) -> None:
        if not self._parts.clock.wait(self._over, _LEAVE_WITHIN):
            self._say_left(f"it did not end in {_LEAVE_WITHIN:g} s")
            os._exit(self.exit_code())

    # -- leaving what runs behind ------------------------------------------------------------------------------------

    def abandon(self) -> NoReturn:
        """Settle what still runs, in one last transaction, and leave as the very next statement.

        A body that cannot be stopped must not run beside its successor: nothing of this process runs after the commit, and
        half a second after it was sent the process is gone, whatever has become of the answer. What has ended and waits for
        the database is not touched: calling it lost is not ours.
        """
        running = self._services.pool.running()
        held = {(entry.request.firing_id, entry.request.fence) for entry in running}
        begun = {(e.request.firing_id, e.request.fence) for e in running if e.began is not None}
        ended = self._parts.hand.held() - held
        log.warning("node.left running=%s not_begun=%s", _some(begun), len(held - begun))
        logging.shutdown()  # now: between the commit and the end there is no time for a full pipe
        incarnation, before = self._parts.who.incarnation, self.handed_over

        def work(tx: Tx) -> None:
            leave(tx, incarnation, begun, ended, before)
            if self._leaves:
                threading.Thread(target=self._gone_soon, name="qsched-leaving", daemon=True).start()

        try:
            self._parts.store.transaction("abandon", work, patience=_STORE_GRACE)
        except BaseException as error:
            self._say_left(str(error))
        finally:
            os._exit(HANDED_OVER)  # also without the database: the others will rescue what runs here

    def _gone_soon(self) -> None:
        self._parts.clock.wait(threading.Event(), _COMMIT_WITHIN)
        os._exit(HANDED_OVER)

    def _say_left(self, reason: str) -> None:
        held = self._parts.hand.held()
        if held:
            log.error(
                "node.left_unsettled firings=%s reason=%s: others take them for lost", _some(held), reason
            )
        else:
            log.warning("node.left_unsaid reason=%s", reason)
        logging.shutdown()


def leave_soon(code: int) -> None:
    """The process is about to end with this code: see to it that it does.

    Python waits at its end, for ever, for threads that a job made and that are no daemons.
    """

    def leave() -> None:
        if not SystemClock().wait(threading.Event(), _THREADS_WITHIN):
            log.warning("node.left_threads: threads that jobs had made would not end")
            logging.shutdown()
            os._exit(code)

    threading.Thread(target=leave, name="qsched-leaving", daemon=True).start()


def _some(firings: Collection[tuple[int, int]]) -> str:
    """The ids of firings, the first few."""
    ids = sorted(firing_id for firing_id, _ in firings)
    return ",".join(map(str, ids[:20])) + (f",… ({len(ids)})" if len(ids) > 20 else "") or "-"
