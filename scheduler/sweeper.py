"""The sweeper: permits, firings and clocks that contradict each other are put right, whoever made them so.

No crash leaves such a state behind; a hand, a restored backup or a fault of ours may, and a node that leaves while a body runs
keeps that one's permit until its process must be gone. It is looked for in each step of the
rescuer, in a few statements over what is due, held or running, and shared among the nodes of a large cluster.
"""

import logging
from collections.abc import Callable, Sequence

from .clock_repair import repair_clocks
from .parts import Parts
from .store import trigger_rows
from .store.rescue_rows import Observed
from .store.sweep_rows import Wrong, look_for_wrong, look_for_wrong_clocks, put_right, shorten_lease
from .stored import Stored
from .suspicion import LONGEST_LEASE

_CHUNK = 200

log = logging.getLogger("qsched.sweeper")


class Sweeper:
    """One per node, within the rescuer's loop. `mended` is told when something may start that could not."""

    def __init__(self, parts: Parts, mended: Callable[[], None]) -> None:
        self._parts = parts
        self._mended = mended
        self._steps = 0
        self._after = 0
        self._wrong_clocks: set[int] = set()

    def step(self, nodes: Sequence[Observed], now: int) -> None:
        """Look, and put right what is wrong. About two nodes of a large cluster do so in each interval."""
        self._steps += 1
        self._shorten(nodes)
        if self._steps % max(1, self._parts.who.live_nodes // 2):
            return
        wrong = self._parts.store.read("sweep ledger", lambda tx: look_for_wrong(tx, now))
        mended = self._put_right(wrong) if wrong else 0
        mended += self._repair(now)
        if mended:
            self._mended()

    def _put_right(self, wrong: list[Wrong]) -> int:
        """Kind by kind, each in short transactions of their own: their locks are of different kinds too."""
        total = 0
        for kind in dict.fromkeys(each.kind for each in wrong):
            found = [each for each in wrong if each.kind == kind]
            for start in range(0, len(found), _CHUNK):
                chunk = found[start : start + _CHUNK]
                count = self._parts.store.transaction("sweep", lambda tx, c=chunk: put_right(tx, c))  # type: ignore[misc]
                total += count
                if count:
                    log.warning("sweep.mended what=%s rows=%s first=%s", kind, count, chunk[0].id)
        return total

    def _repair(self, now: int) -> int:
        store, after = self._parts.store, self._after
        wrong, self._after = store.read("sweep clocks", lambda tx: look_for_wrong_clocks(tx, after, now))
        # A look is of one span of ids: what was seen of the others is kept until their turn comes again.
        before, end = self._wrong_clocks, self._after
        self._wrong_clocks = wrong | {each for each in before if each <= after or (end and each > end)}
        mended = 0
        ids = sorted(wrong)
        for start in range(0, len(ids), _CHUNK):
            mended += self._repair_chunk(ids[start : start + _CHUNK], before)
        return mended

    def _repair_chunk(self, ids: list[int], before: set[int]) -> int:
        store = self._parts.store
        rows = store.read("sweep clocks", lambda tx: trigger_rows.read_triggers(tx, ids))
        # Compiled here: no search within a transaction.
        known = {(row.id, row.spec): Stored.of(row) for row in rows.values()}
        mended = store.transaction("sweep", lambda tx: repair_clocks(tx, ids, known, before))
        if mended:
            log.warning("sweep.mended what=trigger_clocks rows=%s first=%s", mended, ids[0])
        return mended

    def _shorten(self, nodes: Sequence[Observed]) -> None:
        for node in nodes:
            if node.lease_until - node.checked_in_at > LONGEST_LEASE:
                self._shorten_lease(node)

    def _shorten_lease(self, node: Observed) -> None:
        """A lease that lies beyond all leases would keep a node alive for ever that is gone."""
        store = self._parts.store
        store.transaction(
            "sweep", lambda tx: shorten_lease(tx, node.incarnation, node.lease_until, store.lease)
        )
        log.warning("sweep.mended what=lease name=%s incarnation=%s", node.name, node.incarnation)
