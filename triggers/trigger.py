"""A trigger's definition: when to run which job, and what happens when that goes wrong; pure values, stored as JSON."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import DefinitionError
from .job import digest
from .misfire import MisfireRule
from .retry import RetryPolicy
from .schedule import Bounded, Schedule
from .trigger_text import DEFAULT_GROUP as DEFAULT_GROUP
from .trigger_text import schedule_text as schedule_text
from .trigger_text import split_key as split_key
from .trigger_text import trigger_key as trigger_key

SPEC_VERSION = 1
"""The newest trigger spec format this version writes and reads; a newer one belongs to newer nodes."""

DEFAULT_PRIORITY = 5


@dataclass(frozen=True, slots=True)
class TriggerDefinition:
    """One trigger as declared. Durations and instants are microseconds; `schedule` has exactly one kind key.

    `schedule` is `{"cron": text}`, `{"quartz": text}`, `{"every": duration, "anchor"?: instant}` or `{"at": instant}`.
    """

    name: str
    job: str
    schedule: Mapping[str, Any]
    group: str = DEFAULT_GROUP
    time_zone: str = "UTC"
    dst_gap: str = "run_after"
    dst_overlap: str = "once"
    start_at: int | None = None
    end_at: int | None = None
    max_fires: int | None = None
    misfire: MisfireRule = field(default_factory=MisfireRule)
    retry: RetryPolicy | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    priority: int = DEFAULT_PRIORITY
    paused: bool = False
    tags: tuple[str, ...] = ()
    run_on: tuple[str, ...] = ()
    description: str | None = None
    renamed_from: str | None = None

    @property
    def key(self) -> str:
        return trigger_key(self.group, self.name)

    def to_spec(self) -> dict[str, Any]:
        """The stored form: JSON-ready, canonical (a default that was not said and one that was are the same)."""
        spec: dict[str, Any] = {"v": SPEC_VERSION, "job": self.job, "schedule": dict(self.schedule)}
        for name, default in _PLAIN.items():
            if (value := getattr(self, name)) != default:
                spec[name] = list(value) if isinstance(value, tuple) else value
        if self.misfire != MisfireRule():
            spec["misfire"] = self.misfire.to_spec()
        if self.retry is not None:
            spec["retry"] = self.retry.to_spec()
        if self.data:
            spec["data"] = dict(self.data)
        return spec

    @classmethod
    def from_spec(cls, group: str, name: str, spec: object) -> "TriggerDefinition":
        """Read what `to_spec` wrote; raises DefinitionError with the reason."""
        key = trigger_key(group, name)
        if not isinstance(spec, Mapping) or not isinstance(spec.get("schedule"), Mapping):
            raise DefinitionError(f"the definition of trigger {key!r} is not readable: apply it again")
        if not isinstance(spec.get("job"), str):
            raise DefinitionError(f"trigger {key!r} names no job: apply it again")
        plain = {said: value for said, value in spec.items() if said in _PLAIN}
        for said in _TUPLES & plain.keys():
            plain[said] = tuple(plain[said])
        return cls(
            name=name,
            group=group,
            job=spec["job"],
            schedule=spec["schedule"],
            misfire=MisfireRule.from_spec(spec["misfire"]) if spec.get("misfire") else _DEFAULT_RULE,
            retry=None if spec.get("retry") is None else RetryPolicy.from_spec(spec["retry"]),
            data=spec.get("data") or {},
            **plain,
        )

    @property
    def after(self) -> tuple[str, str] | None:
        """(the job whose ends it follows, which of them) of a continuation; None of what has slots."""
        job = self.schedule.get("after")
        return None if job is None else (str(job), str(self.schedule.get("on", "succeeded")))

    def digest(self) -> str:
        """Fingerprint of everything but what only says where it came from (`renamed_from`)."""
        spec = self.to_spec()
        spec.pop("renamed_from", None)
        return digest(spec)

    def schedule_digest(self) -> str:
        """Fingerprint of what decides *when*: an edit that keeps it keeps the next fire time."""
        spec = self.to_spec()
        when = ("schedule", "time_zone", "dst_gap", "dst_overlap", "start_at", "end_at", "max_fires")
        return digest({name: spec.get(name) for name in when})

    def compile(self) -> Schedule:
        """The schedule within its bounds, ready for arithmetic.

        Raises CronError, ZoneError, ScheduleError (the definition is wrong) or DefinitionError (an unknown kind).
        """
        kinds = [kind for kind in self.schedule if kind in _COMPILERS]
        if len(kinds) != 1:
            raise DefinitionError(
                f"trigger {self.key!r}: unknown schedule {sorted(self.schedule)}: a newer qsched may know it"
            )
        inner = _COMPILERS[kinds[0]](self)
        if self.start_at is None and self.end_at is None:
            return inner
        return Bounded(inner, self.start_at, self.end_at)


_DEFAULT_RULE = MisfireRule()
_TUPLES = frozenset({"tags", "run_on"})
_PLAIN: dict[str, Any] = {
    "time_zone": "UTC",
    "dst_gap": "run_after",
    "dst_overlap": "once",
    "start_at": None,
    "end_at": None,
    "max_fires": None,
    "priority": DEFAULT_PRIORITY,
    "paused": False,
    "tags": (),
    "run_on": (),
    "description": None,
    "renamed_from": None,
}


def _compile_cron(trigger: TriggerDefinition) -> Schedule:
    from .cron import Cron  # imported late: reading a list of triggers needs no engine

    dialect = "cron" if "cron" in trigger.schedule else "quartz"
    return Cron(
        trigger.schedule[dialect],
        "unix" if dialect == "cron" else "quartz",
        trigger.time_zone,
        key=trigger.key,
        gap=trigger.dst_gap,
        overlap=trigger.dst_overlap,
    )


def _compile_every(trigger: TriggerDefinition) -> Schedule:
    from .interval import Every

    anchor = trigger.schedule.get("anchor")
    return Every(trigger.schedule["every"], trigger.start_at or 0 if anchor is None else anchor)


def _compile_at(trigger: TriggerDefinition) -> Schedule:
    from .once import At

    return At(trigger.schedule["at"])


def _compile_after(trigger: TriggerDefinition) -> Schedule:
    from .after import After

    return After(trigger.schedule["after"], trigger.schedule.get("on", "succeeded"))


_COMPILERS: dict[str, Callable[[TriggerDefinition], Schedule]] = {
    "cron": _compile_cron,
    "quartz": _compile_cron,
    "every": _compile_every,
    "at": _compile_at,
    "after": _compile_after,
}
