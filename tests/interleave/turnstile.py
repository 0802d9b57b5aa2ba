"""Lets two actors, each in a thread of its own, go on statement by statement, in the order that somebody else chooses.

An actor stops before each statement of its stores and before each COMMIT that others could notice. One that waits for a lock
is known by what the server says, never by a time-out: then the other goes on until the lock is free.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from qsched.scheduler.clock import SystemClock
from qsched.scheduler.store.database import Store
from sqlalchemy import event

from .accesses import BEGIN, COMMIT, READ, Step, Touched, met_by, together, touched_by
from .waiters import Waiters

_BEFORE_ASKING = 0.0015
"""Seconds in which most statements have their answer; only then is the server asked who waits."""
_ASK_EVERY = 0.0005
_STUCK = 60.0
"""Seconds after which it is no loaded machine any more."""

PARKED = "parked"
GOING = "going"
OVER = "over"


class Stuck(Exception):
    """The interleaver itself does not get on: neither stops an actor, nor does the server say that it waits."""


@dataclass
class Actor:
    """One of the two: what it does, and where it stands."""

    act: Callable[[], object]
    state: str = GOING
    step: Step | None = None
    """What it would do next, while it is parked; else what it does."""
    session: int = 0
    transaction: str = ""
    reading: bool = False
    touched: Touched = field(default_factory=dict)
    answer: object = None
    error: BaseException | None = None


@dataclass
class Event:
    """One thing that happened: a step was begun by a side."""

    side: int
    step: Step
    waited: bool = False
    """It had to wait for a lock of the other's."""
    failed: str | None = None
    """The database refused it: a deadlock, a unique key."""


Choose = Callable[[Sequence[int], Sequence[Step | None]], int]
"""Given the sides that can go on (one or two) and each side's next step: who goes on."""


class Turnstile:
    """Stops what the threads of actors send through the stores that it watches; all other threads pass."""

    def __init__(self, waiters: Waiters) -> None:
        self._waiters = waiters
        self._clock = SystemClock()
        self._here = threading.local()
        self._turn = threading.Condition()
        self._actors: list[Actor] = []
        self._next: Actor | None = None
        self.events: list[Event] = []

    # -- the stores ----------------------------------------------------------------------------------------------------

    def watch(self, store: Store) -> None:
        """Stop actors at this store's statements, on both of its lanes."""
        for verb in ("transaction", "read"):
            setattr(store, verb, self._named(getattr(store, verb), reading=verb == "read"))
        for lane in ("work", "check_in"):
            engine: Any = store._engine(lane)
            event.listen(engine, "before_cursor_execute", self._before_statement)
            event.listen(engine, "handle_error", self._after_error)
            dialect = engine.dialect
            vars(dialect)["do_commit"] = self._around_commit(dialect.do_commit)
            vars(dialect)["do_rollback"] = self._around_rollback(dialect.do_rollback)

    def _named(self, run: Callable[..., Any], *, reading: bool) -> Callable[..., Any]:
        def named(name: str, work: Callable[..., Any], **options: Any) -> Any:
            if (actor := self._actor()) is not None:
                actor.transaction, actor.reading = name, reading
            return run(name, work, **options)

        return named

    def _before_statement(self, conn: Any, cursor: Any, statement: str, *_: Any) -> None:
        actor = self._actor()
        if actor is not None:
            actor.session = _session_of(conn.connection.dbapi_connection)
            met = met_by(statement, actor.touched)
            self._stop(actor, Step(actor.transaction, statement, met, actor.reading))
            actor.touched = together(actor.touched, touched_by(statement))

    def _after_error(self, context: Any) -> None:
        if self._actor() is not None and self.events:
            mine = [each for each in self.events if self._actors[each.side] is self._actor()]
            mine[-1].failed = str(context.original_exception)

    def _around_commit(self, commit: Callable[[Any], None]) -> Callable[[Any], None]:
        def on_commit(connection: Any) -> None:
            actor = self._actor()
            # What only read has nothing to show and nothing to let go of.
            if actor is not None and any(how != READ for how in actor.touched.values()):
                self._stop(actor, Step(actor.transaction, COMMIT, actor.touched))
            commit(connection)
            if actor is not None:
                actor.touched = {}

        return on_commit

    def _around_rollback(self, roll_back: Callable[[Any], None]) -> Callable[[Any], None]:
        def on_rollback(connection: Any) -> None:
            roll_back(connection)
            if (actor := self._actor()) is not None:
                actor.touched = {}

        return on_rollback

    # -- the actors' threads -------------------------------------------------------------------------------------------

    def _actor(self) -> Actor | None:
        found: Actor | None = getattr(self._here, "actor", None)
        return found

    def _stop(self, actor: Actor, step: Step) -> None:
        with self._turn:
            actor.step, actor.state = step, PARKED
            self._turn.notify_all()
            while self._next is not actor:
                self._turn.wait()
            self._next = None
            actor.state = GOING

    def _run(self, actor: Actor) -> None:
        self._here.actor = actor
        # What it reads of its node's memory before its first statement is an act too.
        self._stop(actor, Step("", BEGIN, {}))
        try:
            actor.answer = actor.act()
        except BaseException as error:
            actor.error = error
        with self._turn:
            actor.state, actor.step = OVER, None
            self._turn.notify_all()

    # -- the director's thread -----------------------------------------------------------------------------------------

    def play(self, acts: Sequence[Callable[[], object]], choose: Choose) -> list[Actor]:
        """Run the acts to their ends, one statement at a time, as `choose` says; `events` tell what happened."""
        self.events = []
        self._actors = [Actor(act) for act in acts]
        threads = [threading.Thread(target=self._run, args=(actor,), daemon=True) for actor in self._actors]
        with self._turn:
            for thread in threads:
                thread.start()
            while True:
                self._until_they_stand()
                ready = [side for side, actor in enumerate(self._actors) if actor.state == PARKED]
                if not ready:
                    break
                self._let_go(choose(ready, [actor.step for actor in self._actors]))
        for thread in threads:
            thread.join()
        return self._actors

    def _let_go(self, side: int) -> None:
        actor = self._actors[side]
        assert actor.step is not None
        self.events.append(Event(side, actor.step))
        self._next = actor
        actor.state = GOING
        self._turn.notify_all()

    def _until_they_stand(self) -> None:
        """Until each actor is parked, at its end, or waits for a lock; two that wait for each other are let be parted."""
        patience, until = _BEFORE_ASKING, self._clock.monotonic() + _STUCK
        while self._clock.monotonic() < until:
            going = [actor for actor in self._actors if actor.state == GOING]
            if not going:
                return
            if self._turn.wait(patience):
                continue
            patience = _ASK_EVERY
            # Asked again afterwards: somebody may have come to a stand while the server was asked.
            waiting = self._waiters.among([actor.session for actor in going])
            going = [actor for actor in going if actor.state == GOING]
            if going and all(actor.session in waiting for actor in going):
                self._note_waiting(going)
                if len(going) < len([actor for actor in self._actors if actor.state != OVER]):
                    return
        raise Stuck(self._where())

    def _note_waiting(self, going: Sequence[Actor]) -> None:
        for each in reversed(self.events):
            if self._actors[each.side] in going:
                each.waited = True
                going = [actor for actor in going if actor is not self._actors[each.side]]

    def _where(self) -> str:
        return "; ".join(f"{actor.state} at {actor.step}" for actor in self._actors)


def _session_of(connection: Any) -> int:
    """The server's number of a connection."""
    if hasattr(connection, "thread_id"):
        return int(connection.thread_id())
    return int(connection.info.backend_pid)
