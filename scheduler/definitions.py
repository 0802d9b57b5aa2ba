"""What this node knows of triggers and jobs: compiled once per definition, re-read when the store says they changed."""

import json
import logging
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ..triggers.errors import TriggerError
from ..triggers.instant import SECOND
from ..triggers.job import JobDefinition, JobPolicies
from ..triggers.schedule import Schedule
from ..triggers.trigger import SPEC_VERSION, TriggerDefinition, trigger_key
from .clock import Clock
from .compiled import CompiledTrigger as CompiledTrigger
from .compiled import Poison as Poison
from .compiled import Undecidable as Undecidable
from .compiled import hashes_its_key, read_definition
from .effective import job_policies
from .errors import JobUnloadable
from .loaded_job import LoadedJob
from .registry import JobRegistry
from .store.definition_reads import JobRow, TriggerRow, job_versions, read_jobs, read_triggers
from .store.trigger_rows import definition_hash
from .store.tx import Tx

_KEEP = 50_000
"""Compiled triggers kept; the least recently used go first."""
_KEEP_SPECS = 5_000
_ASK_AGAIN = 60.0
"""Seconds after which a job that could not be loaded is tried again."""
_FRESH = 5.0
_ELSEWHERE = 10.0
"""Seconds for which what must run on other nodes is not looked at."""
_BACKOFF = (1.0, 60.0)
"""Seconds for which an undecidable trigger is left to others: first and longest."""

log = logging.getLogger("qsched.definitions")


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A job as the store declares it, and what this node makes of it."""

    id: int
    name: str
    version: int
    definition: JobDefinition | None
    policies: JobPolicies
    """Effective: YAML over decorator over the cluster's defaults."""
    problem: str | None = None
    followed: bool = False
    """Whether triggers follow its ends."""


@dataclass(slots=True)
class _Left:
    """Something left to others until `again` (monotonic seconds); `since` is database time (µs)."""

    again: float
    since: int
    reason: str
    wait: float
    version: int | None = None
    """Of the trigger's clock, where that was seen."""
    definition: int | None = None
    """Which definition it was: the hash of a trigger's, the updated_at of a job's."""


class OfTrigger(Protocol):
    """A row that names a trigger and says which definition it has: its clock, or a firing of it."""

    @property
    def id(self) -> int | None: ...

    @property
    def definition_hash(self) -> int | None: ...


class Troubled(NamedTuple):
    """A trigger this node could not decide: since when (database time, µs), why, and its clock's version then."""

    since: int
    reason: str
    version: int | None


class Definitions:
    """Used by all of the node's services, under the store's transactions; loading happens outside of them.

    Each service has a thread of its own: what one goes through here is a copy, for another may change it meanwhile.
    """

    def __init__(self, registry: JobRegistry, clock: Clock) -> None:
        self.registry = registry
        self._clock = clock
        self._triggers: OrderedDict[int, CompiledTrigger] = OrderedDict()
        self._specs: dict[str, tuple[TriggerDefinition, Schedule]] = {}
        self._jobs: dict[int, KnownJob] = {}
        self._loaded: dict[int, tuple[int, LoadedJob]] = {}
        self._unloadable: dict[int, _Left] = {}
        self._undecidable: dict[int, _Left] = {}
        self._unwritable: dict[int, _Left] = {}
        self._elsewhere: dict[int, float] = {}
        self._firings_elsewhere: dict[int, float] = {}
        self.defaults: Mapping[str, Any] = {}

    # -- triggers ----------------------------------------------------------------------------------------------------

    def compiled(self, tx: Tx, clocks: Sequence[OfTrigger]) -> dict[int, CompiledTrigger | Exception]:
        """{trigger id: compiled, or Poison/Undecidable}; reads only what is not known by its hash."""
        found: dict[int, CompiledTrigger | Exception] = {}
        missing = []
        for clock in clocks:
            if clock.id is None:
                continue
            known = self._triggers.get(clock.id)
            if known is not None and known.hash == clock.definition_hash:
                with suppress(KeyError):  # another thread has just let go of it
                    self._triggers.move_to_end(clock.id)
                found[clock.id] = known
            else:
                missing.append(clock.id)
        rows = {row.id: row for row in read_triggers(tx, missing)}
        for trigger_id in missing:
            row = rows.get(trigger_id)
            found[trigger_id] = Poison("its trigger row is missing") if row is None else self.compile(row)
        return found

    def compile(self, row: TriggerRow) -> CompiledTrigger | Exception:
        """Compile one stored definition; the exception says whether it is poison or only beyond this node."""
        try:
            compiled = self._compile(row)
        except (Poison, Undecidable) as error:
            return error
        self._triggers[row.id] = compiled
        while len(self._triggers) > _KEEP:
            self._triggers.popitem(last=False)
        return compiled

    def _compile(self, row: TriggerRow) -> CompiledTrigger:
        """Triggers whose specs are alike to the letter share what is made of them: there are few specs and many triggers."""
        made = self._specs.get(row.spec)
        if made is None or row.spec_version > SPEC_VERSION:
            made = read_definition(row)
            if not hashes_its_key(made[0]):
                if len(self._specs) >= _KEEP_SPECS:
                    self._specs.clear()
                self._specs[row.spec] = made
        try:
            fingerprint = definition_hash(row.definition_digest)
        except ValueError as error:
            raise Poison(f"its digest cannot be read: {error}") from error
        return CompiledTrigger(row.id, fingerprint, trigger_key(row.group_name, row.name), *made)

    def trigger(self, tx: Tx, trigger_id: int) -> CompiledTrigger | None:
        """One trigger as it is declared now (for a retry's policy and data); None when that cannot be said."""
        rows = read_triggers(tx, [trigger_id])
        if not rows:
            return None
        known = self._triggers.get(trigger_id)
        if known is not None and known.hash == _hash_of(rows[0]):
            return known
        compiled = self.compile(rows[0])
        return None if isinstance(compiled, Exception) else compiled

    # -- jobs --------------------------------------------------------------------------------------------------------

    def jobs(self, tx: Tx, ids: Collection[int]) -> dict[int, KnownJob]:
        """The jobs as declared now; one that has no row is missing from the answer."""
        versions = job_versions(tx, ids)
        known = self._jobs  # upkeep may put a new one in its place meanwhile
        found = {
            job_id: job
            for job_id, version in versions.items()
            if (job := known.get(job_id)) is not None and job.version == version
        }
        stale = [job_id for job_id in versions if job_id not in found]
        for row in read_jobs(tx, stale):
            found[row.id] = known[row.id] = self._read_job(row)
        return found

    def _read_job(self, row: JobRow) -> KnownJob:
        try:
            definition = JobDefinition.from_spec(row.name, json.loads(row.spec))
            policies = job_policies(row.spec, row.loaded, self.defaults)
        except (TriggerError, ValueError, TypeError, KeyError, AttributeError) as error:
            problem = f"its job {row.name!r} cannot be read: {error}"
            return KnownJob(row.id, row.name, row.updated_at, None, JobPolicies(), problem)
        followed = bool(row.followed)
        return KnownJob(row.id, row.name, row.updated_at, definition, policies, followed=followed)

    def set_defaults(self, text: str | None) -> None:
        """Take over the cluster's defaults (JSON text); what was made from older ones is forgotten."""
        try:
            defaults = json.loads(text) if text else {}
        except ValueError:
            log.warning("cluster.defaults unreadable")
            return
        if defaults != self.defaults:
            self.defaults = defaults
            self._jobs = {}  # a new one: another thread may be reading the old
            self._loaded = {}

    # -- loading -----------------------------------------------------------------------------------------------------

    def forget_loaded(self, job_id: int) -> None:
        """Load this job again when it is next due: what follows from loading it could not be written."""
        self._loaded.pop(job_id, None)

    def loaded(self, job: KnownJob) -> LoadedJob | None:
        """The job ready to run here; None when it was not tried yet (see `load`) or cannot be loaded."""
        known = self._loaded.get(job.id)
        return known[1] if known is not None and known[0] == job.version else None

    def load(self, job_ids: Collection[int], now: int) -> list[tuple[KnownJob, LoadedJob]]:
        """Try to load jobs, outside of every transaction: importing is user code. Answers what was loaded anew."""
        fresh = []
        for job_id in job_ids:
            job = self._jobs.get(job_id)
            if job is None or job.definition is None:
                continue
            try:
                loaded = self.registry.resolve(job.definition).by_default(self.defaults)
            except JobUnloadable as error:
                self.leave_job(job_id, now, str(error))
                continue
            self._loaded[job_id] = (job.version, loaded)
            if self._unloadable.pop(job_id, None) is not None:
                log.info("job.loadable job=%s", job.name)
            fresh.append((job, loaded))
        return fresh

    def leave_job(self, job_id: int, now: int, reason: str) -> None:
        """Leave a job that cannot run here to others for a minute."""
        before = self._unloadable.get(job_id)
        since = now if before is None else before.since
        job = self._jobs.get(job_id)
        self._unloadable[job_id] = _Left(
            self._clock.monotonic() + _ASK_AGAIN,
            since,
            reason,
            _ASK_AGAIN,
            definition=None if job is None else job.version,
        )
        if before is None:  # once, not per tick
            log.warning("job.unloadable job=%s reason=%s", job.name if job else job_id, reason)

    def unloadable(self) -> set[int]:
        """Jobs that are left to others now."""
        now = self._clock.monotonic()
        return {job_id for job_id, left in list(self._unloadable.items()) if left.again > now}

    def unloadable_said(self) -> str | None:
        """What the node row says of jobs it cannot load: JSON {job id: [since, reason]}."""
        return _said(self._unloadable)

    # -- undecidable -------------------------------------------------------------------------------------------------

    def leave_trigger(
        self,
        trigger_id: int,
        now: int,
        reason: str,
        version: int | None = None,
        definition: int | None = None,
    ) -> None:
        """Leave a trigger that this node cannot decide to others, longer each time.

        `version` is its clock's (whoever decides or mends the trigger moves it), `definition` its definition's hash.
        """
        if self._leave(self._undecidable, trigger_id, now, reason, version, definition):
            log.error("trigger.undecidable trigger_id=%s reason=%s", trigger_id, reason)

    def leave_elsewhere(self, triggers: Collection[int], firings: Collection[int]) -> None:
        """Leave to others what must run on nodes with other tags; asked again soon, for it may be declared anew."""
        again = self._clock.monotonic() + _ELSEWHERE
        self._elsewhere |= dict.fromkeys(triggers, again)
        self._firings_elsewhere |= dict.fromkeys(firings, again)

    def leave_firing(self, firing_id: int, now: int, reason: str) -> None:
        """Leave a due firing whose start this node cannot even write to others, longer each time."""
        if self._leave(self._unwritable, firing_id, now, reason):
            log.error("firing.unwritable firing=%s reason=%s", firing_id, reason)

    def _leave(self, left: dict[int, _Left], key: int, now: int, reason: str, *seen: int | None) -> bool:
        """Whether this is new: it is told once, not per tick. `seen`: the version and definition it had."""
        before = left.get(key)
        wait = _BACKOFF[0] if before is None else min(before.wait * 2, _BACKOFF[1])
        since = now if before is None else before.since
        left[key] = _Left(self._clock.monotonic() + wait, since, reason[:500], wait, *seen)
        return before is None

    def decided(self, trigger_ids: Collection[int]) -> None:
        """These could be decided: whatever was wrong is over."""
        if self._undecidable:
            for trigger_id in trigger_ids:
                self._undecidable.pop(trigger_id, None)

    def parked(self) -> set[int]:
        """Triggers that are left to others now."""
        now = self._clock.monotonic()
        self._elsewhere = {key: again for key, again in list(self._elsewhere.items()) if again > now}
        undecidable = {key for key, left in list(self._undecidable.items()) if left.again > now}
        return undecidable | set(self._elsewhere)

    def parked_firings(self) -> set[int]:
        """Due firings that are left to others now."""
        now = self._clock.monotonic()
        unwritable, elsewhere = list(self._unwritable.items()), list(self._firings_elsewhere.items())
        self._unwritable = {key: left for key, left in unwritable if left.again > now - 3600}
        self._firings_elsewhere = {key: again for key, again in elsewhere if again > now}
        return {key for key, left in unwritable if left.again > now} | set(self._firings_elsewhere)

    def undecidable(self) -> dict[int, Troubled]:
        """{trigger id: trouble} of what failed here again lately; what did not is not due here, or is whole again."""
        self._forget_old(self._undecidable)
        return {
            key: Troubled(left.since, left.reason, left.version)
            for key, left in list(self._undecidable.items())
        }

    def forget_repaired(self, triggers: Mapping[int, int | None], jobs: Mapping[int, int]) -> None:
        """Try again at once what was declared anew: {trigger id: hash} and {job id: updated_at} as the store has them."""
        for troubles, definitions in ((self._undecidable, triggers), (self._unloadable, jobs)):
            for key, left in list(troubles.items()):
                if left.definition is not None and definitions.get(key) != left.definition:
                    troubles.pop(key, None)

    def _forget_old(self, troubles: dict[int, _Left]) -> None:
        """A trouble that did not come again when its time had come is over: others decide, or somebody repaired it."""
        now = self._clock.monotonic()
        for key, left in list(troubles.items()):
            if now > left.again + max(left.wait, _FRESH):
                troubles.pop(key, None)

    def undecidable_said(self) -> str | None:
        """What the node row says of triggers it cannot decide."""
        return _said(self._undecidable)

    def unloadable_jobs(self) -> dict[int, tuple[int, str]]:
        """{job id: (since, reason)}."""
        self._forget_old(self._unloadable)
        return {job_id: (left.since, left.reason) for job_id, left in list(self._unloadable.items())}


def _said(left: dict[int, _Left]) -> str | None:
    if not left:
        return None
    return json.dumps(
        {str(key): [each.since // SECOND, each.reason[:200]] for key, each in list(left.items())[:2000]}
    )


def _hash_of(row: TriggerRow) -> int:
    return definition_hash(row.definition_digest)
