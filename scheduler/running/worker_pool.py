"""The places of a node: as many bodies at once as its capacity, each begun only after a last look."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterable
from contextvars import Context
from functools import partial
from queue import SimpleQueue
from typing import Protocol

from ..clock import Clock
from ..context import JobContext, RunRequest
from ..enqueue_order import Asking
from ..errors import LEASE_LOST, SHUTDOWN
from ..outcome import Outcome
from .body import outcome_of_error
from .process_pool import NotBegun
from .run_async import JobLoop
from .runner import Runner

log = logging.getLogger("qsched.worker")


class PoolOwner(Protocol):
    """Whom a pool works for. All three are called from its threads (or the loop) and must not block."""

    def may_begin(self, request: RunRequest) -> bool:
        """The last look before the first instruction of the body: False releases the firing instead."""
        ...

    def ended(self, request: RunRequest, outcome: Outcome, ended_at: float) -> None:
        """The body has ended, at `ended_at` by the monotonic clock; its place is free again."""
        ...

    def released(self, request: RunRequest) -> None:
        """The body was not begun and will not be; its place is free again."""
        ...


class Running:
    """A request that has a place: waiting for its thread, or with its body begun."""

    __slots__ = ("began", "ctx", "request")

    def __init__(self, request: RunRequest, clock: Clock, asking: Asking | None = None) -> None:
        self.request = request
        self.ctx = JobContext(request, clock, asking)
        self.began: float | None = None
        """When the body began, by the monotonic clock."""


class WorkerPool:
    """Runs requests, `capacity` at once: functions and commands in daemon threads, async ones on one loop.

    A body in a process has a thread that waits for it.
    """

    def __init__(
        self,
        capacity: int,
        owner: PoolOwner,
        clock: Clock,
        *,
        runner: Runner | None = None,
        loop: JobLoop | None = None,
    ) -> None:
        self.capacity = capacity
        self._owner = owner
        self._clock = clock
        self.asking: Asking | None = None
        """Who carries out what bodies enqueue; said before the first request."""
        self._runner = runner or Runner(clock)
        self._loop = loop or JobLoop()
        self._own_loop = loop is None
        self._waiting: deque[Running] = deque()
        self._wakes: SimpleQueue[bool] = SimpleQueue()
        self._waking = False
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._running: set[Running] = set()
        self._ending = 0
        self._threads: list[threading.Thread] = []
        self._wanting_threads = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def free(self) -> int:
        """Places that are free now. What waits to be settled is its owner's to count."""
        return max(0, self.capacity - len(self._running))

    def submit_many(self, requests: Iterable[RunRequest]) -> None:
        """Give each request a place and run it; never blocks. What cannot be begun is released."""
        entries = [Running(request, self._clock, self.asking) for request in requests]
        in_threads = [entry for entry in entries if not entry.request.job.on_loop]
        on_loop = [entry for entry in entries if entry.request.job.on_loop]
        with self._lock:
            self._running.update(entries)
            self._wanting_threads += len(in_threads)
            accepted = len(in_threads) - self._start_threads()
        self._waiting.extend(in_threads[:accepted])
        self._wake_one()
        for entry in in_threads[accepted:]:
            self._release(entry)
        if on_loop:
            try:
                if self._closed:
                    raise RuntimeError("this node stops")
                self._loop.call(self._begin_on_loop, on_loop)
            except RuntimeError as error:
                log.error("async jobs cannot run here: %s", error)
                for entry in on_loop:
                    self._release(entry)

    def running(self) -> list[Running]:
        """What has a place now."""
        with self._lock:
            return list(self._running)

    def stuck(self, seconds: float = 0.0) -> list[Running]:
        """Bodies that were told to stop more than `seconds` ago and still run."""
        before = self._clock.monotonic() - seconds
        return [
            entry
            for entry in self.running()
            if entry.began is not None and (at := entry.ctx.cancelled_at) is not None and at <= before
        ]

    def cancel(self, firing_id: int, reason: str, *, fence: int | None = None) -> bool:
        """Tell a firing to stop; answers whether it was here."""
        found = [
            entry
            for entry in self.running()
            if entry.request.firing_id == firing_id and fence in (None, entry.request.fence)
        ]
        for entry in found:
            self._tell(entry, reason)
        return bool(found)

    def cancel_all(self, reason: str) -> int:
        """Tell everything to stop; answers how many that are. A lost lease leaves commands no grace."""
        entries = self.running()
        for entry in entries:
            self._tell(entry, reason)
        if reason == LEASE_LOST:  # those that were told something else before, too
            self._runner.kill_commands(leaving=False)
            self._runner.kill_processes(leaving=False)
        return len(entries)

    def renew(self, trusted_until: float) -> None:
        """The node is trusted until then (monotonic): bodies in processes are ended by the kernel when that has come."""
        self._runner.renew(trusted_until)

    def kill_commands(self) -> int:
        """End every running command by force; for the moment before the process leaves."""
        return self._runner.kill_commands()

    def kill_processes(self) -> int:
        """End every worker process by force; when it returns no body runs in one, and none will."""
        return self._runner.kill_processes()

    def wait_idle(self, timeout: float | None) -> bool:
        """Wait until no place is taken and every end has been told to the owner; False when time ran out."""
        until = None if timeout is None else self._clock.monotonic() + timeout
        with self._idle:
            while self._running or self._ending:
                left = None if until is None else until - self._clock.monotonic()
                if left is not None and left <= 0:
                    return False
                self._clock.wait(self._idle, left)
        return True

    def close(self) -> None:
        """Take nothing more and end the idle threads; what still runs keeps its daemon thread to its end."""
        with self._lock:
            self._closed = True
            threads = len(self._threads)
        for _ in range(threads):
            self._wakes.put(False)
        if self._own_loop:
            self._loop.close()
        self._runner.close()

    def _start_threads(self) -> int:
        """As many threads as requests want them, up to the capacity; answers how many requests find none."""
        wanted = 0 if self._closed else min(self.capacity, self._wanting_threads)
        while len(self._threads) < wanted:
            name = f"qsched-job-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                log.error("no more threads for jobs: %s; the node runs fewer at once", error)
                break
            self._threads.append(thread)
        return self._wanting_threads - min(self._wanting_threads, wanted, len(self._threads))

    def _wake_one(self) -> None:
        """Wake one idle thread if there is something for it and none is on its way.

        Each woken thread wakes the next before it begins a body: long bodies get their threads one after the other, while
        short ones are run by few threads, without a wake-up each (measured: half of a no-op job's cost).
        """
        with self._lock:
            if self._waking or not self._waiting:
                return
            self._waking = True
        self._wakes.put(True)

    def _work(self) -> None:
        while self._wakes.get():
            with self._lock:
                self._waking = False
            while True:
                try:
                    entry = self._waiting.popleft()
                except IndexError:
                    break
                if self._waiting and not self._waking:
                    self._wake_one()
                if self._may_begin(entry):
                    self._run(entry)
                del entry  # a waiting thread must not keep the last job's data alive

    def _run(self, entry: Running) -> None:
        try:
            outcome = self._runner.run(entry.ctx, partial(self._owner.may_begin, entry.request))
        except NotBegun as reason:
            log.info("firing %s is released: %s", entry.request.firing_id, reason)
            self._release(entry)
            return
        except BaseException as error:  # it promises not to raise; memory may be out all the same
            outcome = outcome_of_error(error, entry.ctx)
        self._end(entry, outcome)

    def _begin_on_loop(self, entries: list[Running]) -> None:
        for entry in entries:
            if self._may_begin(entry):
                task = asyncio.get_running_loop().create_task(self._run_on_loop(entry), context=Context())
                self._tasks.add(task)
                task.add_done_callback(partial(self._task_done, entry))

    async def _run_on_loop(self, entry: Running) -> None:
        self._end(entry, await self._runner.run_async(entry.ctx))

    def _task_done(self, entry: Running, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() and entry in self._running:  # by the application, before its first step
            self._end(entry, Outcome.cancelled("its task was cancelled before it began"))

    def _may_begin(self, entry: Running) -> bool:
        """The last look: what was told to stop meanwhile ends, or is released, without a body."""
        reason = entry.ctx.cancel_reason
        if reason is not None and reason not in (SHUTDOWN, LEASE_LOST):
            self._end(entry, Outcome.cancelled(reason))
            return False
        try:
            begins = reason is None and self._owner.may_begin(entry.request)
        except BaseException:
            log.exception("firing %s is released: the last look before it failed", entry.request.firing_id)
            begins = False
        if not begins:
            self._release(entry)
            return False
        entry.began = self._clock.monotonic()
        return True

    def _end(self, entry: Running, outcome: Outcome) -> None:
        ended_at = self._clock.monotonic()
        self._leave(entry)
        try:
            self._owner.ended(entry.request, outcome, ended_at)
        except BaseException:
            log.exception("the end of firing %s could not be handed over", entry.request.firing_id)
        self._left()

    def _release(self, entry: Running) -> None:
        self._leave(entry)
        try:
            self._owner.released(entry.request)
        except BaseException:
            log.exception("the release of firing %s could not be handed over", entry.request.firing_id)
        self._left()

    def _leave(self, entry: Running) -> None:
        """Free the place before the owner hears of it, so that it can be taken at once."""
        with self._lock:
            self._running.discard(entry)
            self._ending += 1
            if not entry.request.job.on_loop:
                self._wanting_threads -= 1

    def _left(self) -> None:
        with self._lock:
            self._ending -= 1
            if not self._running and not self._ending:
                self._idle.notify_all()

    def _tell(self, entry: Running, reason: str) -> None:
        try:
            entry.ctx.cancel(reason)
        except Exception:
            log.exception("firing %s could not be told to stop", entry.request.firing_id)
