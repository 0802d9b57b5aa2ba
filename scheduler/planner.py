"""The planner: looks what is due, takes what this node has room for, hands it to the worker; `step()` says when again."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..triggers.instant import SECOND, rfc3339
from .context import RunRequest
from .definitions import CompiledTrigger, KnownJob
from .errors import ConstraintHit, SchedulerError, StoreUnavailable
from .loaded_job import LoadedJob
from .parts import Parts
from .passing import pass_decided
from .store.late_firings import judge_late_firings
from .store.take_rows import Look, Wanted, lock_clocks, lock_firings, look, taken_rows
from .store.tx import Tx
from .take import Take
from .taken import Fenced, Order, Taken

ON_TIME = SECOND
"""What became due less than this ago is on time: a backlog may not have all of the capacity."""
_BUSY_POLL = 0.25
_IDLE_POLL = 1.0
_ROUNDING = 0.00025
"""On top of every wait: woken early by rounding, the look would find nothing and be made twice."""
_PATIENT = 8
_LARGE = 50
_UNLOOKED = 4
BATCH = 200
"""Rows a take locks of a kind, at most: larger ones gain little and hold their locks longer."""

log = logging.getLogger("qsched.planner")


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the planner tells others."""

    submit: Callable[[list[RunRequest]], None]
    loaded: Callable[[list[tuple[KnownJob, LoadedJob]]], None]
    """Jobs that were loaded for the first time: their policies complete the job rows."""
    more_due: Callable[[], None]
    """Due work is left that this node cannot start."""


class Planner:
    """One per node, one thread. Everything it writes is one transaction per take."""

    def __init__(self, parts: Parts, hooks: Hooks) -> None:
        self._parts = parts
        self._store = parts.store
        self._clock = parts.clock
        self._who = parts.who
        self._hand = parts.hand
        self._definitions = parts.definitions
        self._hooks = hooks
        self._turn = False
        self._guessed = 0
        self._startless_at = 0.0
        self._in_vain = 0
        self._resume: tuple[int, int, int] | None = None
        self._backlog: Look | None = None
        self._unlooked = 0

    def step(self) -> float:
        """Look, and take what is due; answers the seconds after which to look again (0: at once)."""
        if not self._who.may_start(self._clock.monotonic()):
            return _BUSY_POLL
        free = self._hand.free()
        if not free and self._clock.monotonic() < self._startless_at:
            return _BUSY_POLL  # full: a place that becomes free wakes us
        seen = self._look()
        due = seen.triggers_due + seen.firings_due
        if not due:
            return self._until(seen)
        taken = self._take(seen, free) if free else self._take_startless()
        if taken is None:
            return _BUSY_POLL
        self._after(taken)
        if taken.moved:
            self._in_vain = 0
            return 0.0
        if self._guessed > taken.now and not taken.left:
            # The guess ran ahead, by a little or because the host's clock was set: nothing was due yet.
            return min((self._guessed - taken.now) / SECOND + _ROUNDING, _IDLE_POLL)
        # Due work that nobody could start here (busy jobs, full node, a pause that holds a retry): look again soon, but
        # do not spin on it, and after two seconds of that no more often than an idle node.
        self._in_vain += 1
        return min(_BUSY_POLL if self._in_vain < _PATIENT else _IDLE_POLL, self._until(seen))

    def _look(self) -> Look:
        if (known := self._backlog) is not None:
            self._backlog = None
            return known
        sent = self._clock.monotonic()
        self._guessed = self._guess()
        # Counting serves the share: more than all live nodes could start makes no difference.
        most = 2 * self._hand.capacity * self._who.live_nodes
        seen = self._store.read("look", lambda tx: look(tx, self._guessed, most))
        self._note_clock(seen.now, sent)
        return seen

    def _guess(self) -> int:
        return self._clock.wall() + self._who.offset

    def _note_clock(self, now: int, sent: float) -> None:
        half = (self._clock.monotonic() - sent) / 2
        self._who.offset = now + int(half * SECOND) - self._clock.wall()

    def _until(self, seen: Look) -> float:
        if seen.next_at is None:
            return _IDLE_POLL
        ahead = (seen.next_at - self._guess()) / SECOND
        return min(max(ahead, 0.0) + _ROUNDING, _IDLE_POLL)

    # -- taking ------------------------------------------------------------------------------------------------------

    def _take(self, seen: Look, free: int) -> Taken | None:
        due = seen.triggers_due + seen.firings_due
        share = -(
            -due // max(1, self._who.live_nodes)
        )  # ⌈due / live nodes⌉: no node takes what others can start
        limit = max(1, min(free, share, BATCH))
        wanted = self._wanted(limit)
        on_time, rest = None, wanted
        if due > limit:
            on_time, rest = self._reserve(wanted)
        order = Order(clocks=rest, firings=rest, capacity=min(free, limit), take_no=0, on_time=on_time)
        taken = self._run(replace(order, no_firings=not seen.firings_due))
        # A large, full take leaves a backlog: the next few need no look to know that there is something to take.
        rest_due = seen.triggers_due - limit
        full = taken is not None and len(taken.requests) == limit >= _LARGE
        self._unlooked = self._unlooked + 1 if full and rest_due > 0 and self._unlooked < _UNLOOKED else 0
        self._backlog = seen._replace(triggers_due=rest_due) if self._unlooked else None
        return taken

    def _wanted(self, limit: int) -> Wanted:
        known = self._definitions
        return Wanted(limit, known.parked(), known.unloadable(), parked_firings=known.parked_firings())

    def _reserve(self, wanted: Wanted) -> tuple[Wanted | None, Wanted]:
        """With a backlog half of the capacity serves what is on time; with one place they take turns."""
        since = self._guess() - ON_TIME
        if wanted.limit == 1:
            self._turn = not self._turn
            return (wanted._replace(since=since), wanted) if self._turn else (None, wanted)
        return wanted._replace(limit=-(-wanted.limit // 2), since=since), wanted

    def _take_startless(self) -> Taken | None:
        self._startless_at = self._clock.monotonic() + _BUSY_POLL
        wanted = self._wanted(BATCH)._replace(after=self._resume)
        taken = self._run(Order(clocks=wanted, firings=wanted, capacity=0, take_no=0, startless=True))
        self._resume = None if taken is None else taken.resume
        return taken

    def _run(self, order: Order) -> Taken | None:
        with self._hand.taking() as number:
            order = replace(order, take_no=number)
            attempt: list[Take] = []

            def work(tx: Tx) -> Taken:
                take = Take(tx, order, self._who, self._definitions)
                attempt[:] = [take]
                return take.run()

            try:
                taken = self._store.transaction("take", work)
            except StoreUnavailable as error:
                if not error.in_doubt or not attempt:
                    raise
                taken = self._resolve(attempt[0].taken, number)
            except Fenced as error:
                log.warning("node.fenced reason=%s", error)
                self._who.trusted_until = 0.0
                return None
            except Exception as error:
                if order.clocks.only is not None or not attempt or not attempt[0].locked():
                    raise
                bug = not isinstance(error, SchedulerError)
                log.error("take.failed reason=%s; repeated row by row", error, exc_info=bug)
                return self._row_by_row(order, attempt[0])
            self._hand.add(taken.requests)
        if taken.requests:
            self._hooks.submit(taken.requests)
        return taken

    def _row_by_row(self, order: Order, failed: Take) -> Taken:
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
                taken = self._run(alone)
            except StoreUnavailable:
                raise
            except Exception as error:
                self._park(clock_id, firings, total.now, error)
                continue
            if taken is not None:
                self._after(taken)
                total.decided += taken.decided
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

        until = self._clock.monotonic() + self._store.lease / SECOND
        while True:
            try:
                started = self._store.transaction("resolve take", read)
                break
            except StoreUnavailable:
                if self._clock.monotonic() > until or self._parts.stopping.is_set():
                    raise  # past the lease nothing of it may start here; what was taken, others rescue
                self._parts.pause(0.2)
        log.warning("take.in_doubt take=%s landed=%s", take_no, len(started))
        kept = [request for request in wished.requests if request.firing_id in started]
        return Taken(now=wished.now, requests=kept, decided=wished.decided)

    # -- afterwards --------------------------------------------------------------------------------------------------

    def _after(self, taken: Taken) -> None:
        for miss in taken.misfired:
            log.warning(
                "misfire trigger=%s due=%s late=%.3fs cause=%s policy=%s decision=%s",
                miss.trigger,
                rfc3339(miss.scheduled_at),
                miss.late / SECOND,
                miss.cause,
                miss.policy,
                miss.decision,
            )
        for trigger_id, trouble in taken.undecidable.items():
            self._definitions.leave_trigger(trigger_id, taken.now, *trouble)
        self._definitions.leave_elsewhere(taken.elsewhere, taken.firings_elsewhere)
        for trigger_id, reason in taken.poisoned.items():
            log.error("trigger.error trigger_id=%s kind=poison reason=%s", trigger_id, reason)
        for job_id, reason in taken.unreadable.items():
            self._definitions.leave_job(job_id, taken.now, reason)
        for firing_id, reason in taken.failed.items():
            log.error("firing.failed firing=%s reason=%s", firing_id, reason)
        for trigger in taken.late.values():
            self._judge_again(trigger)
        self._definitions.decided(taken.decided)
        if taken.to_load:
            fresh = self._definitions.load(taken.to_load, taken.now)
            if fresh:
                self._hooks.loaded(fresh)
        if taken.left and self._who.live_nodes > 1 and not self._hand.free():
            self._hooks.more_due()

    def _judge_again(self, trigger: CompiledTrigger) -> None:
        rule = trigger.definition.misfire
        judged = self._store.transaction("judge again", lambda tx: judge_late_firings(tx, trigger.id, rule))
        if judged is not None:
            log.warning(
                "misfire trigger=%s due=%s slots=%s cause=%s policy=%s decision=%s",
                trigger.key,
                rfc3339(judged.first),
                judged.slots,
                judged.cause,
                judged.policy,
                judged.decision,
            )
