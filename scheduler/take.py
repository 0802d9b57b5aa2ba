"""One take: within one transaction, due triggers are decided, due firings started, and both written as running here.

Locks: own node row, then trigger clocks, firings, permits, each in index order and skipping what others hold.
"""

from .deciding import Deciding
from .definitions import Definitions
from .desk import Desk
from .due_order import in_order, lock_clocks, lock_startless
from .firing import BACKFILL
from .identity import Identity
from .permits import Permits
from .starting import Places
from .store import node_rows, take_rows
from .store.take_rows import DueClock, DueFiring
from .store.tx import Tx
from .taken import Fenced, Order, Taken


class Take:
    """One attempt at a take; make a new one each time the transaction is repeated."""

    def __init__(self, tx: Tx, order: Order, who: Identity, definitions: Definitions) -> None:
        self._desk = Desk(tx, order, who, definitions, Permits(tx))
        self._places = Places(self._desk)
        self._deciding = Deciding(self._desk, self._places)
        self.clock_ids: list[int] = []
        self.firing_ids: list[int] = []
        self.taken = self._desk.taken

    def run(self) -> Taken:
        """Take; raises Fenced when this incarnation may not write any more."""
        tx, desk, order = self._desk.tx, self._desk, self._desk.order
        if not node_rows.share_alive(tx, desk.who.incarnation):
            raise Fenced(f"incarnation {desk.who.incarnation} was declared dead, or its lease has passed")
        self.taken.now = tx.now()
        clocks = self._lock_clocks()
        self.clock_ids = [clock.id for clock in clocks]
        firings = [] if order.startless or order.no_firings else self._lock_firings()
        self.firing_ids = [firing.id for firing in firings]
        if not clocks and not firings:
            return self.taken
        together: list[DueClock | DueFiring] = [*clocks, *firings]
        desk.read_jobs({each.job_id for each in together})
        compiled = desk.definitions.compiled(tx, clocks)
        desk.permits.look(clocks, firings)
        for each in in_order(together, order.on_time):
            if isinstance(each, DueClock):
                self._deciding.decide(each, compiled[each.id])
            else:
                self._places.start(each)
        self._write()
        return self.taken

    def _write(self) -> None:
        self._places.fail()
        self._deciding.advance()
        self._places.write(self._deciding.insert())
        self._deciding.cancel()

    def _lock_clocks(self) -> list[DueClock]:
        tx, order = self._desk.tx, self._desk.order
        if order.no_clocks:
            return []
        if order.startless:
            clocks, self.taken.resume = lock_startless(tx, order.clocks)
            return clocks
        return lock_clocks(tx, order.on_time, order.clocks)

    def _lock_firings(self) -> list[DueFiring]:
        tx, order = self._desk.tx, self._desk.order
        found: dict[int, DueFiring] = {}
        for wanted in (order.on_time, order.firings):
            if wanted is not None:
                found |= {firing.id: firing for firing in take_rows.lock_due_firings(tx, tx.now(), wanted)}
        # A backfill goes last, also where it alone fills the window: what stands behind it is looked for there.
        if len(found) >= order.firings.limit and any(each.reason == BACKFILL for each in found.values()):
            others = order.firings._replace(no_backfills=True)
            found |= {firing.id: firing for firing in take_rows.lock_due_firings(tx, tx.now(), others)}
        return list(found.values())
