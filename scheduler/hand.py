"""What this node has in hand: the firings it took and has not seen land in the store, which is what fills its capacity."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from .context import RunRequest


class Hand:
    """Thread-safe. A place is free again only when the outcome has landed (or was fenced): natural back-pressure."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._lock = threading.Lock()
        self._held: dict[tuple[int, int], RunRequest] = {}
        self._over: set[tuple[int, int]] = set()
        self._takes: set[int] = set()
        self._next_take = 0
        self._empty = threading.Event()
        self._empty.set()

    def free(self) -> int:
        """How many more firings may be taken."""
        with self._lock:
            return max(0, self.capacity - len(self._held))

    def running(self) -> int:
        with self._lock:
            return len(self._held)

    def add(self, requests: Iterable[RunRequest]) -> None:
        with self._lock:
            for request in requests:
                self._held[request.firing_id, request.fence] = request
            if self._held:
                self._empty.clear()

    def drop(self, firings: Iterable[tuple[int, int]]) -> None:
        """These (firing id, fence) have landed."""
        with self._lock:
            for each in firings:
                self._held.pop(each, None)
                self._over.discard(each)
            if not self._held:
                self._empty.set()

    def holds(self, firing_id: int, fence: int) -> bool:
        with self._lock:
            return (firing_id, fence) in self._held

    def over(self, firing_id: int, fence: int) -> None:
        """Its body has ended, or will not begin: only that has still to land."""
        with self._lock:
            if (firing_id, fence) in self._held:
                self._over.add((firing_id, fence))

    def runs(self, firing_id: int, fence: int) -> bool:
        """Whether it is in hand, and its body is not over."""
        with self._lock:
            return (firing_id, fence) in self._held and (firing_id, fence) not in self._over

    def held(self) -> set[tuple[int, int]]:
        """(firing id, fence) of everything in hand."""
        with self._lock:
            return set(self._held)

    @property
    def empty(self) -> threading.Event:
        """Set while nothing is in hand."""
        return self._empty

    @contextmanager
    def taking(self) -> Iterator[int]:
        """A new take number, in flight for the length of the block: registered before BEGIN, so that the check-in's
        reconciliation leaves its rows alone until they are in hand."""
        with self._lock:
            self._next_take += 1
            number = self._next_take
            self._takes.add(number)
        try:
            yield number
        finally:
            with self._lock:
                self._takes.discard(number)

    def takes_in_flight(self) -> set[int]:
        with self._lock:
            return set(self._takes)

    def idle(self) -> bool:
        """Whether nothing is in hand, and no take is on its way into it."""
        with self._lock:
            return not self._held and not self._takes
