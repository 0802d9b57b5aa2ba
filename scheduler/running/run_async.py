"""Runs async functions on one event loop: the node's own, in a thread, or the application's."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from ..clock import Clock
from ..context import JobContext
from ..outcome import Outcome
from .body import BodyTime, arguments_of, body_of, outcome_of_error, outcome_of_value, with_saved
from .deadlines import Deadlines

_LOOK = 0.05
log = logging.getLogger("qsched.runner")


async def run_async(ctx: JobContext, clock: Clock, deadlines: Deadlines) -> Outcome:
    """Await the job's function in the current task and answer how it ended; never raises.

    A cancel, the time-out's too, arrives in the body as `asyncio.CancelledError`.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    time = BodyTime(ctx, clock, deadlines)
    ctx.when_cancelled(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
        function = ctx.request.job.function
        assert function is not None
        if (chain := ctx.request.job.chain) is None:
            value = await function(**arguments_of(ctx.request, ctx))
        else:
            value = await chain.call_async(ctx, body_of(ctx))
        outcome = outcome_of_value(value)
    except BaseException as error:
        outcome = outcome_of_error(error, ctx)
    ctx.when_cancelled(None)
    if time.over() and time.timeout is not None:
        outcome = Outcome.timeout(time.timeout)
    return with_saved(ctx, outcome)


class JobLoop:
    """The loop that async jobs run on. Without `loop` it is a new one in a thread that starts when needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._stopping = False

    def call(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call back on the loop, from any thread; raises RuntimeError when the loop is closed."""
        self._opened().call_soon_threadsafe(callback, *arguments)

    def awaited(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run it on the loop to its end, from any other thread; raises RuntimeError when the loop is closed."""
        asyncio.run_coroutine_threadsafe(coroutine, self._opened()).result()

    def _opened(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise RuntimeError("the loop of async jobs is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._keep, name="qsched-loop", daemon=True)
                self._thread.start()
            return self._loop

    def close(self, timeout: float = 1.0) -> None:
        """Stop the loop if it is our own, once nothing runs on it; until then its daemon thread goes on."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop_when_empty, self._loop)
            self._thread.join(timeout)

    def _stop_when_empty(self, loop: asyncio.AbstractEventLoop) -> None:
        if asyncio.all_tasks(loop):
            loop.call_later(_LOOK, self._stop_when_empty, loop)
        else:
            self._stopping = True
            loop.stop()

    def _keep(self) -> None:
        loop = self._loop
        assert loop is not None
        asyncio.set_event_loop(loop)
        while not self._stopping:
            try:
                loop.run_forever()
            except BaseException:  # SystemExit in a task that a job left behind ends run_forever
                log.exception("something that an async job left on its loop raised; the loop goes on")
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
