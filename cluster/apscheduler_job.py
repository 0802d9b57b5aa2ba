"""What a node does with a job of an APScheduler application: hands it to the scheduler's executor and waits for its end."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import Any

from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    EVENT_JOB_SUBMITTED,
    JobExecutionEvent,
    JobSubmissionEvent,
)
from apscheduler.executors.base import MaxInstancesReachedError
from apscheduler.job import Job
from apscheduler.schedulers.base import STATE_STOPPED

from ..scheduler.context import JobContext
from ..scheduler.errors import PermanentError, RetryNow
from ..scheduler.exchange.aps_job import Options
from ..scheduler.exchange.aps_trigger import trigger_of
from ..scheduler.jobs import job
from .node import Node

_LOOK = 1.0
"""Seconds between two looks at whether the executor still has a run whose end was not told."""
_ENDS = EVENT_JOB_EXECUTED | EVENT_JOB_ERROR | EVENT_JOB_MISSED

log = logging.getLogger("qsched.apscheduler")


class Hand:
    """Between one node and the executors of one scheduler."""

    def __init__(self, scheduler: Any, alias: str, node: Node, leave: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._alias = alias
        self._node = node
        self._leave = leave
        self._ends: dict[tuple[str, datetime], SimpleQueue[JobExecutionEvent]] = {}
        scheduler.add_listener(self._ended, _ENDS)
        _hands.append(self)

    def close(self) -> None:
        """Nothing of this node's runs any more."""
        self._scheduler.remove_listener(self._ended)
        _hands.remove(self)

    @property
    def node_name(self) -> str:
        return self._node.name

    @property
    def idle(self) -> bool:
        return not self._ends

    def run(self, ctx: JobContext, call: Mapping[str, Any], when: Mapping[str, Any]) -> None:
        """Run a job once in its executor; returns or raises as its function did."""
        at = ctx.scheduled_at.astimezone(self._scheduler.timezone)
        whole = job_of(self._scheduler, self._alias, call, trigger_of(when), at)
        whole.misfire_grace_time = None  # how late is too late was decided where the slot was
        executor = self._scheduler._lookup_executor(whole.executor)
        queue = self._ends[whole.id, at] = SimpleQueue()
        try:
            self._submit(executor, whole, at)
            event = self._wait(executor, whole.id, queue)
        finally:
            del self._ends[whole.id, at]
        if event.code == EVENT_JOB_ERROR:
            raise event.exception

    def _submit(self, executor: Any, whole: Any, at: datetime) -> None:
        if self._scheduler.state == STATE_STOPPED:
            self._give_back()
        try:
            self._in_its_thread(lambda: executor.submit_job(whole, [at]))
        except MaxInstancesReachedError as error:
            self._tell(JobSubmissionEvent(EVENT_JOB_MAX_INSTANCES, whole.id, self._alias, [at]))
            raise PermanentError(str(error)) from error
        except RuntimeError:
            if self._scheduler.state == STATE_STOPPED:  # it was shut down between the two
                self._give_back()
            raise
        self._tell(JobSubmissionEvent(EVENT_JOB_SUBMITTED, whole.id, self._alias, [at]))

    def _give_back(self) -> None:
        """The scheduler is shut down and this run has not begun: another process may have it."""
        self._leave()
        raise RetryNow("the scheduler was shut down before it began")

    def _in_its_thread(self, submit: Callable[[], None]) -> None:
        """Executors of an event loop may only be called in it."""
        loop = getattr(self._scheduler, "_eventloop", None)
        if not isinstance(loop, asyncio.AbstractEventLoop):
            submit()
            return

        async def there() -> None:
            submit()

        asyncio.run_coroutine_threadsafe(there(), loop).result()

    def _wait(self, executor: Any, job_id: str, queue: "SimpleQueue[JobExecutionEvent]") -> JobExecutionEvent:
        gone = False
        while True:
            try:
                return queue.get(timeout=_LOOK)
            except Empty:
                # An executor that breaks (a worker process was killed) forgets the run and tells nobody.
                if gone:
                    raise RuntimeError(f"the executor lost job {job_id!r}: its log says why") from None
                gone = not executor._instances.get(job_id)

    def _ended(self, event: JobExecutionEvent) -> None:
        queue = self._ends.get((event.job_id, event.scheduled_run_time))
        if queue is not None:
            queue.put(event)

    def _tell(self, event: JobSubmissionEvent) -> None:
        self._scheduler._dispatch_event(event)


def job_of(scheduler: Any, alias: str, call: Mapping[str, Any], trigger: Any, at: datetime | None) -> Any:
    """The Job of APScheduler that `call_of` made a call of; imports its function, and raises what that raises."""
    options = dict(zip(Options.__dataclass_fields__, call["options"], strict=True))
    plain = {name: call[name] for name in ("id", "func", "kwargs", "name", "executor")}
    plain["args"] = tuple(call["args"])
    made = Job(scheduler, trigger=trigger, next_run_time=at, **plain, **options)
    made._jobstore_alias = alias
    return made


@job(name="apscheduler_job")
def run(ctx: JobContext, call: Mapping[str, Any], when: Mapping[str, Any]) -> None:
    """The body of every job that a QschedJobStore keeps."""
    hand = next((hand for hand in _hands if hand.node_name == ctx.node), None)
    if hand is None:
        raise PermanentError("this node has no APScheduler: it was not started by a QschedJobStore")
    hand.run(ctx, call, when)


_hands: list[Hand] = []
