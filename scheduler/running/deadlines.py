"""The time-outs of all that runs on a node, kept by one thread: when time is over, the body is told."""

import logging
import threading

from ..clock import Clock
from ..context import JobContext
from ..errors import TIMEOUT

log = logging.getLogger("qsched.runner")


class Deadlines:
    """Watches over contexts by the monotonic clock; its thread starts with the first that has a time-out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition(threading.Lock())
        self._until: dict[JobContext, float] = {}
        self._waking_at = float("inf")
        self._thread: threading.Thread | None = None
        self._closed = False

    def watch(self, ctx: JobContext, until: float) -> None:
        """Cancel `ctx` with reason `timeout` when the monotonic clock has come to `until`."""
        with self._changed:
            self._until[ctx] = until
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="qsched-deadlines", daemon=True)
                self._thread.start()
            elif until < self._waking_at:
                self._changed.notify()

    def forget(self, ctx: JobContext) -> None:
        """The body has ended."""
        with self._changed:
            self._until.pop(ctx, None)

    def close(self) -> None:
        """End the thread; nothing is told any more."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _keep(self) -> None:
        while True:
            with self._changed:
                over = self._wait_for_next()
            if over is None:
                return
            for ctx in over:  # outside the lock: telling runs a runner's code
                try:
                    ctx.cancel(TIMEOUT)
                except Exception:
                    log.exception("firing %s could not be told that its time is over", ctx.firing_id)

    def _wait_for_next(self) -> list[JobContext] | None:
        """The contexts whose time is over, taken off the list, as soon as there are any; None once closed."""
        while not self._closed:
            now = self._clock.monotonic()
            over = [ctx for ctx, until in self._until.items() if until <= now]
            for ctx in over:
                del self._until[ctx]
            if over:
                return over
            self._waking_at = min(self._until.values(), default=float("inf"))
            left = None if self._waking_at == float("inf") else self._waking_at - now
            self._clock.wait(self._changed, left)
            self._waking_at = float("-inf")  # awake: whoever comes now is seen without a call
        return None
