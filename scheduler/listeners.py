"""Who listens to a node's events in its process, and their delivery: in order, by one thread, to the cost of nobody else."""

import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from ..triggers.errors import DefinitionError
from .clock import Clock, SystemClock
from .episode import Episode
from .events import Event

Listener = Callable[[Event], object]

MOST_WAITING: Final = 10_000
"""Events that wait for listeners that are slow; beyond that the oldest are dropped."""
DRAIN_WITHIN: Final = 1.0
"""Seconds for which a clean stop waits for the last of them."""

log = logging.getLogger("qsched.events")


def _check(function: object) -> None:
    name = getattr(function, "__qualname__", repr(function))
    if not callable(function):
        raise DefinitionError(f"a listener is called with an Event, and {name} cannot be called")
    if inspect.iscoroutinefunction(function):
        raise DefinitionError(f"listener {name} is async, and a thread calls it: write a def")


class Audience:
    """Who listens; outlives the starts and stops of its node. Any thread may ask it."""

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self.listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()
        for each in listeners:
            self.add(each)

    def add(self, function: Listener) -> Callable[[], None]:
        """Have it called with every event from now on; answers what ends that. Raises DefinitionError."""
        _check(function)
        with self._lock:  # copied on write: whoever delivers has a tuple of its own
            self.listeners = (*self.listeners, function)

        left = False

        def unlisten() -> None:
            nonlocal left
            with self._lock:
                rest = list(self.listeners)
                if not left and function in rest:
                    rest.remove(function)
                self.listeners, left = tuple(rest), True

        return unlisten


class Teller:
    """Of one start of a node. `tell` never waits for a listener and never fails."""

    def __init__(
        self, audience: Audience | None = None, marked: Iterable[Listener] = (), clock: Clock | None = None
    ) -> None:
        self._audience = audience or Audience()
        self._marked = tuple(marked)
        self._clock = clock or SystemClock()
        self._waiting: deque[Event] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = self._busy = False
        self._troubles: dict[int, Episode] = {}
        self._overflow = Episode(self._clock)
        self.dropped = 0
        """Events that nobody heard: their listeners were too slow."""

    @property
    def heard(self) -> bool:
        """Whether anybody listens: who would tell asks first, so that no events are made for nobody."""
        return bool(self._marked or self._audience.listeners)

    def tell(self, events: Iterable[Event]) -> None:
        """Have these delivered, in order, after all that was told before."""
        with self._changed:
            if self._closed or not self.heard:
                return
            self._waiting.extend(events)
            over = len(self._waiting) - MOST_WAITING
            for _ in range(over):
                self._waiting.popleft()
            if over > 0:
                self.dropped += over
            if self._thread is None:
                self._thread = threading.Thread(target=self._deliver, name="qsched-events", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        if over > 0 and self._overflow.fails() is not None:
            log.warning(
                "events.dropped events=%s: listeners are slower than what happens; more than %s waited",
                *(self.dropped, MOST_WAITING),
            )

    def close(self, within: float = DRAIN_WITHIN) -> None:
        """Deliver what waits, for at most `within` seconds, then no more."""
        until = self._clock.monotonic() + within
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            while self._thread is not threading.current_thread() and (self._waiting or self._busy):
                left = until - self._clock.monotonic()
                if left <= 0:
                    log.warning("events.dropped events=%s: the node stopped before", len(self._waiting))
                    self._waiting.clear()
                    return
                self._clock.wait(self._changed, left)

    def _deliver(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while not self._waiting:
                    if self._closed:
                        return
                    self._changed.wait()
                event = self._waiting.popleft()
                self._busy = True
            for each in (*self._marked, *self._audience.listeners):
                self._call(each, event)

    def _call(self, function: Listener, event: Event) -> None:
        trouble = self._troubles.setdefault(id(function), Episode(self._clock))
        try:
            function(event)
        except BaseException as error:  # SystemExit too: it is the listener's trouble, and no other's
            if trouble.fails() is not None:
                name = getattr(function, "__qualname__", repr(function))
                log.error("listener.failed listener=%s event=%s", name, event.fact, exc_info=error)
        else:
            trouble.over()
