"""The elector: whether this node leads. It stands, renews, resigns, and sees to it that a cluster without Redis goes on.

Believed is only what was renewed in time: a term ends by this node's own monotonic clock before anybody else can win the
lease. That saves work; what makes it safe is the epoch in the database, which each planning transaction holds on to.
"""

import json
import logging
from collections.abc import Callable
from typing import NamedTuple

from ..scheduler.episode import Episode
from ..scheduler.identity import Term
from ..scheduler.parts import Parts
from ..scheduler.store.cluster_rows import (
    LEADER,
    REDIS,
    SQL,
    Coordination,
    LeaderSeen,
    fall_back,
    in_words,
    look_at_leader,
)
from ..triggers.instant import SECOND
from .errors import LeaseUnavailable
from .lease import Lease
from .settings import STOP

_HOLD_OFF = 6
"""For so many ttl a node that could not do a leader's work leaves it to others."""
_UNABLE_AFTER = 2
"""After so many ttl without a plan that worked a leader cannot do its work."""
_SELDOM = 5.0
_SOON = 0.02
_AFTER_EXPIRY = 0.005

log = logging.getLogger("qsched.leader")


class Election(NamedTuple):
    """How a node takes part: durations in µs."""

    check_in: int
    ttl: int
    on_redis_loss: str = "row_locks"


class _Held(NamedTuple):
    """A term and the incarnation that won it."""

    incarnation: int
    term: Term


class Elector:
    """One per node, in a loop of its own. `lease` is what this node could lead by; None: it never stands.

    `changed` is told when this node begins to lead, or the cluster's way of deciding changes.
    """

    def __init__(
        self,
        parts: Parts,
        lease: Lease | None,
        election: Election,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._parts = parts
        self._lease = lease
        self._election = election
        self._changed = changed
        self._held: _Held | None = None
        self._stands_from = float("-inf")
        self._unavailable: str | None = None
        self._episode = Episode(parts.clock)
        self._still: tuple[int, int | None] | None = None
        self._still_since = 0.0
        self._told_leaderless = False
        self._fallen_back = False

    @property
    def trouble(self) -> str | None:
        """Why the lease cannot be asked for, or that nobody leads; None while all is well."""
        missing = "nobody leads: nothing is decided until somebody does" if self._told_leaderless else None
        return self._unavailable or missing

    # -- the service -----------------------------------------------------------------------------------------------------

    def step(self) -> float:
        """Look, and lead, stand or wait; answers the seconds after which to look again."""
        self._end_by_deadline()  # first of all: also a process that stood still has to know that its time is over
        looked = self._parts.clock.monotonic()
        seen = self.look()
        if self._held is not None:
            self._lead(self._held, seen.row)
        if seen.row.mode != LEADER:
            return _SELDOM
        if self._held is None:
            self._stand(seen)
        # Who does not answer is asked for a quarter of a ttl: how long the row is silent is judged by what the time is then.
        seen = seen._replace(now=seen.now + round((self._parts.clock.monotonic() - looked) * SECOND))
        if self._held is None and self._is_leaderless(seen):
            self._fall_back(seen.row)
        return self._wait(seen)

    def look(self) -> LeaderSeen:
        """How the nodes agree now, and what the leader leaves to others."""
        seen = self._parts.store.read("coordination", look_at_leader)
        who, row = self._parts.who, seen.row
        by_leader, before = row.by_leader, who.leader_mode
        who.leader_mode = by_leader
        ours = row.leader == who.incarnation
        who.left_by_leader = frozenset() if ours or not by_leader else _ids(seen.undecidable)
        who.strange_to_leader = frozenset() if ours or not by_leader else _ids(seen.unloadable)
        if (row.fallen_back_at is not None) is not self._fallen_back:
            self._fallen_back = row.fallen_back_at is not None
            if self._fallen_back:
                log.warning("leader.none: row locks for the time being, until a leader is elected again")
            else:
                log.warning("leader.again: row locks are over, %s", in_words(row.mode, row.elector))
        if by_leader is not before:
            self._changed()
        return seen

    def resign(self, reason: str) -> None:
        """Lead no more from now on, and say so, so that another can lead at once."""
        held, self._held, self._parts.who.term = self._held, None, None
        if held is None or self._lease is None:
            return
        log.info("leader.resigned epoch=%s reason=%s", held.term.epoch, reason)
        try:
            self._lease.release(*held)
        except LeaseUnavailable as error:
            log.info("leader.lease_left reason=%s: it ends by itself", error)

    # -- leading -----------------------------------------------------------------------------------------------------------

    def _lead(self, held: _Held, row: Coordination) -> None:
        who, now = self._parts.who, self._parts.clock.monotonic()
        if who.incarnation != held.incarnation:
            self.resign("this node was declared dead")
        elif (
            who.term is None
            or not row.by_leader
            or (row.leader, row.epoch) != (held.incarnation, held.term.epoch)
        ):
            self._step_down(f"the cluster is at epoch {row.epoch}")
        elif who.draining:
            self.resign("this node drains")
        elif self._is_unable(now):
            self._stands_from = now + self._hold_off()
            log.error(
                "leader.unable: nothing could be planned for %.0f s; another may lead", self._unable_after
            )
            self.resign("it cannot plan")
        elif self._is_heard(now):
            self._renew(held)

    def _renew(self, held: _Held) -> None:
        assert self._lease is not None
        try:
            renewed = self._lease.renew(*held)
        except LeaseUnavailable as error:
            self._troubled(error)
            return
        self._untroubled()
        if renewed is None:
            self._step_down("the lease is not ours any more")
            return
        # The planner may just have found another epoch in the database; but this one was renewed there, and is ours.
        self._held, self._parts.who.term = _Held(held.incarnation, renewed), renewed

    def _step_down(self, reason: str) -> None:
        epoch = None if self._held is None else self._held.term.epoch
        log.warning("leader.lost epoch=%s reason=%s", epoch, reason)
        self._held = self._parts.who.term = None

    def _end_by_deadline(self) -> None:
        if self._held is not None and self._parts.clock.monotonic() >= self._held.term.until:
            self._step_down("it could not be renewed in time")

    @property
    def _ttl(self) -> float:
        return self._election.ttl / SECOND

    @property
    def _unable_after(self) -> float:
        return _UNABLE_AFTER * self._ttl

    def _is_unable(self, now: float) -> bool:
        """Whether planning has failed for long, while the database hears this node."""
        return self._is_heard(now) and now - self._parts.who.planned_at > self._unable_after

    def _hold_off(self) -> float:
        return self._ttl * (_HOLD_OFF if self._parts.who.live_nodes > 1 else 1)

    def _is_heard(self, now: float) -> bool:
        """Whether this node's own check-in has landed lately. Else Redis would keep a leader whom the database has lost."""
        return now - self._parts.who.checked_in_at < self._ttl

    # -- standing ----------------------------------------------------------------------------------------------------------

    def _stand(self, seen: LeaderSeen) -> None:
        lease, who, now = self._lease, self._parts.who, self._parts.clock.monotonic()
        if lease is None or lease.elector != seen.row.elector or not who.may_start(now):
            return
        if now < self._stands_from or not self._is_heard(now) or self._is_led(seen):
            return
        incarnation = who.incarnation
        try:
            term = lease.acquire(incarnation)
        except LeaseUnavailable as error:
            self._troubled(error)
            return
        self._untroubled()
        if term is None:
            return
        self._told_leaderless = False
        who.planned_at = self._parts.clock.monotonic()  # its time to show that it can begins now
        who.left_by_leader = who.strange_to_leader = frozenset()
        who.leader_mode = True
        self._held, who.term = _Held(incarnation, term), term
        log.info("leader.elected epoch=%s by=%s", term.epoch, lease.elector)
        self._changed()

    def _is_led(self, seen: LeaderSeen) -> bool:
        """Whether the row says plainly that the SQL lease is another's: to ask for it would lock the row for nothing."""
        row = seen.row
        others = row.leader is not None and row.leader != self._parts.who.incarnation
        return row.elector == SQL and others and seen.lives and (row.leader_until or 0) > seen.now

    def _troubled(self, error: LeaseUnavailable) -> None:
        self._unavailable = str(error)
        lasted = self._episode.fails()
        if lasted is not None:
            log.warning("leader.lease_unavailable for=%.0fs reason=%s", lasted, error)

    def _untroubled(self) -> None:
        self._unavailable = None
        lasted = self._episode.over()
        if lasted is not None:
            log.info("leader.lease_available after=%.1fs", lasted)

    # -- without a leader --------------------------------------------------------------------------------------------------

    def _is_leaderless(self, seen: LeaderSeen) -> bool:
        """Whether nobody has led for two ttl: by the database's time, and as this node has seen the row stand still.

        A node that sees for itself that Redis does not answer waits no longer. One that does not know leaves it to those
        who do for two ttl more: there may be a leader again at any moment.
        """
        row, now = seen.row, self._parts.clock.monotonic()
        key = (row.epoch, row.leader_until)
        if self._still != key:
            self._still, self._still_since, self._told_leaderless = key, now, False
        if row.elector != REDIS or not row.by_leader or not self._is_silent(row, seen.now):
            return False
        patience = self._election.check_in / SECOND if self._unavailable is not None else 4 * self._ttl
        return now - self._still_since >= patience

    def _is_silent(self, row: Coordination, now: int) -> bool:
        return row.leader_until is None or row.leader_until + self._election.ttl <= now

    def _fall_back(self, row: Coordination) -> None:
        reason = self._unavailable or "nobody has won the lease"
        if self._election.on_redis_loss == STOP:
            if not self._told_leaderless:
                log.error("leader.missing reason=%s: nothing is decided until there is one (stop)", reason)
            self._told_leaderless = True
            return
        fallen = self._parts.store.transaction("fall back", lambda tx: fall_back(tx, row.epoch))
        if fallen:
            log.error("leader.fallback reason=%s: the nodes go on with row locks", reason)
            self._fallen_back = True
            self._parts.who.leader_mode = False
            self._changed()

    def _wait(self, seen: LeaderSeen) -> float:
        """Until the next look: a leader's in time to renew, the others' when the lease may be free, or the row is silent."""
        often = self._election.check_in / SECOND
        if self._held is not None:
            return min(often, self._ttl / 4)
        until = seen.row.leader_until or 0
        ahead = [(instant - seen.now) / SECOND for instant in (until, until + self._election.ttl)]
        return min([often, *(max(_SOON, each + _AFTER_EXPIRY) for each in ahead if each > 0)])


def _ids(said: str | None) -> frozenset[int]:
    """What a node row says it cannot do: the numbers of JSON {id: [since, reason]}."""
    try:
        found = json.loads(said) if said else {}
        return frozenset(int(key) for key in found)
    except (ValueError, TypeError):
        return frozenset()
