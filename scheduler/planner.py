"""The planner: looks what is due, takes what this node has room for, hands it to the worker; `step()` says when again."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from .after_take import AfterTake, Fresh
from .context import RunRequest
from .due_order import reserve
from .led_planner import LedPlanner
from .looking import IDLE, Looking
from .parts import Parts
from .store.take_rows import Look, Wanted
from .taken import Order, Taken
from .taking import Taking

_BUSY_POLL = 0.25
_PATIENT = 8
_LARGE = 50
_UNLOOKED = 4
BATCH = 200
"""Rows a take locks of a kind, at most: larger ones gain little and hold their locks longer."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the planner tells others."""

    submit: Callable[[list[RunRequest]], None]
    loaded: Callable[[Fresh], None]
    """Jobs that were loaded for the first time: their policies complete the job rows."""
    more_due: Callable[[], None]
    """Due work is left that this node cannot start, or was made for others to start."""


class Planner:
    """One per node, one thread. Everything it writes is one transaction per take.

    Under row locks each node decides for itself. Where a leader decides, `LedPlanner` is asked.
    """

    def __init__(self, parts: Parts, hooks: Hooks) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._who = parts.who
        self._hand = parts.hand
        self._hooks = hooks
        after = AfterTake(parts, hooks.loaded)
        self._looking = Looking(parts)
        self._taking = Taking(parts, hooks.submit, after.draw)
        self._led = LedPlanner(parts, self._looking, self._taking, after, hooks.more_due)
        self._turn = False
        self._startless_at = 0.0
        self._in_vain = 0
        self._resume: tuple[int, int, int] | None = None
        self._backlog: Look | None = None
        self._unlooked = 0

    def step(self) -> float:
        """Look, and take what is due; answers the seconds after which to look again (0: at once)."""
        if not self._who.may_start(self._clock.monotonic()):
            return _BUSY_POLL
        if self._who.leader_mode:
            self._backlog = None
            return self._led.step()
        free = self._hand.free()
        if not free and self._clock.monotonic() < self._startless_at:
            return _BUSY_POLL  # full: a place that becomes free wakes us
        seen = self._look()
        if not seen.triggers_due + seen.firings_due:
            return self._looking.until(seen)
        taken = self._take(seen, free) if free else self._take_startless()
        if taken is None:
            return _BUSY_POLL
        if taken.left and self._who.live_nodes > 1 and not self._hand.free():
            self._hooks.more_due()
        return self._again(seen, taken)

    def _again(self, seen: Look, taken: Taken) -> float:
        if taken.moved:
            self._in_vain = 0
            return 0.0
        early = None if taken.left else self._looking.too_early(taken.now)
        if early is not None:
            return early
        # Due work that nobody could start here (busy jobs, full node, a pause that holds a retry): look again soon, but
        # do not spin on it, and after two seconds of that no more often than an idle node.
        self._in_vain += 1
        return min(_BUSY_POLL if self._in_vain < _PATIENT else IDLE, self._looking.until(seen))

    def _look(self) -> Look:
        if (known := self._backlog) is not None:
            self._backlog = None
            return known
        return self._looking.look()

    # -- taking ------------------------------------------------------------------------------------------------------

    def _take(self, seen: Look, free: int) -> Taken | None:
        due = seen.triggers_due + seen.firings_due
        share = -(
            -due // max(1, self._who.live_nodes)
        )  # ⌈due / live nodes⌉: no node takes what others can start
        limit = max(1, min(free, share, BATCH))
        wanted = self._looking.wanted(limit)
        order = Order(clocks=wanted, firings=wanted, capacity=min(free, limit), take_no=0)
        if due > limit:
            order = replace(order, on_time=self._reserve(wanted))
        taken = self._taking.run(replace(order, no_firings=not seen.firings_due))
        # A large, full take leaves a backlog: the next few need no look to know that there is something to take.
        rest_due = seen.triggers_due - limit
        full = taken is not None and len(taken.requests) == limit >= _LARGE
        self._unlooked = self._unlooked + 1 if full and rest_due > 0 and self._unlooked < _UNLOOKED else 0
        self._backlog = seen._replace(triggers_due=rest_due) if self._unlooked else None
        return taken

    def _reserve(self, wanted: Wanted) -> Wanted | None:
        """With a backlog half of the capacity serves what is on time; with one place they take turns."""
        if wanted.limit == 1:
            self._turn = not self._turn
        return reserve(wanted, self._looking.since(), self._turn)

    def _take_startless(self) -> Taken | None:
        self._startless_at = self._clock.monotonic() + _BUSY_POLL
        wanted = self._looking.wanted(BATCH)._replace(after=self._resume)
        taken = self._taking.run(Order(clocks=wanted, firings=wanted, capacity=0, take_no=0, startless=True))
        self._resume = None if taken is None else taken.resume
        return taken
