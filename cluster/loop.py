"""One service in one thread: `step()` again and again, woken early, kept alive through every error."""

import logging
import threading
from collections.abc import Callable

from ..scheduler.clock import Clock
from ..scheduler.errors import StoreUnavailable

_BACKOFF = (0.1, 5.0)

log = logging.getLogger("qsched.loop")


class Loop:
    """Runs `step`, which answers the seconds until it wants to run again, in a daemon thread."""

    def __init__(self, name: str, step: Callable[[], float], clock: Clock) -> None:
        self.name = name
        self._step = step
        self._clock = clock
        self._woken = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._failures = 0

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"qsched-{self.name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Run the next step now."""
        self._woken.set()

    def end(self) -> None:
        """End after the current step, without waiting for it."""
        self._stopping = True
        self._woken.set()

    def stop(self, timeout: float | None = None) -> bool:
        """End after the current step; answers whether the thread has ended."""
        self.end()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
            return not self._thread.is_alive()
        return True

    def _run(self) -> None:
        while not self._stopping:
            wait = self._guarded()
            if wait > 0 and not self._stopping:
                self._clock.wait(self._woken, wait)
            self._woken.clear()

    def _guarded(self) -> float:
        """One step; an error costs a pause that grows, never the thread."""
        try:
            wait = self._step()
        except StoreUnavailable as error:
            if self._failures == 0:
                log.warning("%s.waiting reason=%s", self.name, error)
        except Exception:
            if self._failures in (0, 10, 100):  # an error that stays must not fill the disk
                log.exception("%s.failed", self.name)
        else:
            if self._failures:
                log.info("%s.goes_on after=%s failures", self.name, self._failures)
                self._failures = 0
            return wait
        self._failures += 1
        return float(min(_BACKOFF[0] * 2 ** min(self._failures, 10), _BACKOFF[1]))
