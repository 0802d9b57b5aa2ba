"""The places of a virtual node: bodies that last as long as they were drawn to, hear of a cancel or do not, and end somehow."""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from qsched.scheduler.context import JobContext, RunRequest
from qsched.scheduler.errors import LEASE_LOST, SHUTDOWN, TIMEOUT, JobCancelled, PermanentError, RetryNow
from qsched.scheduler.outcome import Outcome
from qsched.triggers.job import canonical

from .chronicle import Body
from .plan import BodyKind
from .timeline import Timer

if TYPE_CHECKING:
    from .process import Process

_THREAD_STARTS = 3_000
_HEARS = 200_000


class Entry:
    """A request that has a place; `began` (monotonic) once its body runs."""

    __slots__ = ("began", "body", "ctx", "deaf", "ending", "kind", "outcome", "request", "timeout")

    def __init__(self, request: RunRequest, ctx: JobContext, kind: BodyKind) -> None:
        self.request = request
        self.ctx = ctx
        self.kind = kind
        self.began: float | None = None
        self.body: Body | None = None
        self.ending: Timer | None = None
        self.timeout: Timer | None = None
        self.outcome = Outcome.success()
        self.deaf = False


class Places:
    """What a worker pool is to a node: the same words, and the same last look before each body."""

    def __init__(self, process: "Process", kinds: dict[str, BodyKind], random: Random) -> None:
        self._process = process
        self._kinds = kinds
        self._random = random
        self._running: dict[tuple[int, int], Entry] = {}

    def submit_many(self, requests: list[RunRequest]) -> None:
        for request in requests:
            kind = self._kinds[request.job.definition.name]
            entry = Entry(request, JobContext(request, self._process.clock), kind)
            self._running[request.firing_id, request.fence] = entry
            delay = int(self._random.random() * _THREAD_STARTS)
            self._process.life.after(delay, lambda each=entry: self._begin(each))  # type: ignore[misc]

    def running(self) -> list[Entry]:
        return list(self._running.values())

    def cancel(self, firing_id: int, reason: str, *, fence: int | None = None) -> bool:
        found = [
            entry
            for entry in self.running()
            if entry.request.firing_id == firing_id and fence in (None, entry.request.fence)
        ]
        for entry in found:
            entry.ctx.cancel(reason)
        return bool(found)

    def cancel_all(self, reason: str) -> int:
        entries = self.running()
        for entry in entries:
            entry.ctx.cancel(reason)
        return len(entries)

    def kill_commands(self) -> int:
        return 0

    def kill_processes(self) -> int:
        return 0

    # -- one body ------------------------------------------------------------------------------------------------------

    def _begin(self, entry: Entry) -> None:
        """The pool's last look, then the body."""
        owner, reason = self._process.settler, entry.ctx.cancel_reason
        if reason is not None and reason not in (SHUTDOWN, LEASE_LOST):
            self._leave(entry)
            owner.ended(entry.request, Outcome.cancelled(reason), self._process.clock.monotonic())
            self._process.settle_now()
            return
        if reason is not None or not owner.may_begin(entry.request):
            self._leave(entry)
            owner.released(entry.request)
            self._process.settle_now()
            return
        entry.began = self._process.clock.monotonic()
        entry.body = self._process.body_began(entry.request)
        kind, draw = entry.kind, self._random.random
        lasts = int(kind.shortest + (kind.longest - kind.shortest) * draw() ** 2)
        entry.outcome = self._drawn(kind)
        entry.deaf = draw() < kind.deaf
        entry.ending = self._process.life.after(lasts, lambda: self._end(entry))
        if entry.request.timeout is not None:
            entry.timeout = self._process.life.after(entry.request.timeout, lambda: entry.ctx.cancel(TIMEOUT))
        entry.ctx.when_cancelled(lambda: self._told(entry))

    def _drawn(self, kind: BodyKind) -> Outcome:
        drawn = self._random.random()
        if drawn >= kind.failing:
            return Outcome.success()
        if drawn < kind.failing * kind.permanent:
            return Outcome.of_exception(PermanentError("never"))
        if drawn > kind.failing * (1 - kind.refiring):
            return Outcome.of_exception(RetryNow("again"))
        return Outcome.of_exception(ValueError("boom"))

    def _told(self, entry: Entry) -> None:
        """It was told to stop, and does so soon, unless it is deaf."""
        if entry.body is not None:
            entry.body.told = (self._process.life.timeline.now, entry.ctx.cancel_reason or "?")
        if entry.deaf or entry.ending is None or not entry.ending.alive:
            return
        entry.ending.alive = False
        reason = entry.ctx.cancel_reason or "?"
        entry.outcome = Outcome.of_exception(JobCancelled(reason), cancel_reason=reason)
        hears = int(self._random.random() * _HEARS)
        entry.ending = self._process.life.after(hears, lambda: self._end(entry))

    def _end(self, entry: Entry) -> None:
        if entry.timeout is not None:
            entry.timeout.alive = False
        if self._over(entry):
            entry.outcome = Outcome.timeout(entry.request.timeout or 0)
        self._leave(entry)
        assert entry.body is not None
        self._keep(entry, entry.body)
        self._process.body_ended(entry.body, entry.outcome)
        self._process.settler.ended(entry.request, entry.outcome, self._process.clock.monotonic())
        self._process.settle_now()

    def _keep(self, entry: Entry, body: Body) -> None:
        """What it leaves to the next run of its job: one more than what it found, and who it is."""
        found = entry.request.saved
        if found is None:
            return
        body.found = canonical(found)
        if self._random.random() < entry.kind.keeping:
            kept = {"runs": found.get("runs", 0) + 1, "by": [body.firing, body.fence]}
            body.saved = canonical(kept)
            entry.outcome = replace(entry.outcome, saved=body.saved)

    def _over(self, entry: Entry) -> bool:
        """Whether it ended after its time, with nothing but the time-out to stop it before."""
        if entry.request.timeout is None or entry.began is None:
            return False
        lasted = self._process.clock.monotonic() - entry.began
        return lasted * 1_000_000 >= entry.request.timeout and entry.ctx.cancel_reason in (None, TIMEOUT)

    def _leave(self, entry: Entry) -> None:
        self._running.pop((entry.request.firing_id, entry.request.fence), None)
