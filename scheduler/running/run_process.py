"""Runs a body in a worker process: what goes there, what is heard from there, and what its end means."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..clock import Clock
from ..context import JobContext
from ..errors import LEASE_LOST, SHUTDOWN
from ..outcome import Outcome
from .body import BodyTime, outcome_of_error
from .deadlines import Deadlines
from .exit_status import failure_of_status
from .guardian import GuardianGone
from .process_channel import TOO_LONG, Errand, ProcessChannel
from .process_frames import framed
from .process_log import relay
from .process_pool import NotBegun, ProcessPool
from .process_questions import Answers
from .process_words import Misunderstood, outcome_of, request_said

_LOADING: Final = 120.0
"""Seconds that a worker may take to import the --app modules."""
_TRIES: Final = 3
_AGAIN: Final = 1.0
"""Seconds that a place is held when no process could be started: the firing is given back, and would come at once."""

log = logging.getLogger("qsched.runner")


def run_in_process(
    ctx: JobContext,
    deadlines: Deadlines,
    pool: ProcessPool,
    grace: float,
    may_begin: Callable[[], bool] = lambda: True,
) -> Outcome:
    """Run the job's function in a worker process and answer how it ended.

    Raises NotBegun, and nothing else, where it could not be begun for no fault of its own; `may_begin` is asked once more
    when that took its time. A time-out or cancel is told to the body; after `grace` seconds its process group gets
    SIGTERM, and SIGKILL a second later. A lost lease is SIGKILL at once. A process that dies by itself is a failure like
    any other.
    """
    try:
        said = request_said(ctx)
    except BaseException as error:
        return outcome_of_error(error, ctx)
    for _ in range(_TRIES):
        run = _Run(ctx, _taken(ctx, pool), pool)
        try:
            return run.load(may_begin) or run.run(said, deadlines, grace)
        except _DiedIdle:
            continue
        finally:
            ctx.when_cancelled(None)
            run.close()
            pool.give_back(run.channel, again=run.again)
    raise NotBegun("one idle process after the other had ended")


class _DiedIdle(Exception):
    """The worker had ended before it heard of the body: another may have it."""


def _taken(ctx: JobContext, pool: ProcessPool) -> ProcessChannel:
    try:
        return pool.take(ctx.request.job.allowed)
    except (OSError, GuardianGone) as error:
        raise _unstarted(pool.clock, str(error) or "its guardian is gone") from error


class _Run:
    """One body in one worker."""

    def __init__(self, ctx: JobContext, channel: ProcessChannel, pool: ProcessPool) -> None:
        self.channel = channel
        self.again = False
        """Whether the worker is as good as before."""
        self._ctx = ctx
        self._pool = pool
        self._number = 0
        self._begun = False
        self._end: Mapping[str, Any] = {}
        self._answers = Answers(ctx.asking, channel.tell)
        request = ctx.request
        self._names = {
            "job": request.job.name,
            "trigger": request.trigger,
            "firing": request.firing_id,
            "attempt": request.attempt,
            "node": request.node,
        }

    def load(self, may_begin: Callable[[], bool]) -> Outcome | None:
        """Let a new worker import what it may run; the outcome where that cannot be, None when it has. Raises NotBegun."""
        channel = self.channel
        if channel.loaded:
            return None
        errand = channel.errand(0.0, _LOADING)
        self._stoppable(errand)
        apps, modules = channel.allowed
        hello = {"load": errand.number, "apps": apps, "modules": modules, **channel.news_of_levels()}
        channel.loaded = channel.follow(errand, framed(hello), self._hear) and "why" not in self._end
        if channel.loaded:
            if not may_begin():
                self.again = True
                raise NotBegun("when its process was ready it was too late to begin")
            return None
        fate = channel.ward.fate
        if fate is not None and fate.unstarted is not None:
            raise _unstarted(self._pool.clock, fate.unstarted)
        if errand.reason in (SHUTDOWN, LEASE_LOST) or (fate is not None and fate.status is None):
            raise NotBegun("its process was ended before the body began")
        if errand.reason == TOO_LONG:
            problem = f"importing the job's modules in a process took longer than {_LOADING:g} s"
        elif errand.reason is not None:
            return Outcome.cancelled(errand.reason)
        elif "why" in self._end:
            problem = str(self._end["why"])
        else:
            problem = f"importing the job's modules: {self._death()[1]}"
        self._pool.tell_once(problem)
        return Outcome.failure("AppError", problem)

    def run(self, said: Mapping[str, Any], deadlines: Deadlines, grace: float) -> Outcome:
        """Send the request and hear how it ended. Raises NotBegun where it was to stop before that."""
        ctx, channel = self._ctx, self.channel
        errand = channel.errand(grace)
        self._stoppable(errand)
        if errand.reason is not None:
            self.again = True
            if errand.reason in (SHUTDOWN, LEASE_LOST):
                raise NotBegun(errand.reason)
            return Outcome.cancelled(errand.reason)
        try:
            request = framed({"run": errand.number, **channel.news_of_levels(), **said})
        except (TypeError, ValueError) as error:
            self.again = True
            return outcome_of_error(error, ctx)
        time = BodyTime(ctx, self._pool.clock, deadlines)
        ended = channel.follow(errand, request, self._hear)
        over = time.over()
        if not (ended or self._begun or errand.steps or channel.broken):
            fate = channel.ward.fate
            raise NotBegun(fate.reason) if fate is not None and fate.reason is not None else _DiedIdle
        outcome = self._outcome() if ended else None
        # A worker that was sent SIGTERM may get it late, in somebody else's body.
        self.again = outcome is not None and errand.steps < 2 and not self._left_something(outcome)
        if ended and not self.again:
            channel.kill()
        if over and time.timeout is not None:
            return Outcome.timeout(time.timeout)
        return outcome or self._died()

    def close(self) -> None:
        """The body has ended, or never began."""
        self._answers.close()

    def _stoppable(self, errand: Errand) -> None:
        """From now on a cancel makes this errand stop, and only this one, however late its teller is."""
        self._number = errand.number

        def stop() -> None:
            errand.tell(self._ctx.cancel_reason or SHUTDOWN)
            self.channel.wake()

        self._ctx.when_cancelled(stop)

    def _hear(self, message: Mapping[str, Any]) -> bool:
        """True for the end of the errand."""
        if "log" in message:
            relay(message["log"], self._names if message.get("of") == self._number else {})
        elif "progress" in message:
            if message.get("of") == self._number:
                self._ctx.progress(message["progress"])
        elif "enqueue" in message:
            if message.get("of") == self._number:
                self._answers.take(message)
        elif message.get("begun") == self._number:
            self._begun = True
        elif message.get("ended") == self._number:
            self._end = message
            return True
        return False

    def _outcome(self) -> Outcome | None:
        try:
            return outcome_of(self._end.get("outcome"))
        except Misunderstood as error:
            self.channel.broken = f"told {error}"
            return None

    def _left_something(self, outcome: Outcome) -> bool:
        """Processes that the body started and left, or a memory that is full: the next body gets another worker."""
        return self._end.get("left") is True or "builtins.MemoryError" in outcome.error_classes

    def _died(self) -> Outcome:
        """The outcome of a body whose process is gone, and did not say how it ended."""
        fate = self.channel.ward.fate
        reason = self._ctx.cancel_reason or (None if fate is None else fate.reason)
        return Outcome.failure(*self._death()) if reason is None else Outcome.cancelled(reason)

    def _death(self) -> tuple[str, str]:
        fate, broken = self.channel.ward.fate, self.channel.broken
        if broken is not None:
            return "BrokenProcess", f"its process {broken}, and was ended"
        if fate is None or fate.status is None:
            return "KilledBySignal", "its process was ended with the guardian of this node's processes"
        kind, text = failure_of_status(fate.status, shell=False)
        return kind, f"its process died: {text}"


def _unstarted(clock: Clock, reason: str) -> NotBegun:
    """What to raise where no process could be started, once a moment has passed."""
    log.error("process.not_started reason=%s", reason)
    clock.wait(threading.Event(), _AGAIN)
    return NotBegun(reason)
