"""The check-in: a node proves every second that it lives, hears what is asked of it, and compares hand and ledger.

Own thread, own connection, which also holds the node's session lock. Finding no row to renew means that others declared
this node dead: then all that runs is told, and the node goes on under a new incarnation.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..scheduler.episode import Episode
from ..scheduler.errors import INTERRUPT, LEASE_LOST, OVERLAP, SchedulerError, StoreError, StoreUnavailable
from ..scheduler.events import Event, Fact
from ..scheduler.parts import Parts
from ..scheduler.store.cluster_rows import Coordination
from ..scheduler.store.firing_rows import OpenFiring, running_here
from ..scheduler.store.node_rows import DRAINING, UP, NodeFacts, check_in, hear, register
from ..scheduler.store.node_rows import CheckIn as Said
from ..scheduler.store.release import release
from ..scheduler.store.session_lock import SessionLock
from ..scheduler.store.take_rows import look
from ..scheduler.store.tx import Tx
from ..triggers.instant import SECOND

_NEVER = float("inf")

log = logging.getLogger("qsched.check_in")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a check-in heard."""

    renewed: bool
    now: int
    live: int
    running: list[OpenFiring]
    coordination: Coordination | None = None
    drain_requested: bool = False
    drain_requested_by: str | None = None
    backend: int = 0
    """The server's session that it spoke with."""


@dataclass(frozen=True, slots=True)
class Telling:
    """Whom a check-in tells what it heard, and asks what it says: one firing to stop, or all of them."""

    cancel: Callable[[int, int, str], None]
    """(firing id, fence, reason)"""
    cancel_all: Callable[[str], None]
    available: Callable[[], None] = lambda: None
    """The database answers again."""
    drain: Callable[[str | None], None] = lambda _: None
    """Somebody (who) asked this node to drain; told once."""
    reds: Callable[[], Mapping[str, str]] = dict
    """{loop: reason}: what is red on this node."""
    renewed: Callable[[float], None] = lambda _: None
    """The node may be trusted until then (monotonic); must not block."""


class CheckInService:
    """One per node. `interval` and `lease` in µs. Without `lock` its end is known by its lease only."""

    def __init__(
        self,
        parts: Parts,
        facts: NodeFacts,
        interval: int,
        telling: Telling,
        lock: SessionLock | None = None,
    ) -> None:
        self._parts = parts
        self._facts = facts
        self._interval = interval
        self._telling = telling
        self._lock = lock
        self._failing_since: int | None = None
        self._episode = Episode(parts.clock)
        self._lock_failing = Episode(parts.clock)
        self._missed = 0
        self._drains = False
        self._strange: set[tuple[int, int]] = set()
        self._backend = 0
        self.trouble: str | None = None
        """Why check-ins do not land; None while they do."""
        self.steady_since = _NEVER
        """Monotonic seconds since which every check-in landed, over one connection: what was seen of others in that time may
        be believed. Infinite while they fail."""

    def register(self, was: int | None = None) -> None:
        """Begin a new incarnation, after one that `was` declared dead."""
        parts = self._parts
        sent = parts.clock.monotonic()
        # Declared dead while it drained, it takes nothing under the new incarnation either.
        state = DRAINING if parts.who.draining else UP
        at = 0

        def work(tx: Tx) -> tuple[int, str]:
            nonlocal at
            at = tx.now()
            return register(tx, self._facts, state)

        incarnation, name = parts.store.transaction("register", work, urgent=True)
        # Asked for once: a node that comes back from a dead verdict works as the cluster does by then.
        self._facts = replace(self._facts, coordination=None, elector=None)
        parts.who.incarnation = incarnation
        old, parts.who.name = parts.who.name, name
        self._trust_from(sent)
        if parts.teller.heard:
            fenced = Event(fact=Fact.FENCED, at=at, node=old, reason=f"incarnation {was} was declared dead")
            up = Event(fact=Fact.NODE_UP, at=at, node=name, reason=f"incarnation {incarnation}")
            parts.teller.tell([up] if was is None else [fenced, up])

    def _trust_from(self, sent: float) -> None:
        # Counted from before the request was sent, and ended a check-in early: never longer than the others can believe.
        margin = min(self._interval, self._facts.lease // 4)
        self._parts.who.checked_in_at = sent
        self._parts.who.trusted_until = sent + (self._facts.lease - margin) / SECOND
        self._telling.renewed(self._parts.who.trusted_until)

    def step(self) -> float:
        """Check in once; answers the seconds until the next."""
        parts = self._parts
        sent = parts.clock.monotonic()
        held = parts.hand.held()
        try:
            answer = parts.store.transaction(
                "check-in", self._check_in, urgent=True, patience=self._deadline()
            )
        except StoreUnavailable as error:
            self._unheard(error)
            return max(0.05, self._interval / SECOND / 4)  # no growing back-off: it would make false deaths
        except StoreError as error:
            self._unheard(error)  # refused, its slots are missed as if the database were away
            raise
        except BaseException:
            self.steady_since = _NEVER
            raise
        self._heard(answer, sent)
        if not answer.renewed:
            if parts.stopping.is_set():  # it has just said that it stopped: no new incarnation for that
                return self._interval / SECOND
            self._fenced()
            return 0.0
        self._trust_from(sent)
        parts.who.live_nodes = max(1, answer.live)
        self._tell(answer, held)
        self._reconcile(answer.running)
        self._hold_lock()
        return max(0.0, self._interval / SECOND - (parts.clock.monotonic() - sent))

    def _deadline(self) -> float:
        return max(0.25, self._facts.lease / SECOND / 4)

    def _check_in(self, tx: Tx) -> Answer:
        parts = self._parts
        incarnation = parts.who.incarnation
        heard = hear(tx, incarnation)
        if heard is None:
            return Answer(False, tx.now(), 1, [])
        reds = self._telling.reds()
        said = Said(
            incarnation=incarnation,
            lease=self._facts.lease,
            running=parts.hand.running(),
            clock_offset=parts.who.offset,
            revision=self._facts.revision,
            undecidable=parts.definitions.undecidable_said(),
            unloadable=parts.definitions.unloadable_said(),
            session_lock=self._lock is not None and self._lock.held(tx, incarnation, heard.backend),
            health=json.dumps(dict(reds)) if reds else None,
        )
        renewed = check_in(tx, said)
        return Answer(
            renewed,
            tx.now(),
            heard.live,
            running_here(tx, incarnation) if renewed else [],
            heard.coordination,
            heard.drain_requested_at is not None,
            heard.drain_requested_by,
            heard.backend,
        )

    def _unheard(self, error: StoreError) -> None:
        parts = self._parts
        self.steady_since = _NEVER
        self.trouble = str(error)
        first, lasted = self._failing_since is None, self._episode.fails()
        if self._failing_since is None:
            self._failing_since = parts.clock.wall() + parts.who.offset
        if lasted is not None and first:
            log.warning("store.unavailable reason=%s", error)
        elif lasted is not None:
            log.warning("store.still_unavailable for=%.0fs reason=%s", lasted, error)
        if parts.clock.monotonic() >= parts.who.trusted_until and self._missed == 0:
            self._missed = 1
            log.error("node.untrusted: no check-in landed for a lease; nothing is begun until one does")

    def _heard(self, answer: Answer, sent: float) -> None:
        pooled = self._lock is not None and self._lock.off
        replaced = answer.backend != self._backend and not pooled
        if self.steady_since == _NEVER or (replaced and answer.renewed):
            self.steady_since = sent
        self._backend = answer.backend
        if self._failing_since is not None:
            self._parts.who.outages.append((self._failing_since, answer.now))
            del self._parts.who.outages[:-100]
            self._failing_since, self._missed, self.trouble = None, 0, None
            lasted = self._episode.over()
            if lasted is not None:
                log.info("store.available after=%.1fs due=%s", lasted, self._due(answer.now))
            self._telling.available()

    def _due(self, now: int) -> int | str:
        """How many triggers and firings wait for the planner, after an outage; counted up to a thousand of each."""
        try:
            seen = self._parts.store.read("look", lambda tx: look(tx, now), urgent=True)
        except SchedulerError:
            return "unknown"
        return seen.triggers_due + seen.firings_due

    def _tell(self, answer: Answer, held: set[tuple[int, int]]) -> None:
        """Tell what runs here what its row says: that it is to stop, or that it is not this node's any more."""
        for firing in answer.running:
            if firing.cancel_requested_at is not None:
                reason = OVERLAP if firing.cancel_requested_by == OVERLAP else INTERRUPT
                self._telling.cancel(firing.id, firing.fence, reason)
        # What was in hand before the rows were read is in them, unless somebody took it away, or it has ended meanwhile (its
        # end may have landed before this node knows that it has).
        strange = held - {(firing.id, firing.fence) for firing in answer.running}
        strange = {each for each in strange if self._parts.hand.runs(*each)}
        if fresh := strange - self._strange:
            log.error("check_in.not_ours firings=%s: their rows say so; they are told", len(fresh))
        for firing_id, fence in fresh:
            self._telling.cancel(firing_id, fence, LEASE_LOST)
        self._strange = strange
        if answer.drain_requested and not self._drains:
            self._drains = True
            self._telling.drain(answer.drain_requested_by)

    def _fenced(self) -> None:
        parts = self._parts
        old = parts.who.incarnation
        log.error("node.fenced incarnation=%s: declared dead by others; a new incarnation begins", old)
        parts.who.trusted_until = 0.0
        self._telling.cancel_all(LEASE_LOST)
        self._strange = parts.hand.held()  # they know by now
        self.register(old)
        self._let_go_of_lock(old)
        log.info("node.rejoined incarnation=%s", parts.who.incarnation)

    # -- the session lock ----------------------------------------------------------------------------------------------

    def _hold_lock(self) -> None:
        """Take it where this connection has not got it: in a transaction of its own, which may fail without harm."""
        lock, incarnation = self._lock, self._parts.who.incarnation
        if lock is None or not lock.wanted:
            return
        try:
            self._parts.store.transaction(
                "session lock",
                lambda tx: lock.hold(tx, incarnation),
                urgent=True,
                patience=self._deadline(),
            )
        except SchedulerError as error:
            if self._lock_failing.fails() is not None:
                log.warning("session_lock.not_taken reason=%s: the lease decides", error)
        else:
            self._lock_failing.over()

    def _let_go_of_lock(self, incarnation: int) -> None:
        lock = self._lock
        if lock is None:
            return
        try:
            self._parts.store.transaction(
                "session lock", lambda tx: lock.let_go(tx, incarnation), urgent=True, patience=0.0
            )
        except SchedulerError as error:
            log.info("session_lock.kept incarnation=%s reason=%s", incarnation, error)

    # -- hand and ledger -----------------------------------------------------------------------------------------------

    def _reconcile(self, running: list[OpenFiring]) -> None:
        """Rows that say they run here and that this process has never begun are released; takes in flight are left alone.

        The order matters: rows were read first, then takes in flight, then the hand. A take puts its rows in hand before it
        is out of flight, so no row of a take that is about to start can look unknown.
        """
        hand = self._parts.hand
        in_flight = hand.takes_in_flight()
        unknown = [
            (firing.id, firing.fence)
            for firing in running
            if firing.take_no not in in_flight and not hand.holds(firing.id, firing.fence)
        ]
        if not unknown:
            return
        incarnation = self._parts.who.incarnation
        try:
            released = self._parts.store.transaction(
                "reconcile",
                lambda tx: release(tx, incarnation, unknown),
                urgent=True,
                patience=self._deadline(),
            )
        except SchedulerError:
            return  # the next check-in finds them again
        if released:
            log.warning("reconcile.released firings=%s", released)
