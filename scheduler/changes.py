"""What applying a namespace's declarations would change: a pure comparison of what is wanted with what is stored."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..triggers.job import digest
from .desired import CODE, Wanted, WantedJob, WantedTrigger, in_code
from .errors import Conflict
from .store.definition_rows import NamespaceRow
from .store.job_rows import ACTIVE, JobHead
from .store.limit_rows import Limit
from .store.trigger_rows import ERROR, RETIRED, TriggerHead

ADD = "add"
CHANGE = "change"
RENAME = "rename"
REVIVE = "revive"
RETIRE = "retire"

_HASHED = re.compile(r"(?<![A-Za-z])H(?![A-Za-z])")


@dataclass(frozen=True, slots=True)
class Seen:
    """What the store had when it was looked at."""

    namespace: NamespaceRow | None = None
    known_revision: int | None = None
    newer_lives: bool = False
    """Whether a live node carries the namespace's current revision, or a newer one."""
    triggers: Mapping[str, TriggerHead] = field(default_factory=dict)
    jobs: Mapping[str, JobHead] = field(default_factory=dict)
    using: Mapping[int, set[int]] = field(default_factory=dict)
    """{job id: triggers that use it} of jobs that may have to go."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    defaults_namespace: str | None = None
    limits: Mapping[str, Limit] = field(default_factory=dict)
    calendars: Mapping[str, str] = field(default_factory=dict)
    """{name: digest} of the namespace's."""


@dataclass(frozen=True, slots=True)
class TriggerChange:
    """One trigger that is not as it is wanted."""

    kind: str
    key: str
    wanted: WantedTrigger | None
    head: TriggerHead | None

    @property
    def reschedules(self) -> bool:
        """Whether its slots are others from now on; else the next fire time stays what it is."""
        if self.wanted is None or self.head is None or self.kind == REVIVE or self.head.state == ERROR:
            return True
        definition = self.wanted.definition
        by_key = definition.splay is not None or _HASHED.search(str(definition.schedule)) is not None
        hashed = self.kind == RENAME and by_key
        return hashed or self.wanted.schedule_digest != self.head.schedule_digest


@dataclass(frozen=True, slots=True)
class JobChange:
    """One job that is not as it is wanted."""

    kind: str
    name: str
    wanted: WantedJob | None
    head: JobHead | None


@dataclass(frozen=True, slots=True)
class Changes:
    """All that is to be done, in the order in which it is done."""

    jobs: tuple[JobChange, ...]
    triggers: tuple[TriggerChange, ...]
    retired_jobs: tuple[JobChange, ...]
    new_defaults: bool
    unchanged: tuple[str, ...]
    kept: tuple[str, ...]
    """Triggers that left the file and stay (`prune` keep)."""
    warnings: tuple[str, ...]
    new_limits: bool = False
    calendars: tuple[tuple[str, str], ...] = ()
    """(add, change or retire, the name) of each calendar of the register that is not as it is wanted."""

    @property
    def nothing(self) -> bool:
        return not (
            self.jobs
            or self.triggers
            or self.retired_jobs
            or self.new_defaults
            or self.new_limits
            or self.calendars
        )


def compare(wanted: Wanted, seen: Seen, *, prune: str) -> Changes:
    """What has to change; raises Conflict, naming the owner, for a key, job or default that another namespace owns."""
    changes: list[TriggerChange] = []
    unchanged: list[str] = []
    claimed: set[int] = set()
    for key in sorted(wanted.triggers):
        change = _trigger_change(key, wanted, seen)
        if change is None:
            unchanged.append(key)
            claimed.add(seen.triggers[key].id)
        else:
            changes.append(change)
            if change.head is not None:
                claimed.add(change.head.id)
    left = [
        head
        for head in seen.triggers.values()
        if head.namespace == wanted.namespace and head.state != RETIRED and head.id not in claimed
    ]
    if prune != "keep":
        changes += [TriggerChange(RETIRE, head.key, None, head) for head in left]
    jobs, retired, warnings = _job_changes(wanted, seen, changes, kept=left if prune == "keep" else [])
    return Changes(
        jobs=tuple(jobs),
        triggers=tuple(sorted(changes, key=lambda change: change.key)),
        retired_jobs=tuple(retired),
        new_defaults=_new_defaults(wanted, seen),
        unchanged=tuple(unchanged),
        kept=tuple(head.key for head in left) if prune == "keep" else (),
        warnings=tuple(warnings),
        new_limits=_new_limits(wanted, seen),
        calendars=_calendars(wanted, seen, kept=prune == "keep"),
    )


def mass_prune(wanted: Wanted, seen: Seen, changes: Changes) -> str | None:
    """Why declarations that say nothing, or that would retire more than half of the namespace, need a flag; else None."""
    if not wanted.triggers and not wanted.jobs:
        return f"namespace {wanted.namespace!r}: nothing is declared"
    retired = sum(change.kind == RETIRE for change in changes.triggers)
    active = sum(
        head.namespace == wanted.namespace and head.state != RETIRED for head in seen.triggers.values()
    )
    if retired * 2 <= active:
        return None
    return f"namespace {wanted.namespace!r}: {retired} of {active} triggers are no longer declared and would be retired"


def _trigger_change(key: str, wanted: Wanted, seen: Seen) -> TriggerChange | None:
    trigger = wanted.triggers[key]
    head = seen.triggers.get(key)
    if head is None:
        former = _former(trigger, wanted, seen)
        return TriggerChange(ADD if former is None else RENAME, key, trigger, former)
    if head.state == RETIRED:  # nobody's any more
        return TriggerChange(REVIVE, key, trigger, head)
    if head.namespace != wanted.namespace:
        raise _owned("trigger", key, head.namespace)
    broken = head.state == ERROR and head.broken_spec != trigger.spec
    if head.digest == trigger.digest and not broken:
        return None
    return TriggerChange(CHANGE, key, trigger, head)


def _former(trigger: WantedTrigger, wanted: Wanted, seen: Seen) -> TriggerHead | None:
    """The trigger that this one is the new name of; None once that is done, or where there was none."""
    key = trigger.definition.renamed_from
    if key is None or key in wanted.triggers:
        return None
    head = seen.triggers.get(key)
    if head is not None and head.state != RETIRED and head.namespace != wanted.namespace:
        raise _owned("trigger", key, head.namespace)
    return head


def _job_changes(
    wanted: Wanted, seen: Seen, triggers: list[TriggerChange], *, kept: list[TriggerHead]
) -> tuple[list[JobChange], list[JobChange], list[str]]:
    changes: list[JobChange] = []
    warnings: list[str] = []
    for name in sorted(wanted.jobs):
        change = _job_change(wanted.jobs[name], wanted.namespace, seen.jobs.get(name))
        if change is not None:
            changes.append(change)
    freed = {
        change.head.id
        for change in triggers
        if change.head is not None
        and (change.wanted is None or change.wanted.definition.job != change.head.job_name)
    }
    left = {
        change.head.job_name for change in triggers if change.head is not None and change.head.id in freed
    }
    retired: list[JobChange] = []
    for name, head in sorted(seen.jobs.items()):
        mine = head.namespace == wanted.namespace and wanted.namespace != CODE
        if (
            name in wanted.jobs
            or head.state != ACTIVE
            or not (mine or (head.namespace == CODE and name in left))
        ):
            continue
        users = seen.using.get(head.id, set()) - freed
        if not users:
            retired.append(JobChange(RETIRE, name, None, head))
        elif mine and not users & {kept_head.id for kept_head in kept}:
            warnings.append(
                f"job {name!r} is no longer declared, and stays: {len(users)} triggers elsewhere use it"
            )
    return changes, retired, warnings


def _job_change(job: WantedJob, namespace: str, head: JobHead | None) -> JobChange | None:
    if head is None:
        return JobChange(ADD, job.name, job, None)
    if head.state != ACTIVE:
        return JobChange(REVIVE, job.name, job, head)
    if job.shared:
        # Only referred to. A file that no longer declares a job it still uses gives it back to the code.
        given_up = head.namespace == namespace != CODE
        return JobChange(CHANGE, job.name, in_code(job.name), head) if given_up else None
    if head.namespace not in (namespace, CODE):
        raise _owned("job", job.name, head.namespace)
    if head.namespace == namespace and head.digest == job.digest:
        return None
    return JobChange(CHANGE, job.name, job, head)


def _new_defaults(wanted: Wanted, seen: Seen) -> bool:
    if not wanted.defaults:
        return bool(seen.defaults) and seen.defaults_namespace == wanted.namespace
    if seen.defaults and seen.defaults_namespace not in (None, wanted.namespace):
        raise _owned("cluster key", "cluster", str(seen.defaults_namespace))
    return dict(wanted.defaults) != dict(seen.defaults)


def _new_limits(wanted: Wanted, seen: Seen) -> bool:
    """Whether groups are to be limited otherwise; what programs add says nothing of groups, and changes none."""
    for name in sorted(wanted.limits):
        if name in seen.limits and seen.limits[name].namespace != wanted.namespace:
            raise _owned("group limit", name, seen.limits[name].namespace)
    mine = {name: limit.most for name, limit in seen.limits.items() if limit.namespace == wanted.namespace}
    return mine != dict(wanted.limits)


def _calendars(wanted: Wanted, seen: Seen, *, kept: bool) -> tuple[tuple[str, str], ...]:
    fresh = {name: digest(spec) for name, spec in wanted.calendars.items()}
    gone = () if kept else sorted(seen.calendars.keys() - fresh.keys())
    changed = [(ADD if name not in seen.calendars else CHANGE, name) for name in sorted(fresh)
               if seen.calendars.get(name) != fresh[name]]  # fmt: skip
    return (*changed, *((RETIRE, name) for name in gone))


def _owned(what: str, name: str, owner: str) -> Conflict:
    return Conflict(
        f"{what} {name!r} belongs to namespace {owner!r}; nothing was applied",
        hint=f"give it another name or group, or remove it from {owner!r} first",
    )
