"""The rescuer: watches the other nodes, declares dead who is, and ends what the dead were running; on every node.

What a dead node ran is due again at once where its job asks for recovery, `recovering`, with the same slot and idempotency
key; else it is `lost`. Continuously: whatever runs under an incarnation that does not live is found, whoever left it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..triggers.instant import SECOND
from .episode import Episode
from .errors import SchedulerError, StoreUnavailable
from .events import Event, Fact
from .firing import CANCELLED, DUE, LOST
from .parts import Parts
from .settled import end_of
from .store.finish import Ending, finish_ours
from .store.firing_rows import OpenFiring, names_of
from .store.node_rows import share_alive
from .store.rescue_rows import NOBODY, Observed, Owner, adopt, mark_dead, observed, orphans, owners, suspect
from .store.tx import Tx
from .suspicion import Suspicions, Verdict
from .sweeper import Sweeper
from .trail import facts_of_end

CHUNK = 200
"""Firings that are ended in one transaction."""
_MOST = 1000
"""Orphans that are read at once."""

log = logging.getLogger("qsched.rescuer")


@dataclass(frozen=True, slots=True)
class Senses:
    """What the rescuer learns from others, and whom it tells."""

    gone: Callable[[Sequence[Observed]], Mapping[int, bool]] = lambda _: {}
    """{incarnation: whether that is certain} of those that seem to be gone."""
    steady_since: Callable[[], float] = lambda: float("-inf")
    """Monotonic seconds since which this node's own check-ins have landed; only what was seen since then counts."""
    rescued: Callable[[], None] = lambda: None
    """Something is due again, or may start now."""


class Rescuer:
    """One per node, in a loop of its own. `interval` in µs."""

    def __init__(self, parts: Parts, interval: int, senses: Senses) -> None:
        self._parts = parts
        self._interval = interval / SECOND
        self._senses = senses
        self._suspicions = Suspicions(self._interval)
        self._steady = float("-inf")
        self._seen_before: set[tuple[int, int]] = set()
        self._refused: set[int] = set()
        self._failing = Episode(parts.clock)
        self._sweeper = Sweeper(parts, senses.rescued)
        self._sweep_failing = Episode(parts.clock)

    def step(self) -> float:
        """Look at the others, end what is to be ended; answers the seconds until the next look."""
        parts = self._parts
        sent = parts.clock.monotonic()
        if sent >= parts.who.trusted_until:
            self._suspicions.forget()  # who may be dead himself declares nobody dead
            return self._interval
        try:
            nodes, now = parts.store.read("observe", lambda tx: (observed(tx), tx.now()))
            answered = parts.clock.monotonic()
            self._watch(nodes, now, (sent, answered))
            self._rescue(now)
        except StoreUnavailable:
            self._suspicions.forget()
            raise
        self._sweep(nodes, now)
        return max(0.0, self._suspicions.next_look() - (parts.clock.monotonic() - answered))

    def _sweep(self, nodes: Sequence[Observed], now: int) -> None:
        """What the sweeper fails of must not keep the rescuer from its own work."""
        try:
            self._sweeper.step(nodes, now)
        except StoreUnavailable:
            raise
        except Exception as error:
            if self._sweep_failing.fails() is not None:
                log.error("sweep.failed reason=%s", error, exc_info=not isinstance(error, SchedulerError))
        else:
            self._sweep_failing.over()

    # -- dead verdicts -------------------------------------------------------------------------------------------------

    def _watch(self, nodes: list[Observed], now: int, between: tuple[float, float]) -> None:
        suspicions, me = self._suspicions, self._parts.who.incarnation
        if (steady := self._senses.steady_since()) != self._steady:
            self._steady = steady
            suspicions.forget()
        if steady > between[0]:
            return  # one's own check-ins fail
        suspicions.look([node for node in nodes if node.incarnation != me], now=now, between=between)
        suspects = suspicions.suspects()
        suspicions.found(self._senses.gone(suspects) if suspects else {})
        for node in suspicions.newly_silent():
            self._parts.store.transaction("suspect", lambda tx, n=node: suspect(tx, n))  # type: ignore[misc]
        for verdict in suspicions.verdicts():
            self._declare(verdict)

    def _declare(self, verdict: Verdict) -> None:
        node, me = verdict.node, self._parts.who.incarnation

        verdict_at: list[int] = []

        def mark(tx: Tx) -> bool:
            verdict_at.append(tx.now())
            return share_alive(tx, me) and mark_dead(
                tx, node, verdict=verdict.verdict, by=me, certain=verdict.certain
            )

        if self._parts.store.transaction("mark dead", mark):
            log.warning(
                "node.dead name=%s incarnation=%s verdict=%s", node.name, node.incarnation, verdict.verdict
            )
            if self._parts.teller.heard:
                at, reason = verdict_at[-1], f"incarnation {node.incarnation} is {verdict.verdict}"
                self._parts.teller.tell([Event(fact=Fact.NODE_DEAD, at=at, node=node.name, reason=reason)])

    # -- what the dead were running ------------------------------------------------------------------------------------

    def _rescue(self, now: int) -> None:
        """End what runs under nobody, in chunks of one transaction each."""
        parts, hand = self._parts, self._parts.hand
        seen: set[tuple[int, int]] = set()
        while True:
            limit = _MOST + hand.running()
            found, who = parts.store.read("orphans", lambda tx, most=limit: self._orphans(tx, most, now))  # type: ignore[misc]
            seen |= {(firing.id, firing.fence) for firing in found}
            mine = [self._adopted(firing) for firing in found if self._is_mine(firing, who)]
            ended = sum(self._end(mine[start : start + CHUNK], who) for start in range(0, len(mine), CHUNK))
            if len(found) < limit or not ended:
                break
        self._seen_before = seen

    def _orphans(self, tx: Tx, limit: int, now: int) -> tuple[list[OpenFiring], dict[int, Owner]]:
        found = orphans(tx, limit, now)
        return found, owners(tx, {firing.incarnation for firing in found if firing.incarnation is not None})

    def _is_mine(self, firing: OpenFiring, who: Mapping[int, Owner]) -> bool:
        """Whether this node ends it now: its owner was declared dead here, or it was there at the last look already.

        So two rescuers seldom meet on one firing; one that vanishes half-way is replaced by all others; and a live node
        whose row somebody deleted has had its check-in to notice. What a body of an earlier life of this very process
        still runs is left to it: it must not run beside itself here.
        """
        if self._parts.hand.holds(firing.id, firing.fence):
            return False
        owner = who.get(firing.incarnation or NOBODY)
        mine = owner is not None and owner.marked_by == self._parts.who.incarnation
        return mine or (firing.id, firing.fence) in self._seen_before

    def _adopted(self, firing: OpenFiring) -> OpenFiring:
        """One that runs under nobody at all is nobody's first: an end compares the incarnation, and none equals NULL."""
        if firing.incarnation is not None:
            return firing
        self._parts.store.transaction("sweep", lambda tx: adopt(tx, firing.id, firing.fence))
        return firing._replace(incarnation=NOBODY)

    def _end(self, firings: list[OpenFiring], who: Mapping[int, Owner]) -> int:
        """How many it were: none where this node was declared dead itself."""
        try:
            ended = self._write(firings, who)
        except StoreUnavailable:
            raise
        except Exception as error:
            if self._failing.fails() is not None:
                bug = not isinstance(error, SchedulerError)
                log.error(
                    "rescue.failed firings=%s reason=%s; repeated one by one",
                    *(len(firings), error),
                    exc_info=bug,
                )
            ended = [each for firing in firings for each in self._end_alone(firing, who)]
        else:
            self._failing.over()
        if not ended:
            return 0
        again = [ending for ending in ended if ending.state == DUE]
        log.warning(
            "rescue firings=%s due_again=%s ended=%s first=%s %s",
            *(len(ended), len(again), len(ended) - len(again), ended[0].firing_id, ended[0].note),
        )
        self._tell(ended, who)
        self._senses.rescued()
        return len(ended)

    def _tell(self, ended: list[Ending], who: Mapping[int, Owner]) -> None:
        teller = self._parts.teller
        if not teller.heard:
            return
        names = self._parts.store.read(
            "names", lambda tx: names_of(tx, [ending.firing_id for ending in ended])
        )
        for ending in ended:
            trigger, job = names.get(ending.firing_id, (None, None))
            owner = who.get(ending.incarnation)
            about = Event(
                fact=Fact.LOST,
                at=ending.finished_at,
                trigger=trigger,
                job=job,
                firing=ending.firing_id,
                fence=ending.fence,
                node=None if owner is None else owner.name,
            )
            teller.tell(facts_of_end(end_of(ending, ending.attempt), about))

    def _end_alone(self, firing: OpenFiring, who: Mapping[int, Owner]) -> list[Ending]:
        """A chunk is not as weak as its worst row: one that cannot be due again is lost, visibly."""
        for final in (False, True):
            try:
                return self._write([firing], who, final=final)
            except StoreUnavailable:
                raise
            except Exception as error:
                if final and firing.id not in self._refused:  # once, not per look
                    self._refused.add(firing.id)
                    log.critical("rescue.refused firing=%s reason=%s", firing.id, error)
        return []

    def _write(
        self, firings: list[OpenFiring], who: Mapping[int, Owner], *, final: bool = False
    ) -> list[Ending]:
        me = self._parts.who.incarnation

        def work(tx: Tx) -> list[Ending]:
            if not share_alive(tx, me):
                return []
            endings = [_ending(firing, who, tx.now(), final=final) for firing in firings]
            return list(finish_ours(tx, endings).values())

        return self._parts.store.transaction("rescue", work)


def _ending(firing: OpenFiring, who: Mapping[int, Owner], now: int, *, final: bool) -> Ending:
    state, rest = _judged(firing, final=final)
    return Ending(
        firing.id,
        firing.incarnation or NOBODY,
        firing.fence,
        firing.stops_with,
        firing.permit_key,
        state,
        LOST,
        now,
        note=f"lost: {_why(who.get(firing.incarnation or NOBODY))}; {rest}",
        run_at=now if state == DUE else None,
        attempt=firing.attempt,
        next_attempt=firing.attempt,
        refires=firing.refires,
        recoveries=firing.recoveries + int(state == DUE),
        recovering=firing.recoveries > 0,
        started_at=firing.started_at,
        next_at=firing.next_at,
        limit_key=firing.limit_key,
        job_id=firing.job_id,
        followed=True,
        delayed=True,
    )


def _judged(firing: OpenFiring, *, final: bool) -> tuple[str, str]:
    """(its next state, why) of a firing whose node is gone; bounded, lest one that kills its node kill them all."""
    if firing.cancel_requested_at is not None:
        return CANCELLED, "it had been asked to stop"
    if not firing.request_recovery:
        return LOST, "the job does not ask for recovery"
    if firing.recoveries >= firing.max_recoveries:
        return LOST, f"recovered {firing.recoveries} times already"
    return (LOST, "it could not be written as due") if final else (DUE, "due again for any node")


def _why(owner: Owner | None) -> str:
    if owner is None:
        return "its node has no row"
    verdict = f" ({owner.verdict})" if owner.verdict else ""
    return f"node {owner.name} is {owner.state}{verdict}"
