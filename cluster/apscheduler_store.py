"""`QschedJobStore`: a job store for APScheduler 3 that many processes share, each slot run by one of them.

    scheduler = BackgroundScheduler(jobstores={"default": QschedJobStore("postgresql://…")})

Each job becomes a trigger in a qsched store, and each process runs a node that takes slots, one ledger row each, and hands
them to the scheduler's own executors. APScheduler's loop finds nothing due here: neither its timers nor its calendar
arithmetic decide.
"""

import logging
import os
import threading
from collections.abc import Collection
from typing import Any

from ..scheduler import control
from ..scheduler.added import Added
from ..scheduler.apply import Applied, apply
from ..scheduler.errors import SchedulerError, UnknownTrigger
from ..scheduler.exchange.aps_job import Options, call_of, checked_id, misfire_rule, overlap
from ..scheduler.exchange.aps_trigger import said_of, trigger_of, when_of
from ..scheduler.store.database import Store
from ..scheduler.store.schema import open_store
from ..scheduler.store.trigger_lists import group_trigger_ids
from ..scheduler.store.trigger_rows import DONE, RETIRED, TriggerRow, read_triggers, trigger_ids
from ..scheduler.store.tx import Tx
from ..scheduler.store.wake import announce
from ..triggers.errors import DefinitionError
from ..triggers.instant import from_instant, to_instant
from ..triggers.job import JobDefinition, JobPolicies, digest
from ..triggers.trigger import TriggerDefinition, trigger_key
from .node import Node

try:
    from apscheduler.events import EVENT_SCHEDULER_PAUSED, EVENT_SCHEDULER_RESUMED, EVENT_SCHEDULER_STARTED
    from apscheduler.jobstores.base import BaseJobStore, ConflictingIdError, JobLookupError
    from apscheduler.schedulers.base import STATE_RUNNING
except ImportError as error:
    raise SchedulerError(
        "QschedJobStore needs APScheduler 3", hint="pip install 'qsched[apscheduler]'"
    ) from error

from .apscheduler_job import Hand, job_of

_BODY = "qsched.cluster.apscheduler_job"
_NO_THREADS = ("GeventScheduler", "TornadoScheduler", "TwistedScheduler")
"""Their executors may only be called in a loop that a node has no way into."""

log = logging.getLogger("qsched.apscheduler")


class QschedJobStore(BaseJobStore):  # type: ignore[misc]  # apscheduler says no types
    """Jobs of an APScheduler application in a qsched store; jobs with the same `id` in many processes are one job.

    `group` is the triggers' group, and what keeps applications apart that share a store. `request_recovery`: True, or ids
    of jobs whose run is begun anew elsewhere when its process dies (at least once; else at most once). `capacity`: how many
    of its jobs this process runs at once. Other keywords are those of Node (`cluster`, `lease`, `redis`, …).
    """

    def __init__(
        self,
        url: str = "sqlite:///qsched.db",
        *,
        group: str = "apscheduler",
        request_recovery: bool | Collection[str] = False,
        capacity: int | str = 10,
        **node: Any,
    ) -> None:
        super().__init__()
        self._url = url
        self._group = group
        self._recovers = request_recovery
        self._settings = {"drain_timeout": "5s", **node, "capacity": int(capacity), "tags": (group,)}
        self._store: Store | None = None
        self._turn: _Turn | None = None
        self._replacing: Any = None

    def __repr__(self) -> str:
        return f"<QschedJobStore {self._store or self._group}>"

    # -- the scheduler's life ------------------------------------------------------------------------------------------

    def start(self, scheduler: Any, alias: str) -> None:
        """Open the store; the node starts when the scheduler runs. Raises StoreError, or SchedulerError for a scheduler
        whose executors no node can reach."""
        super().start(scheduler, alias)
        if (kind := type(scheduler).__name__) in _NO_THREADS:
            raise SchedulerError(
                f"QschedJobStore does not work with {kind}",
                hint="use BackgroundScheduler or AsyncIOScheduler",
            )
        self._store = open_store(self._url, cluster=self._settings.get("cluster", "default"), create=True)
        states = EVENT_SCHEDULER_STARTED | EVENT_SCHEDULER_PAUSED | EVENT_SCHEDULER_RESUMED
        scheduler.add_listener(self._follow, states)
        self._follow(None)

    def shutdown(self) -> None:
        """Stop the node. What still runs (`shutdown(wait=False)`) is waited for in a thread of its own, and settled."""
        self._scheduler.remove_listener(self._follow)
        self._end_turn(wait=True)
        if self._store is not None:
            self._store.close()

    def _follow(self, event: Any) -> None:
        """Run while the scheduler runs: one that is paused takes nothing, and other processes do."""
        del event
        if self._scheduler.state != STATE_RUNNING:
            self._end_turn(wait=False)
        elif self._turn is None:
            self._turn = _Turn(self._scheduler, self._alias, _Node(self._url, app=[_BODY], **self._settings))

    def _end_turn(self, *, wait: bool) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.end(wait=wait)

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def add_job(self, job: Any) -> None:
        """Add a job; raises ConflictingIdError where there is one, DefinitionError for what other processes could not run."""
        row = self._row(job.id)
        if row is not None and row.state != DONE:
            self._replacing = job
            raise ConflictingIdError(job.id)
        applied = self._write(job)
        if not (applied.added or applied.revived):
            return
        if job.next_run_time is None:
            self._pause(job.id)
        elif (
            to_instant(job.next_run_time) <= self._now()
            and "at" not in when_of(said_of(job.trigger)).schedule
        ):
            self._fire(job.id)

    def update_job(self, job: Any) -> None:
        """Write what changed of a job, and nothing where nothing did; its next run is its trigger's, and not `next_run_time`.

        A pause (`pause_job`), a resume and "now" (`next_run_time` in the past) are acts upon it, unless the job is only added
        again (`replace_existing`). Raises JobLookupError, or what `add_job` raises.
        """
        again, self._replacing = job is self._replacing, None
        row = self._row(job.id)
        if row is None:
            raise JobLookupError(job.id)
        wrote = self._write(job).wrote
        if again:
            return
        if job.next_run_time is None:
            self._pause(job.id)
        elif row.paused_at is not None:
            control.resume(self._open, [row.key], who=self._who)
            announce(self._open)
        elif not wrote and to_instant(job.next_run_time) <= self._now():
            self._fire(job.id)
        elif not wrote and to_instant(job.next_run_time) != row.next_fire_at:
            log.warning("apscheduler.next_run_time job=%s is not moved: its trigger says when", job.id)

    def remove_job(self, job_id: str) -> None:
        """Retire a job: it runs no more, and its history stays. Raises JobLookupError."""
        try:
            control.delete(self._open, [self._key(job_id)], who=self._who)
        except UnknownTrigger as error:
            raise JobLookupError(job_id) from error

    def remove_all_jobs(self) -> None:
        """Retire every job of the group."""
        keys = [row.key for row in self._rows()]
        if keys:
            control.delete(self._open, keys, who=self._who)

    def lookup_job(self, job_id: str) -> Any:
        """The job; None where there is none, or it is over."""
        row = self._row(job_id)
        return None if row is None or row.state == DONE else self._job(row)

    def get_all_jobs(self) -> list[Any]:
        """Every job that is not over, the next one first, paused ones last; what cannot be imported here is left out."""
        found = [job for row in self._rows() if row.state != DONE and (job := self._job(row)) is not None]
        return sorted(
            found,
            key=lambda job: (job.next_run_time is None, job.next_run_time and job.next_run_time.timestamp()),
        )

    def get_due_jobs(self, now: Any) -> list[Any]:
        """Nothing: what is due is taken by this process's node, or by another's."""
        del now
        return []

    def get_next_run_time(self) -> None:
        """Nothing: the scheduler's loop need not wake up for what a node does."""

    # -- in the store --------------------------------------------------------------------------------------------------

    @property
    def _open(self) -> Store:
        if self._store is None:
            raise SchedulerError("the job store is not open", hint="start the scheduler first")
        return self._store

    @property
    def _who(self) -> str:
        return f"apscheduler {self._alias}"

    def _key(self, job_id: str) -> str:
        return trigger_key(self._group, job_id)

    def _now(self) -> int:
        return self._open.read("look at the clock", Tx.now)

    def _row(self, job_id: str) -> TriggerRow | None:
        pair = (self._group, job_id)

        def look(tx: Tx) -> TriggerRow | None:
            found = trigger_ids(tx, [pair]).get(pair)
            return None if found is None or found[1] == RETIRED else read_triggers(tx, [found[0]])[found[0]]

        return self._open.read("look up a job", look)

    def _rows(self) -> list[TriggerRow]:
        rows = self._open.read(
            "list the jobs", lambda tx: read_triggers(tx, group_trigger_ids(tx, self._group))
        )
        return [row for row in rows.values() if row.state != RETIRED]

    def _job(self, row: TriggerRow) -> Any:
        """The Job of a row; None for one that no QschedJobStore wrote, or whose code is not here."""
        from json import loads

        try:
            data = loads(row.spec)["data"]
            trigger = trigger_of(data["when"])
            at = None if row.held or row.next_fire_at is None else from_instant(row.next_fire_at)
            at = None if at is None else at.astimezone(self._scheduler.timezone)
            return job_of(self._scheduler, self._alias, data["call"], trigger, at)
        except Exception as error:
            log.warning("apscheduler.not_here job=%s reason=%s", row.name, error)
            return None

    def _write(self, job: Any) -> Applied:
        declared = self._declared(job)
        applied = apply(self._open, declared, prune="keep", who=self._who)
        if applied.wrote:
            announce(self._open)
        return applied

    def _declared(self, job: Any) -> Added:
        """A job as a declaration of its own namespace: nobody else's edit touches it, and it none of theirs."""
        try:
            return self._declaration(job)
        except DefinitionError as error:
            raise DefinitionError(f"job {job.id!r}: {error}") from error

    def _declaration(self, job: Any) -> Added:
        name = checked_id(job.id)
        said = said_of(job.trigger)
        when = when_of(said)
        options = Options(job.coalesce, job.misfire_grace_time, job.max_instances)
        recovers = self._recovers if isinstance(self._recovers, bool) else name in self._recovers
        policies = JobPolicies(
            overlap=overlap(options), request_recovery=recovers or None, run_on=(self._group,)
        )
        body = JobDefinition(f"{self._group}.{name}", "python", f"{_BODY}:run", policies=policies)
        trigger = TriggerDefinition(
            name,
            body.name,
            when.schedule,
            group=self._group,
            time_zone=when.time_zone,
            start_at=when.start_at,
            end_at=when.end_at,
            jitter=when.jitter,
            misfire=misfire_rule(options),
            data={"call": call_of(_state(job)), "when": said},
        )
        trigger.compile()
        both = digest([body.to_spec(), trigger.to_spec()])
        return Added((trigger,), (body,), namespace=f"{self._group}/{name}", revision_digest=both)

    def _pause(self, job_id: str) -> None:
        control.pause(self._open, [self._key(job_id)], who=self._who)

    def _fire(self, job_id: str) -> None:
        control.fire(self._open, self._key(job_id), who=self._who)
        announce(self._open)


class _Node(Node):
    """A node whose executors' threads stay in the process that made them: a forked child's copy runs nothing."""

    def _after_fork(self) -> None:
        self._life = type(self._life)()


class _Turn:
    """A node and its hand, from the start of the scheduler (or its resume) until it stops (or is paused)."""

    def __init__(self, scheduler: Any, alias: str, node: Node) -> None:
        self._node = node
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._ending: threading.Thread | None = None
        self._hand = Hand(scheduler, alias, node, lambda: self.end(wait=False))
        node.start()

    def end(self, *, wait: bool) -> None:
        """Take nothing more; with `wait` return when all has ended, unless something still runs."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._ending is None:
                # No daemon: what runs on behind `shutdown(wait=False)` is settled before the process ends.
                self._ending = threading.Thread(target=self._end, name="qsched-apscheduler-end", daemon=False)
                self._ending.start()
        if wait and self._hand.idle:
            self._ending.join()

    def _end(self) -> None:
        self._node.stop()
        self._hand.close()


def _state(job: Any) -> dict[str, Any]:
    """What a job calls, as its own pickles would say it; a method's own object goes with it, and is refused there."""
    from inspect import isclass, ismethod

    state = {name: getattr(job, name) for name in ("id", "args", "kwargs", "executor", "name")}
    state |= {name: getattr(job, name) for name in Options.__dataclass_fields__} | {"func": job.func_ref}
    if ismethod(job.func) and not isclass(job.func.__self__):
        state["args"] = (job.func.__self__, *job.args)
    return state
