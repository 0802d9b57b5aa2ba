"""One service in one thread: `step()` again and again, woken early, kept alive through every error."""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ..scheduler.clock import Clock
from ..scheduler.episode import Episode
from ..scheduler.errors import StoreUnavailable

_PATIENCE = (3.0, 30.0)
"""Seconds without a success after which a loop is ill: three of its intervals, but within these."""

log = logging.getLogger("qsched.loop")


def _well() -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often a service is to succeed, how soon it is tried again when it fails, and how it says what its steps bear."""

    every: float = 1.0
    retry: tuple[float, float] = (0.1, 5.0)
    """Seconds until the first try after a failure, and at most."""
    trouble: Callable[[], str | None] = _well
    """What keeps a service from its work whose step does not raise it."""


class Loop:
    """Runs `step`, which answers the seconds until it wants to run again, in a daemon thread."""

    def __init__(
        self, name: str, step: Callable[[], float], clock: Clock, rhythm: Rhythm | None = None
    ) -> None:
        self.name = name
        self._step = step
        self._clock = clock
        self._rhythm = rhythm or Rhythm()
        self._random = random.Random()
        self._woken = threading.Event()
        self._retried = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._episode = Episode(clock)
        self._reason: str | None = None
        self._succeeded_at = clock.monotonic()
        self._began_at: float | None = None
        self._asked = 0.0

    def start(self) -> None:
        self._succeeded_at = self._clock.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"qsched-{self.name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Run the next step now; a service that fails keeps its pause."""
        self._woken.set()

    def retry(self) -> None:
        """Run the next step now, also where the last one failed: what it failed of may be over."""
        self._retried.set()
        self._woken.set()

    def end(self) -> None:
        """End after the current step, without waiting for it."""
        self._stopping = True
        self.retry()

    def stop(self, timeout: float | None = None) -> bool:
        """End after the current step; answers whether the thread has ended."""
        self.end()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
            return not self._thread.is_alive()
        return True

    def revive(self) -> bool:
        """Start the thread anew when it has died, which no error of a step can bring about; answers whether it had."""
        if self._stopping or self._thread is None or self._thread.is_alive():
            return False
        log.critical("%s.died: its thread has ended; it is started again", self.name)
        self._thread = threading.Thread(target=self._run, name=f"qsched-{self.name}", daemon=True)
        self._thread.start()
        return True

    def ill(self, awake_since: float) -> str | None:
        """Why it is not at work; None where it succeeds as often as it should, or is not to run.

        `awake_since`: what this process did not do while it was stopped itself is no loop's illness.
        """
        if self._stopping or self._thread is None:
            return None
        if not self._thread.is_alive():
            return "its thread has died"
        now, last, began = self._clock.monotonic(), self._succeeded_at, self._began_at
        patience = min(max(3 * self._rhythm.every, _PATIENCE[0]), _PATIENCE[1])
        if patience < self._asked + 1.0:
            patience = self._asked + _PATIENCE[0]  # it asked for a longer pause, and is in it
        if now <= max(last, awake_since) + patience:
            return None
        reason = self._reason or self._rhythm.trouble()
        if began is not None and now - began > _PATIENCE[0]:
            stuck = f"a step has been running for {now - began:.0f} s"
            return stuck if reason is None else f"{stuck}: {reason}"
        return f"no success for {now - last:.0f} s" + ("" if reason is None else f": {reason}")

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            wait = self.turn()
            if wait > 0 and not self._stopping:
                failed = self._reason is not None
                self._clock.wait(self._retried if failed else self._woken, wait)
            self._woken.clear()
            self._retried.clear()

    def turn(self) -> float:
        """One step; an error costs a pause that grows, never the thread. Answers the seconds until the next."""
        self._began_at = self._clock.monotonic()
        try:
            wait = self._step()
        except BaseException as error:  # also a SystemExit that a job's module raised while it was loaded
            wait = self._failed(error)
        else:
            self._succeeded(wait)
        self._began_at = None
        return wait

    def _succeeded(self, wait: float) -> None:
        self._asked = wait
        self._reason = None
        if self._rhythm.trouble() is not None:
            return
        self._succeeded_at = self._clock.monotonic()
        failures = self._episode.failures
        lasted = self._episode.over()
        if lasted is not None:
            log.info("%s.goes_on after=%.1fs failures=%s", self.name, lasted, failures)

    def _failed(self, error: BaseException) -> float:
        self._reason = str(error) or type(error).__name__
        lasted = self._episode.fails()
        if lasted is not None and isinstance(error, StoreUnavailable):
            log.warning("%s.waiting for=%.1fs reason=%s", self.name, lasted, error)
        elif lasted is not None:
            log.error(
                "%s.failed for=%.1fs failures=%s", self.name, lasted, self._episode.failures, exc_info=error
            )
        first, longest = self._rhythm.retry
        pause = min(first * 2.0 ** min(self._episode.failures - 1, 20), longest)
        return pause * (
            0.75 + 0.25 * self._random.random()
        )  # those that failed together do not come back together
