"""What a namespace wants: its declarations as rows and digests, worked out before any transaction begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..triggers.job import JOB_SPEC_VERSION, JobDefinition, canonical, digest
from ..triggers.trigger import TriggerDefinition
from .errors import Refused

CODE = "code"
"""The namespace of what programs add; no file may claim it."""


class Declared(Protocol):
    """What is applied: a namespace's jobs, triggers and cluster defaults, however they were written down."""

    @property
    def namespace(self) -> str: ...
    @property
    def jobs(self) -> Sequence[JobDefinition]: ...
    @property
    def triggers(self) -> Sequence[TriggerDefinition]: ...
    @property
    def cluster_defaults(self) -> Mapping[str, Any]: ...
    @property
    def revision_digest(self) -> str: ...
    @property
    def limits(self) -> Mapping[str, int]: ...
    @property
    def calendars(self) -> Mapping[str, Mapping[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class WantedTrigger:
    """A trigger as it is to be stored."""

    definition: TriggerDefinition
    spec: str
    digest: str
    """Of the key and of all that the definition says, save where it came from."""

    @classmethod
    def of(cls, definition: TriggerDefinition) -> "WantedTrigger":
        spec = definition.to_spec()
        text = said = canonical(spec)
        if spec.pop("renamed_from", None) is not None:
            said = canonical(spec)
        # The key is part of it: a node keeps what it compiled under this digest, and a new name hashes `H` anew.
        return cls(definition, text, digest([definition.key, said]))

    @property
    def schedule_digest(self) -> str:
        return self.definition.schedule_digest()


@dataclass(frozen=True, slots=True)
class WantedJob:
    """A job as it is to be stored. A `shared` one is only referred to: whoever declares it by that name wins."""

    name: str
    namespace: str
    spec: str
    digest: str
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """Everything a namespace wants, by key and name."""

    namespace: str
    triggers: Mapping[str, WantedTrigger]
    jobs: Mapping[str, WantedJob]
    defaults: Mapping[str, Any]
    digest: str
    limits: Mapping[str, int] = field(default_factory=dict)
    """{group: how many firings of its jobs run at once}."""
    calendars: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """{name: what it leaves out}: a register for readers, for each trigger carries its own."""


def wanted_of(declared: Declared) -> Wanted:
    """The rows that `declared` asks for; jobs that a trigger names and nobody declares are looked up in code.

    Raises Refused for a file that claims the namespace of what programs add.
    """
    if declared.namespace == CODE and declared.revision_digest:
        raise Refused(
            f"namespace {CODE!r} belongs to what programs add", hint="give the file another namespace"
        )
    triggers = {trigger.key: WantedTrigger.of(trigger) for trigger in declared.triggers}
    jobs = {job.name: _wanted_job(job, declared.namespace) for job in declared.jobs}
    for trigger in declared.triggers:
        for name in named(trigger):
            if name not in jobs:
                jobs[name] = in_code(name)
    return Wanted(
        declared.namespace,
        triggers,
        jobs,
        dict(declared.cluster_defaults),
        declared.revision_digest,
        dict(declared.limits),
        dict(declared.calendars),
    )


def named(trigger: TriggerDefinition) -> tuple[str, ...]:
    """The jobs that a trigger names: the one it runs, and the one it follows."""
    return (trigger.job,) if trigger.after is None else (trigger.job, trigger.after[0])


def in_code(name: str) -> WantedJob:
    """A job that no YAML declares: `module:function`, or the name of a function marked @job that a node knows."""
    spec = {"v": JOB_SPEC_VERSION, "python": name}
    return WantedJob(name, CODE, canonical(spec), digest(spec), shared=True)


def _wanted_job(job: JobDefinition, namespace: str) -> WantedJob:
    spec = job.to_spec()
    if spec == {"v": JOB_SPEC_VERSION, "python": job.name} or namespace == CODE:
        return WantedJob(job.name, CODE, canonical(spec), job.digest(), shared=True)
    return WantedJob(job.name, namespace, canonical(spec), job.digest())
