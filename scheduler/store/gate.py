"""One process's way to its SQLite file: one user at a time, in order of arrival, check-ins first."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """A lock handed over in order of arrival, urgent waiters first.

    Without the order a thread that comes back at once passes those that wait; without the urgent lane a long
    queue of settles would cost a node its lease (E6).
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._holder: int | None = None
        self._urgent: deque[threading.Lock] = deque()
        self._ordinary: deque[threading.Lock] = deque()

    @contextmanager
    def held(self, *, urgent: bool = False) -> Iterator[None]:
        """Hold the gate for the length of the block."""
        self.acquire(urgent=urgent)
        try:
            yield
        finally:
            self.release()

    @property
    def mine(self) -> bool:
        """Whether the calling thread holds the gate."""
        return self._holder == threading.get_ident()

    def acquire(self, *, urgent: bool = False) -> None:
        with self._mutex:
            if self._holder is None:
                self._holder = threading.get_ident()
                return
            if self.mine:
                raise RuntimeError("a transaction was begun inside another one: pass the Tx on instead")
            turn = threading.Lock()
            turn.acquire()
            queue = self._urgent if urgent else self._ordinary
            queue.append(turn)
        try:
            turn.acquire()  # released by whoever hands the gate over, which stays held meanwhile
        except BaseException:  # Ctrl-C while waiting: leave the queue, or pass on what was just handed over
            self._leave(queue, turn)
            raise
        self._holder = threading.get_ident()

    def release(self) -> None:
        with self._mutex:
            queue = self._urgent or self._ordinary
            if queue:
                self._holder = -1  # nobody yet, but not free
                queue.popleft().release()
            else:
                self._holder = None

    def _leave(self, queue: deque[threading.Lock], turn: threading.Lock) -> None:
        with self._mutex:
            waiting = turn in queue
            if waiting:
                queue.remove(turn)
        if not waiting:
            self.release()


class OpenGate(Gate):
    """No gate at all: a database server orders its own clients."""

    def acquire(self, *, urgent: bool = False) -> None:
        del urgent

    def release(self) -> None:
        return None
