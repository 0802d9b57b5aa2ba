"""A leader's plan: within one transaction, due triggers are decided for all nodes, and what is ready to run is made due.

Locks: own node row, the cluster's row (its epoch), trigger clocks, permits. Nothing is started here: who has a place takes
it, this node like everybody. No more is made due than the live nodes can start; what exceeds that stays on its trigger.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from .deciding import Deciding
from .definitions import CompiledTrigger, Definitions
from .desk import Case, Desk, run_on
from .due_order import by_place, in_order, lock_clocks, lock_startless, reserve
from .firing import DUE, NewFiring
from .identity import Identity
from .permits import Permits
from .room import Room
from .store.cluster_rows import share_epoch
from .store.node_rows import share_alive
from .store.room_rows import Waiting, live_nodes_places, waiting_firings, waiting_of_groups
from .store.take_rows import DueClock
from .store.tx import Tx
from .strangers import Strangers
from .taken import Fenced, Order, StaleTerm, Taken


class ForAll:
    """The seats of a plan: any live node's place. What is decided is born due."""

    born = DUE

    def __init__(self, desk: Desk, room: Room, strangers: Strangers) -> None:
        self._desk = desk
        self._room = room
        self._strangers = strangers

    def admits(self, case: Case) -> bool:
        """Whether some node can run it, and its job is known well enough to be decided without its code."""
        taken, job = self._desk.taken, case.job
        if self._strangers.to_load(job):
            taken.to_load.add(job.id)
            taken.left += 1
            return False
        known = self._strangers.is_known(job, self._desk.tx.now())
        if not known or not self._room.has_any(run_on(case.trigger, job), job.id):
            taken.nobody.add(case.clock.id)
            return False
        return True

    def free(self, case: Case) -> int:
        wanted = run_on(case.trigger, case.job)
        return self._room.free_for(wanted, case.job.id, on_time=self._is_on_time(case))

    def take(self, case: Case) -> bool:
        wanted = run_on(case.trigger, case.job)
        return self._room.take(wanted, case.job.id, on_time=self._is_on_time(case))

    def _is_on_time(self, case: Case) -> bool:
        return case.clock.next_run_at > self._desk.order.since

    def seated(self, case: Case, place: int, firing: NewFiring, n: int | None) -> None:
        """Whoever takes it will see to the rest."""


class Plan:
    """One attempt at a plan; make a new one each time the transaction is repeated."""

    def __init__(
        self, tx: Tx, order: Order, who: Identity, definitions: Definitions, strangers: Strangers
    ) -> None:
        self._desk = Desk(tx, order, who, definitions, Permits(tx))
        self._strangers = strangers
        self.clock_ids: list[int] = []
        self.firing_ids: list[int] = []
        self.taken = self._desk.taken

    def run(self) -> Taken:
        """Plan; raises Fenced when this incarnation may not write any more, StaleTerm when it does not lead any more."""
        desk, tx, taken = self._desk, self._desk.tx, self.taken
        term = desk.order.term
        assert term is not None
        if not share_alive(tx, desk.who.incarnation):
            raise Fenced(f"incarnation {desk.who.incarnation} was declared dead, or its lease has passed")
        if not share_epoch(tx, desk.who.incarnation, term.epoch):
            raise StaleTerm(f"epoch {term.epoch} is over")
        taken.now = tx.now()
        room = self._room()
        clocks = self._lock_clocks(room.free() + room.kept)
        self.clock_ids = [clock.id for clock in clocks]
        if not clocks:
            return taken
        desk.read_jobs({clock.job_id for clock in clocks})
        compiled = desk.definitions.compiled(tx, clocks)
        desk.permits.look(clocks, (), spoken_for=lambda keys: self._spoken_for(keys, room))
        deciding = Deciding(desk, ForAll(desk, room, self._strangers))
        for clock in in_order(clocks, desk.order.on_time):
            assert isinstance(clock, DueClock)
            deciding.decide(clock, compiled[clock.id])
        if not taken.full and not room.free() + room.kept:
            taken.resume = None  # with the next free place it goes on at the head
        deciding.advance()
        deciding.insert()
        deciding.cancel()
        return taken

    def _room(self) -> Room:
        """The room that is left when each firing that waits already has been given its place, where a node can run it.

        What no live node can run takes nobody's place; of what waits for one permit, one counts.
        """
        tx, order = self._desk.tx, self._desk.order
        room = Room(live_nodes_places(tx))
        free = room.free()
        waiting = waiting_firings(tx, free) if free else []
        if not waiting:
            return room
        self._seat(waiting, room)
        # A backlog of requests and retries leaves half of the places to slots that are on time, as it does when it is taken.
        half = -(-free // 2) if free > 1 else int(order.turn)
        if room.free() < half:
            room.keep(half - room.free() - len(waiting_firings(tx, half, order.since)))
        return room

    def _spoken_for(self, keys: Collection[str], room: Room) -> dict[str, int]:
        """How many permits of limited groups will be taken by what is due already, where a live node can run it."""
        desk, taken = self._desk, Counter[str]()
        waiting = waiting_of_groups(desk.tx, keys)
        desk.read_jobs({each.job_id for each in waiting})
        for each in waiting:
            job = desk.jobs.get(each.job_id)
            if job is not None and job.problem is None and room.has_any(run_on(None, job), job.id):
                taken[each.limit_key] += each.number
        return taken

    def _seat(self, waiting: list[Waiting], room: Room) -> None:
        desk = self._desk
        desk.read_jobs({each.job_id for each in waiting})
        triggers = desk.definitions.compiled(desk.tx, _of_triggers(waiting))
        seen: set[str] = set()
        for each in waiting:
            job, key = desk.jobs.get(each.job_id), each.permit_key
            if job is None or key in seen:
                continue
            if key is not None:
                seen.add(key)
            trigger = triggers.get(each.id) if each.id is not None else None
            room.take(run_on(trigger if isinstance(trigger, CompiledTrigger) else None, job), job.id)

    def _lock_clocks(self, free: int) -> list[DueClock]:
        """A window of what is due: larger than the room, for of some of it no node has a place now."""
        desk, tx, taken = self._desk, self._desk.tx, self.taken
        # Where the scan of a full cluster stopped is no place to go on starting from.
        after = desk.order.clocks.after if desk.order.full is not bool(free) else None
        order = replace(desk.order, clocks=desk.order.clocks._replace(after=after))
        if not free:
            desk.order = replace(order, startless=True, on_time=None)
            taken.full = True
            clocks, taken.resume = lock_startless(tx, order.clocks)
            return clocks
        on_time = None
        if order.due > free:
            places = order.clocks._replace(limit=min(free, order.clocks.limit), after=None)
            on_time = reserve(places, order.since, order.turn)
        desk.order = replace(order, on_time=on_time)
        clocks = lock_clocks(tx, on_time, order.clocks)
        if len(clocks) >= order.clocks.limit:
            taken.resume = by_place(clocks[-1])
        return clocks


def _of_triggers(waiting: list[Waiting]) -> list[Waiting]:
    """One of each trigger that the firings are of."""
    return list({each.id: each for each in waiting if each.id is not None}.values())
