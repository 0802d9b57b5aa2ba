"""The planner where a leader decides: the leader makes due what the live nodes can start, and each node takes its share.

A leader plans also when it is full itself. What it says it cannot decide, and whose job it cannot load, the others see to.
"""

from collections.abc import Callable, Collection

from .after_take import AfterTake
from .due_order import reserve
from .identity import Term
from .looking import IDLE, Looking
from .parts import Parts
from .store.take_rows import Look, Wanted
from .taken import Order, Taken
from .taking import Taking

WINDOW = 200
"""Rows a plan or a take locks of a kind, at most."""
HEAD_START = 0.03
"""Seconds for which a leader that has taken its share leaves what it made due to the others."""
_BUSY_POLL = 0.25
_SOON = 0.02
"""Seconds until the first look after one in vain: a follower waits for a leader that is about to plan."""
_PATIENT = 12
_MEET = 5.0
_NOBODY = 1.0
"""Seconds for which what no live node can run is not looked at."""
_NONE = Wanted(0, only=())


class LedPlanner:
    """One per node, stepped by its planner while the cluster is in leader mode."""

    def __init__(
        self,
        parts: Parts,
        looking: Looking,
        taking: Taking,
        after: AfterTake,
        more_due: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._who = parts.who
        self._clock = parts.clock
        self._looking = looking
        self._taking = taking
        self._after = after
        self._more_due = more_due
        self._turn = self._taking_turn = False
        self._in_vain = 0
        self._plan_from = self._rests_until = float("-inf")
        self._resume: tuple[int, int, int] | None = None
        self._full = False
        self._nobody: dict[int, float] = {}
        self._met: frozenset[int] = frozenset()
        self._meet_from = 0.0

    def step(self) -> float:
        """Look, plan if this node leads, take a share; answers the seconds after which to look again."""
        now, free = self._clock.monotonic(), self._parts.hand.free()
        term = self._who.term if self._who.leads(now) else None
        if term is None and not free:
            return _BUSY_POLL  # a place that becomes free wakes us
        if term is None:
            self._meet_strangers(now)
        seen = self._looking.look()
        planned = None
        # A place of its own that is free needs no waiting for those of others.
        if term is not None and seen.triggers_due and (free or now >= self._plan_from):
            planned = self._plan(seen, term)
        if self._who.leads(self._clock.monotonic()):
            self._who.planned_at = self._clock.monotonic()
        if planned is not None and planned.to_load:
            return 0.0  # with these jobs loaded the plan is made anew, before a backlog of other firings has all places
        due = seen.firings_due + (planned.due if planned is not None else 0)
        left = frozenset() if term is not None else self._who.left_by_leader
        resting = self._clock.monotonic() < self._rests_until
        taken = self._take(due, free, left) if free and not resting and (due or left) else None
        if planned is not None and planned.due and not resting and self._who.live_nodes > 1:
            # Its own announcement wakes this node as well: that must not end the head start of the others. Nor is it
            # lengthened by what is planned meanwhile, or a leader with much to plan would never take anything.
            self._rests_until = self._clock.monotonic() + HEAD_START
        return self._again(seen, planned, taken)

    def _again(self, seen: Look, planned: Taken | None, taken: Taken | None) -> float:
        rest = self._rests_until - self._clock.monotonic()
        if rest > 0:
            self._in_vain = 0
            return rest
        done = [each for each in (planned, taken) if each is not None]
        if any(each.moved for each in done):
            self._in_vain = 0
            return 0.0
        if not seen.triggers_due + seen.firings_due:
            return self._looking.until(seen)
        for each in done:
            early = None if each.left else self._looking.too_early(each.now)
            if early is not None:
                return early
        self._in_vain += 1
        if self._in_vain == 2 and self._who.live_nodes > 1:
            self._more_due()  # a place is free here, or due work is left: the leader, or somebody else, may not know
        if planned is not None and planned.resume is not None:
            return _SOON
        patience = self._in_vain < _PATIENT or self._full
        wait = min(_SOON * 2 ** min(self._in_vain - 1, 10), _BUSY_POLL) if patience else IDLE
        return min(wait, self._looking.until(seen))

    # -- leading -----------------------------------------------------------------------------------------------------

    def _plan(self, seen: Look, term: Term) -> Taken | None:
        # What this node cannot load it decides all the same: whoever can load it takes it.
        wanted = self._looking.wanted(WINDOW)
        parked = {*wanted.parked, *self._nobody_can()}
        planned = self._taking.run(
            Order(
                clocks=wanted._replace(parked=parked, unloadable=(), after=self._resume),
                firings=_NONE,
                capacity=0,
                take_no=0,
                term=term,
                due=seen.triggers_due,
                since=self._looking.since(),
                turn=self._turn,
                full=self._full,
            )
        )
        now = self._clock.monotonic()
        if planned is None:
            self._resume, self._full = None, False
            return None
        self._resume, self._full = planned.resume, planned.full
        self._nobody |= dict.fromkeys(planned.nobody, now + _NOBODY)
        if planned.full:
            self._plan_from = now + min(_SOON * 2 ** min(self._in_vain, 10), _BUSY_POLL)
        if planned.due:
            self._turn = not self._turn
            if self._who.live_nodes > 1:
                self._more_due()
        return planned

    def _nobody_can(self) -> Collection[int]:
        """Triggers that a moment ago no live node could run: they stay undecided, and in nobody's way."""
        now = self._clock.monotonic()
        self._nobody = {key: again for key, again in self._nobody.items() if again > now}
        return self._nobody.keys()

    # -- taking ------------------------------------------------------------------------------------------------------

    def _take(self, due: int, free: int, left: Collection[int]) -> Taken | None:
        """Take of what is due; and decide, as under row locks, what the leader cannot."""
        share = -(-(due + len(left)) // max(1, self._who.live_nodes))
        limit = max(1, min(free, share, WINDOW))
        wanted = self._looking.wanted(limit)
        clocks, on_time = _NONE, None
        if left:
            clocks = wanted._replace(only=sorted(left))
        elif due > limit:
            self._taking_turn = not self._taking_turn
            on_time = reserve(wanted, self._looking.since(), self._taking_turn)
        return self._taking.run(
            Order(
                clocks=clocks,
                firings=wanted,
                capacity=limit,
                take_no=0,
                no_firings=not due,
                no_clocks=not left,
                on_time=on_time,
            )
        )

    def _meet_strangers(self, now: float) -> None:
        """Load the jobs that the leader cannot: what their code says of them reaches their rows."""
        strange = self._who.strange_to_leader
        if not strange or (strange <= self._met and now < self._meet_from):
            return
        self._met, self._meet_from = strange, now + _MEET
        known = self._parts.definitions
        jobs, database_now = self._parts.store.read("jobs", lambda tx: (known.jobs(tx, strange), tx.now()))
        unknown = {job_id for job_id, job in jobs.items() if known.loaded(job) is None}
        self._after.load(unknown - known.unloadable(), database_now)
