"""Running takes and plans: repeated row by row where a batch fails, and never guessed at where the answer was lost."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from .context import RunRequest
from .errors import ConstraintHit, SchedulerError, StoreUnavailable
from .parts import Parts
from .passing import pass_decided
from .plan_due import Plan
from .store.take_rows import Wanted, lock_clocks, lock_firings, taken_rows
from .store.tx import Tx
from .strangers import Strangers
from .take import Take
from .take_facts import facts_of_take
from .taken import Fenced, Order, StaleTerm, Taken

log = logging.getLogger("qsched.planner")


class _Attempt(Protocol):
    """A take or a plan: what it locked tells which rows can be tried one by one."""

    taken: Taken
    clock_ids: list[int]
    firing_ids: list[int]

    def run(self) -> Taken: ...


class Taking:
    """One per node, used by its planner's thread. `submit` gets what runs here; `after` hears what each take met."""

    def __init__(
        self, parts: Parts, submit: Callable[[list[RunRequest]], None], after: Callable[[Taken], None]
    ) -> None:
        self._parts = parts
        self._store = parts.store
        self._who = parts.who
        self._hand = parts.hand
        self._definitions = parts.definitions
        self._strangers = Strangers(parts.definitions)
        self._submit = submit
        self._after = after
        self._in_vain = False
        """Whether the answer to the last take's COMMIT was lost, and nothing of it runs here."""

    def run(self, order: Order) -> Taken | None:
        """Run one order to its end; None when this node may not take, or does not lead, any more."""
        with self._hand.taking() as number:
            order = replace(order, take_no=number)
            attempt: list[_Attempt] = []

            def work(tx: Tx) -> Taken:
                attempt[:] = [self._attempt(tx, order)]
                return attempt[0].run()

            try:
                taken = self._store.transaction("take" if order.term is None else "plan", work)
            except StoreUnavailable as error:
                if not error.in_doubt or not attempt:
                    raise
                taken = self._resolve(attempt[0].taken, number)
                again, self._in_vain = self._in_vain, not taken.requests
                if self._in_vain and again:
                    raise  # where no COMMIT gets through (a full disk), a pause is due between two tries
            except Fenced as error:
                log.warning("node.fenced reason=%s", error)
                self._who.trusted_until = 0.0
                return None
            except StaleTerm as error:
                self._refused(order, error)
                return None
            except Exception as error:
                tried = bool(attempt) and bool(attempt[0].clock_ids or attempt[0].firing_ids)
                if order.clocks.only is not None or not tried:
                    raise
                bug = not isinstance(error, SchedulerError)
                log.error("take.failed reason=%s; repeated row by row", error, exc_info=bug)
                return self._row_by_row(order, attempt[0])
            else:
                self._in_vain = False
            self._hand.add(taken.requests)
        teller = self._parts.teller
        if teller.heard:  # before the submit: no end of what starts here is told before its start
            teller.tell(facts_of_take(taken, self._who.name))
        if taken.requests:
            self._submit(taken.requests)
        self._after(taken)
        return taken

    def _attempt(self, tx: Tx, order: Order) -> _Attempt:
        if order.term is None:
            return Take(tx, order, self._who, self._definitions)
        return Plan(tx, order, self._who, self._definitions, self._strangers)

    def _refused(self, order: Order, error: StaleTerm) -> None:
        """Another leads under a later epoch: believe in ours no more. The elector sees to the rest."""
        log.warning("leader.stale_plan_refused reason=%s", error)
        term = self._who.term
        if term is not None and order.term is not None and term.epoch == order.term.epoch:
            self._who.term = None

    def _row_by_row(self, order: Order, failed: _Attempt) -> Taken:
        """A batch is never as weak as its worst row: each alone, and the one that fails alone is parked."""
        total, none = Taken(now=failed.taken.now), Wanted(0, only=())
        rows: list[tuple[int | None, Wanted, Wanted]] = []
        rows += [(clock_id, Wanted(1, only=(clock_id,)), none) for clock_id in failed.clock_ids]
        rows += [(None, none, Wanted(1, only=(firing_id,))) for firing_id in failed.firing_ids]
        for clock_id, clocks, firings in rows:
            alone = replace(
                order, clocks=clocks, firings=firings, on_time=None, capacity=min(1, self._hand.free())
            )
            try:
                taken = self.run(alone)
            except StoreUnavailable:
                raise
            except Exception as error:
                self._park(clock_id, firings, total.now, error)
                continue
            if taken is not None:
                total.decided += taken.decided
                total.due += taken.due
        return total

    def _park(self, clock_id: int | None, firings: Wanted, now: int, error: Exception) -> None:
        """Leave what cannot even be written alone to others for a while."""
        if clock_id is not None and isinstance(error, ConstraintHit) and self._pass_decided(clock_id):
            return
        reason = f"it could not be written: {error}"
        if clock_id is not None:
            self._definitions.leave_trigger(clock_id, now, reason)
        for firing_id in firings.only or ():
            self._definitions.leave_firing(firing_id, now, reason)

    def _pass_decided(self, clock_id: int) -> bool:
        """The slot it would decide has a row already (somebody moved the trigger back): go on behind it."""
        passed = self._store.transaction(
            "pass decided slots", lambda tx: pass_decided(tx, self._definitions.trigger(tx, clock_id))
        )
        if passed:
            log.critical(
                "trigger.slots_were_decided trigger_id=%s slots=%s: it goes on behind them", clock_id, passed
            )
        return passed > 0

    def _resolve(self, wished: Taken, take_no: int) -> Taken:
        """The answer to COMMIT was lost. Wait for the trigger rows' locks, then read what really happened.

        A plain SELECT would say that nothing did while the old backend is still committing (protocol-review E1).
        """
        firings = {request.firing_id for request in wished.requests}

        def read(tx: Tx) -> set[int]:
            lock_clocks(tx, wished.decided)
            lock_firings(tx, firings)
            return taken_rows(tx, self._who.incarnation, take_no)

        until = self._parts.clock.monotonic() + self._store.lease / 1_000_000
        while True:
            try:
                started = self._store.transaction("resolve take", read)
                break
            except StoreUnavailable:
                if self._parts.clock.monotonic() > until or self._parts.stopping.is_set():
                    raise  # past the lease nothing of it may start here; what was taken, others rescue
                self._parts.pause(0.2)
        log.warning("take.in_doubt take=%s landed=%s", take_no, len(started))
        kept = [request for request in wished.requests if request.firing_id in started]
        return Taken(now=wished.now, requests=kept, decided=wished.decided, due=wished.due)
