"""The check-in: a node proves every second that it lives, hears what is asked of it, and compares hand and ledger.

Own thread, own connection. Finding no row to renew means that others declared this node dead: then all that runs is told,
and the node goes on under a new incarnation.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from ..scheduler.errors import LEASE_LOST, SchedulerError, StoreUnavailable
from ..scheduler.parts import Parts
from ..scheduler.store.finish import release
from ..scheduler.store.firing_rows import OpenFiring, running_here
from ..scheduler.store.node_rows import CheckIn as Said
from ..scheduler.store.node_rows import NodeFacts, check_in, count_live, register
from ..scheduler.store.tx import Tx
from ..triggers.instant import SECOND

log = logging.getLogger("qsched.check_in")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a check-in heard."""

    renewed: bool
    now: int
    live: int
    running: list[OpenFiring]


@dataclass(frozen=True, slots=True)
class Telling:
    """Whom a check-in tells: one firing to stop, or all of them."""

    cancel: Callable[[int, int, str], None]
    """(firing id, fence, reason)"""
    cancel_all: Callable[[str], None]
    available: Callable[[], None] = lambda: None
    """The database answers again."""


class CheckInService:
    """One per node. `interval` and `lease` in µs."""

    def __init__(self, parts: Parts, facts: NodeFacts, interval: int, telling: Telling) -> None:
        self._parts = parts
        self._facts = facts
        self._interval = interval
        self._telling = telling
        self._failing_since: int | None = None
        self._missed = 0

    def register(self) -> None:
        """Begin a new incarnation."""
        parts = self._parts
        sent = parts.clock.monotonic()
        incarnation, name = parts.store.transaction(
            "register", lambda tx: register(tx, self._facts), urgent=True
        )
        parts.who.incarnation = incarnation
        parts.who.name = name
        self._trust_from(sent)

    def _trust_from(self, sent: float) -> None:
        # Counted from before the request was sent, and ended a check-in early: never longer than the others can believe.
        margin = min(self._interval, self._facts.lease // 4)
        self._parts.who.trusted_until = sent + (self._facts.lease - margin) / SECOND

    def step(self) -> float:
        """Check in once; answers the seconds until the next."""
        parts = self._parts
        sent = parts.clock.monotonic()
        try:
            answer = parts.store.transaction(
                "check-in", self._check_in, urgent=True, patience=self._deadline()
            )
        except StoreUnavailable as error:
            self._unheard(error)
            return max(0.05, self._interval / SECOND / 4)  # no growing back-off: it would make false deaths
        self._heard(answer)
        if not answer.renewed:
            self._fenced()
            return 0.0
        self._trust_from(sent)
        parts.who.live_nodes = max(1, answer.live)
        for firing in answer.running:
            if firing.cancel_requested_at is not None:
                self._telling.cancel(firing.id, firing.fence, "cancel requested")
        self._reconcile(answer.running)
        return max(0.0, self._interval / SECOND - (parts.clock.monotonic() - sent))

    def _deadline(self) -> float:
        return max(0.25, self._facts.lease / SECOND / 4)

    def _check_in(self, tx: Tx) -> Answer:
        parts = self._parts
        said = Said(
            incarnation=parts.who.incarnation,
            lease=self._facts.lease,
            running=parts.hand.running(),
            clock_offset=parts.who.offset,
            revision=self._facts.revision,
            undecidable=parts.definitions.undecidable_said(),
            unloadable=parts.definitions.unloadable_said(),
        )
        renewed = check_in(tx, said)
        if not renewed:
            return Answer(False, tx.now(), 1, [])
        return Answer(True, tx.now(), count_live(tx), running_here(tx, parts.who.incarnation))

    def _unheard(self, error: StoreUnavailable) -> None:
        parts = self._parts
        if self._failing_since is None:
            self._failing_since = parts.clock.wall() + parts.who.offset
            log.warning("store.unavailable reason=%s", error)
        if parts.clock.monotonic() >= parts.who.trusted_until and self._missed == 0:
            self._missed = 1
            log.error("node.untrusted: no check-in landed for a lease; nothing is begun until one does")

    def _heard(self, answer: Answer) -> None:
        if self._failing_since is not None:
            self._parts.who.outages.append((self._failing_since, answer.now))
            del self._parts.who.outages[:-100]
            log.info("store.available after=%.1fs", (answer.now - self._failing_since) / SECOND)
            self._failing_since, self._missed = None, 0
            self._telling.available()

    def _fenced(self) -> None:
        parts = self._parts
        log.error(
            "node.fenced incarnation=%s: declared dead by others; a new incarnation begins",
            parts.who.incarnation,
        )
        parts.who.trusted_until = 0.0
        self._telling.cancel_all(LEASE_LOST)
        self.register()
        log.info("node.rejoined incarnation=%s", parts.who.incarnation)

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
