"""What one attempt is given, and what its body can ask: am I late, should I stop, what is my key."""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..triggers.instant import from_instant
from ..triggers.job import canonical
from .clock import Clock
from .errors import JobCancelled
from .key_template import render_key
from .loaded_job import LoadedJob
from .payload import checked_data

if TYPE_CHECKING:
    from .enqueue_order import Asking, Enqueued

    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


@dataclass(slots=True)
class RunRequest:
    """One attempt, as the worker asks for it. Nobody writes to it (frozen would cost 4 µs a firing)."""

    firing_id: int
    fence: int
    job: LoadedJob
    trigger: str | None
    """The trigger's key; None for what was enqueued."""
    scheduled_at: int
    fired_at: int
    node: str
    default_key: str
    """The idempotency key where the job has no template for one."""
    late: int = 0
    attempt: int = 0
    recovering: bool = False
    trigger_data: Mapping[str, Any] | None = None
    fire_data: Mapping[str, Any] | None = None
    timeout: int | None = None
    """Microseconds from the first instruction of the body."""
    exclusive: bool = False
    """It holds a permit, which its end gives back."""
    incarnation: int = 0
    """Under which it was taken: its end is written under that one, whatever the node is by then."""
    job_id: int = 0
    followed: bool = False
    """Triggers follow its job's ends: how it ends is looked at more closely."""
    delayed: bool = False
    """Its trigger's next slot counts from its end: likewise."""
    saved: Mapping[str, Any] | None = None
    """What the job kept from its runs before; None for a job that keeps nothing."""
    follows: int | None = None
    """The firing whose end this one follows, of a continuation."""


class JobContext:
    """What a job learns about its own run; passed to a function that has a parameter `ctx`."""

    __slots__ = (
        "_asking",
        "_cancel_reason",
        "_clock",
        "_data",
        "_lock",
        "_log",
        "_on_cancel",
        "_progress",
        "_saved",
        "_shields",
        "_told",
        "_wake",
        "cancelled_at",
        "request",
    )

    def __init__(self, request: RunRequest, clock: Clock, asking: "Asking | None" = None) -> None:
        self.request = request
        self._asking = asking
        self._clock = clock
        self._lock = threading.Lock()
        self._cancel_reason: str | None = None
        self.cancelled_at: float | None = None
        self._on_cancel: Callable[[], object] | None = None
        self._told = False
        self._shields = 0
        self._wake: threading.Event | None = None
        self._data: Mapping[str, Any] | None = None
        self._log: _Adapter | None = None
        self._progress: Any = None
        self._saved: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<JobContext {self.job} firing={self.firing_id} attempt={self.attempt}>"

    @property
    def job(self) -> str:
        """The job's name."""
        return self.request.job.definition.name

    @property
    def trigger(self) -> str | None:
        """The trigger's key; None for an enqueued start."""
        return self.request.trigger

    @property
    def scheduled_at(self) -> datetime:
        """The slot: when this firing was due. A retry keeps it."""
        return from_instant(self.request.scheduled_at)

    @property
    def fired_at(self) -> datetime:
        """When this attempt was taken, by the database's clock."""
        return from_instant(self.request.fired_at)

    @property
    def late(self) -> float:
        """Seconds between the two."""
        return self.request.late / 1_000_000

    @property
    def attempt(self) -> int:
        """0 for the first run, n for the n-th retry."""
        return self.request.attempt

    @property
    def recovering(self) -> bool:
        """Whether an earlier run was lost with its node and may have done part of the work."""
        return self.request.recovering

    @property
    def firing_id(self) -> int:
        return self.request.firing_id

    @property
    def fence_token(self) -> int:
        """Grows with each take of this firing: others can refuse a smaller one than they have seen."""
        return self.request.fence

    @property
    def node(self) -> str:
        """The name of the node that runs this."""
        return self.request.node

    @property
    def data(self) -> Mapping[str, Any]:
        """The job's data, overlaid by the trigger's, overlaid by the fire's."""
        if self._data is None:
            request = self.request
            self._data = request.job.run_data(request.trigger_data, request.fire_data)
        return self._data

    @property
    def saved(self) -> dict[str, Any]:
        """What this job keeps from run to run (`persist_data: true`): JSON values, yours to change.

        It is written with the end of the run, failed ones too, in the same transaction; a run whose node was taken for
        dead changes nothing. Raises RuntimeError for a job that keeps nothing.
        """
        if self._saved is None:
            if self.request.saved is None:
                raise RuntimeError(
                    f"job {self.job!r} keeps no data: say persist_data: true in YAML, or @job(persist_data=True)"
                )
            self._saved = json.loads(json.dumps(self.request.saved))  # a copy down to its leaves
        return self._saved

    def saved_text(self) -> str | None:
        """For runners: what is to be kept, as JSON text, where the body changed it; None where it did not.

        Raises DefinitionError, naming the key, for what JSON cannot carry or a store will not hold.
        """
        if self._saved is None or self._saved == self.request.saved:
            return None
        return canonical(checked_data(self._saved, of=f"ctx.saved of job {self.job!r}"))

    @property
    def follows(self) -> int | None:
        """The firing whose end this one follows; None for what is no continuation."""
        return self.request.follows

    @property
    def idempotency_key(self) -> str:
        """The same for every run of this firing; from the job's `key` template where it has one."""
        template = self.request.job.policies.key
        return self.request.default_key if template is None else render_key(template, self.data)

    @property
    def log(self) -> _Adapter:
        """A logger whose records carry trigger, firing, attempt and node."""
        if self._log is None:
            self._log = _RunLog(self.request)
        return self._log

    @property
    def cancelled(self) -> bool:
        """Whether this run should stop."""
        return self._cancel_reason is not None

    @property
    def cancel_reason(self) -> str | None:
        """`timeout`, `shutdown`, `lease_lost`, or what an operator said; None while it may go on."""
        return self._cancel_reason

    @property
    def asking(self) -> "Asking | None":
        """For runners: who carries out what this run enqueues."""
        return self._asking

    def enqueue(
        self, job: str | Callable[..., Any], data: Mapping[str, Any] | None = None, **options: Any
    ) -> "Enqueued":
        """Have another job run, as `Scheduler.enqueue` does and with the same keywords: through this run's node.

        It blocks for one transaction, in async jobs too. A run that is repeated (a retry, a recovery) enqueues again, unless
        the same `request_key` or `unique_key` is given: `request_key=f"{ctx.idempotency_key}/mail"`.
        """
        if self._asking is None:
            raise RuntimeError(
                "this context has no node to enqueue with: in a test say context_for(…, asking=…),"
                " elsewhere use Scheduler(url).enqueue"
            )
        from .enqueue_order import order_of

        connection = options.pop("connection", None)
        return self._asking(order_of(job, data, options), connection)

    def check(self) -> None:
        """Raise JobCancelled if this run should stop; call it between pieces of work."""
        if self._cancel_reason is not None and not self._shields:
            raise JobCancelled(self._cancel_reason)

    def sleep(self, seconds: float) -> None:
        """Wait; raises JobCancelled as soon as this run should stop.

        Async jobs write `await asyncio.sleep(…)`, which a cancel ends as well; here they get a RuntimeError.
        """
        if self.request.job.is_async:
            raise RuntimeError(
                "ctx.sleep would stop every async job of the node: write `await asyncio.sleep(…)`"
            )
        self.check()
        wake = threading.Event()
        if not self._shields:
            self._wake = wake
            self.check()  # a cancel that came before it could see the event
        self._clock.wait(wake, max(seconds, 0.0))
        self._wake = None
        self.check()

    @contextmanager
    def shield(self) -> Iterator[None]:
        """A piece of work that a cancel does not interrupt: it is felt when the block ends.

        Neither a lost lease nor the end of the process can be held up by it.
        """
        with self._lock:
            self._shields += 1
        try:
            yield
        finally:
            with self._lock:
                self._shields -= 1
            self._tell()
        self.check()

    def progress(self, value: Any) -> None:
        """Say how far the work is: any JSON value, of which the newest is kept."""
        self._progress = value

    @property
    def last_progress(self) -> Any:
        """What `progress` was told last."""
        return self._progress

    def cancel(self, reason: str) -> bool:
        """Ask this run to stop, from any thread; the first reason stays. Answers whether it was the first."""
        with self._lock:
            if self._cancel_reason is not None:
                return False
            self.cancelled_at = self._clock.monotonic()
            self._cancel_reason = reason
        if (wake := self._wake) is not None:
            wake.set()
        self._tell()
        return True

    def when_cancelled(self, tell: Callable[[], object] | None) -> None:
        """For runners: call `tell` once when this run should stop, at once if it already should."""
        with self._lock:
            self._on_cancel = tell
            self._told = False
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            if self._cancel_reason is None or self._shields or self._told or self._on_cancel is None:
                return
            self._told, tell = True, self._on_cancel
        tell()


class _RunLog(_Adapter):
    """Puts the run's names on each record, and at the head of its message."""

    def __init__(self, request: RunRequest) -> None:
        name = request.job.definition.name
        names = {
            "trigger": request.trigger,
            "firing": request.firing_id,
            "attempt": request.attempt,
            "node": request.node,
        }
        super().__init__(logging.getLogger(f"qsched.job.{name}"), {"job": name, **names})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the run's names to what the caller gave as extra."""
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs
