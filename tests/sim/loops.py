"""A node's service loops as greenlets: the same steps, waits, wake-ups and back-off as the house's threads have."""

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING

from qsched.scheduler.errors import StoreUnavailable

from .timeline import SECOND, Event

if TYPE_CHECKING:
    from .process import Process

_BACKOFF = (0.1, 5.0)


class ServiceLoop:
    """Runs `step` again and again; `stretch` may make a wait longer where nothing would happen anyway."""

    def __init__(
        self,
        process: "Process",
        name: str,
        step: Callable[[], float],
        stretch: Callable[[float], float] = lambda wait: wait,
    ) -> None:
        self.name = name
        self._process = process
        self._step = step
        self._stretch = stretch
        self._woken = Event()
        self._stopping = False
        self._failures = 0
        self.running = False

    def start(self) -> None:
        self.running = True
        self._process.life.spawn(self.name, self._run)

    def wake(self) -> None:
        self._woken.set()

    def end(self) -> None:
        """End after the current step."""
        self._stopping = True
        self._woken.set()

    def _run(self) -> None:
        life = self._process.life
        while not self._stopping:
            wait = self._guarded()
            if wait > 0 and not self._stopping:
                life.wait(self._woken, ceil(self._stretch(wait) * SECOND))
            self._woken.clear()
        self.running = False

    def _guarded(self) -> float:
        try:
            wait = self._step()
        except StoreUnavailable:
            pass
        except Exception as error:
            self._process.raised(self.name, error)
        else:
            self._failures = 0
            return wait
        self._failures += 1
        return float(min(_BACKOFF[0] * 2 ** min(self._failures, 10), _BACKOFF[1]))
