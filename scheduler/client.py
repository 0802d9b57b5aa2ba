"""`Scheduler`: what an application asks of qsched, from any process, without running a node."""

import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from ..triggers.errors import DefinitionError
from ..triggers.instant import from_instant, to_instant
from . import control
from .errors import StoreMissing, UnknownJob
from .store.database import Store
from .store.schema import open_store
from .store.wake import announce

if TYPE_CHECKING:
    from .added import AddOptions
    from .apply import Applied, ApplyOptions
    from .backfill import BackfillBill, BackfillOptions
    from .desired import Declared
    from .enqueue_order import Enqueued, EnqueueOptions
    from .plan import Plan
    from .turns import Bill

_MICROSECOND = timedelta(microseconds=1)

Source = str | Path | Sequence[str | Path]


class Scheduler:
    """A cluster as applications see it; thread-safe, and after a fork it opens connections of its own.

    Nothing is opened before it is needed. What writes makes the schema in an empty database; what reads never does.
    """

    def __init__(
        self, url: str = "sqlite:///qsched.db", *, cluster: str = "default", who: str | None = "python"
    ) -> None:
        self.url = url
        self.cluster = cluster
        self.who = who
        self._store: Store | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    # -- declarations --------------------------------------------------------------------------------------------

    def apply(
        self,
        source: "Source | Declared",
        *,
        known_jobs: Collection[str] = (),
        **options: "Unpack[ApplyOptions]",
    ) -> "Applied":
        """Make the store say what YAML files (paths) or declarations say; see `qsched apply`.

        `known_jobs` names jobs that only code declares. Raises DeclarationError, Conflict or Refused.
        """
        from .apply import apply

        store = self._open(create=True)
        declared = self._declared(store, source, known_jobs)
        options.setdefault("who", self.who)
        applied = apply(store, declared, **options)
        if applied.wrote:
            announce(store)
        return applied

    def plan(
        self, source: "Source | Declared", *, known_jobs: Collection[str] = (), prune: str = "retire"
    ) -> "Plan":
        """What `apply` would do, and what would fire because of it; reads only."""
        from .plan import plan

        try:
            store: Store | None = self._open(create=False)
        except StoreMissing:
            store = None
        return plan(store, self._declared(store, source, known_jobs), prune=prune)

    def add(self, key: str, *, job: str | Callable[..., Any], **options: "Unpack[AddOptions]") -> bool:
        """Add or change one trigger (`name` or `group/name`) of the namespace `code`; True when something changed.

            scheduler.add("nightly", job=report, schedule=Cron("15 2 * * *", time_zone="Europe/Istanbul"))

        `job` is a function marked @job, `module:function`, or a job's name. Said again it changes nothing, so that
        every replica may say it at its start.
        """
        from .added import added
        from .apply import apply

        declared = added(key, job, options)
        store = self._open(create=True)
        applied = apply(store, declared, prune="keep", who=self.who)
        if applied.wrote:
            announce(store)
        return applied.wrote

    # -- triggers ------------------------------------------------------------------------------------------------

    def pause(
        self, *keys: str, reason: str | None = None, until: datetime | timedelta | None = None
    ) -> "tuple[Bill, ...]":
        """Pause triggers; when this has returned nothing of them starts. Answers what they owed until now."""
        store = self._open(create=False)
        return control.pause(store, keys, reason=reason, who=self.who, until=self._instant(store, until))

    def resume(self, *keys: str, catch_up: bool = False) -> "tuple[Bill, ...]":
        """End the pause of triggers; what passed meanwhile is recorded, and runs only where `catch_up` asks for it."""
        return self._then_wake(control.resume, keys, catch_up=catch_up)

    def pause_group(
        self, group: str, *, reason: str | None = None, until: datetime | timedelta | None = None
    ) -> "tuple[Bill, ...]":
        """Pause all triggers of a group, also those it will get."""
        store = self._open(create=False)
        end = self._instant(store, until)
        return control.pause_group(store, group, reason=reason, who=self.who, until=end)

    def resume_group(self, group: str, *, catch_up: bool = False) -> "tuple[Bill, ...]":
        """End a group's pause; triggers that are paused by themselves stay so."""
        return self._then_wake(control.resume_group, group, catch_up=catch_up)

    def fire(
        self,
        key: str,
        *,
        data: Mapping[str, Any] | None = None,
        request_key: str | None = None,
        force: bool = False,
    ) -> int:
        """Have a trigger's job run now, on any node; answers the firing's id. The same `request_key` fires once."""
        store = self._open(create=False)
        firing = control.fire(store, key, data=data, who=self.who, request_key=request_key, force=force)
        announce(store)
        return firing

    def backfill(
        self,
        key: str,
        first: datetime,
        last: datetime,
        *,
        dry_run: bool = False,
        **options: "Unpack[BackfillOptions]",
    ) -> "BackfillBill":
        """Have the slots of a trigger from `first` to `last` (aware, both included) run, oldest first; answers the bill.

        One at a time, or with `overlap="allow"` as many at once as there are places. Slots that ran, or were backfilled
        before, are left out unless `again`; `dry_run` only answers. Raises UnknownTrigger, Refused (a paused, failed or
        retired trigger, without `force`; more than 100,000 slots), TriggerError for a naive instant.
        """
        from .backfill import BackfillOrder, backfill_all, backfill_bill

        store = self._open(create=False)
        order = BackfillOrder(key, to_instant(first), to_instant(last), who=self.who, **options)
        if dry_run:
            return backfill_bill(store, order)
        bill = backfill_all(store, order)
        announce(store)
        return bill

    def enqueue(
        self,
        job: str | Callable[..., Any],
        data: Mapping[str, Any] | None = None,
        *,
        connection: Any = None,
        **options: "Unpack[EnqueueOptions]",
    ) -> "Enqueued":
        """Have a job run once on any node: now, after a `delay`, or `at` an instant. Answers (id, created).

            scheduler.enqueue(send_mail, {"order_id": 7}, delay="1h", unique_key="mail:7")

        `job` is a function marked @job, `module:function`, or a job's name. With `connection` (a Connection or Session of
        SQLAlchemy on the store's database) it is part of that transaction: committed with it, gone with its rollback.
        Raises DefinitionError for what no job could be given, UnknownJob, Refused (a retired job), Conflict, StoreError.
        """
        from .enqueue import enqueue
        from .enqueue_order import order_of

        order = order_of(job, data, options)
        store = self._open(create=True)
        return enqueue(store, order, connection, lambda: announce(store))

    def reset(self, *keys: str) -> "tuple[Bill, ...]":
        """Clear the error of triggers and begin anew from now."""
        return self._then_wake(control.reset, keys)

    def delete(self, *keys: str) -> "tuple[Bill, ...]":
        """Retire triggers: they fire no more, their history stays."""
        return self._then_wake(control.delete, keys)

    def next(self, key: str, n: int = 1) -> list[datetime]:
        """The trigger's next `n` slots (UTC), undecided ones first; fewer where there are no more."""
        store = self._open(create=False)
        return [from_instant(slot) for slot in store.read("next", lambda tx: control.next_slots(tx, key, n))]

    def triggers(self, *, group: str | None = None) -> Iterator[dict[str, Any]]:
        """Every trigger as `qsched triggers list -o json` shows it."""
        from .store.reports import triggers

        for item in triggers(self._open(create=False), group=group):
            yield dict(item)

    def job_status(self, name: str) -> dict[str, Any]:
        """What became of a job's firings, also of those that are pruned: `last_success_at`, `last_failure_at` (RFC 3339),
        `consecutive_failures` since the last success, and `success_by_attempt`, as in {"0": 97, "1": 3}.

        Reads all rows that the job's triggers have. Raises UnknownJob.
        """
        from .store.job_reports import job_status

        found = job_status(self._open(create=False), name)
        if found is None:
            raise UnknownJob(f"no job {name!r}", hint="`qsched jobs list` shows all")
        return found

    # -- firings -------------------------------------------------------------------------------------------------

    def cancel(self, firing_id: int, *, reason: str | None = None) -> str:
        """End one firing: `cancelled` where it waited, `asked` where it runs (its body is told within a check-in).

        Raises UnknownFiring, or Refused for one that has ended.
        """
        from .firing_acts import cancel

        return cancel(self._open(create=False), [firing_id], who=self.who, reason=reason)[firing_id]

    def retry(
        self,
        firing_id: int,
        data: Mapping[str, Any] | None = None,
        *,
        request_key: str | None = None,
        force: bool = False,
    ) -> int:
        """Run an ended firing's job once more, now; answers the id of the new firing, which names the old one.

        `data` go over the old one's. Raises UnknownFiring, or Refused for one that has not ended, or (without `force`) that
        succeeded.
        """
        from .firing_acts import retry

        store = self._open(create=False)
        firing = retry(store, firing_id, data=data, who=self.who, request_key=request_key, force=force)
        announce(store)
        return firing

    # -- the store -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        with self._locked():
            store, self._store = self._store, None
        if store is not None:
            store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _locked(self) -> threading.Lock:
        if self._pid != os.getpid():  # another thread may have held it when this process was forked
            self._pid, self._lock = os.getpid(), threading.Lock()
        return self._lock

    def _open(self, *, create: bool) -> Store:
        with self._locked():
            if self._store is None:
                self._store = open_store(self.url, cluster=self.cluster, create=create)
            return self._store

    def _then_wake(
        self, verb: Callable[..., "tuple[Bill, ...]"], what: object, **options: Any
    ) -> "tuple[Bill, ...]":
        store = self._open(create=False)
        done = verb(store, what, who=self.who, **options)
        announce(store)
        return done

    def _instant(self, store: Store, until: datetime | timedelta | None) -> int | None:
        if isinstance(until, timedelta):
            return store.read("now", lambda tx: tx.now()) + until // _MICROSECOND
        return None if until is None else to_instant(until)

    def _declared(
        self, store: Store | None, source: "Source | Declared", known_jobs: Collection[str]
    ) -> "Declared":
        if not isinstance(source, str | Path | Sequence):
            return source
        from ..triggers.declaration import load
        from .clock import SystemClock
        from .store.reports import job_names

        paths = [source] if isinstance(source, str | Path) else list(source)
        if not paths:
            raise DefinitionError("nothing to apply: give a file or a folder")
        known = set(known_jobs) | (set() if store is None else job_names(store))
        return load(paths, now=SystemClock().wall(), known_jobs=known)
