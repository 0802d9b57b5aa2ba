"""A trigger's definition: when to run which job, and what happens when that goes wrong; pure values, stored as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import DefinitionError
from .job import digest
from .misfire import MisfireRule
from .retry import RetryPolicy
from .schedule import Schedule
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

    `schedule` is `{"cron": text}`, `{"every": duration, "anchor"?: instant}`, … (`compiling` knows each kind).
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
    exclude: tuple[str, ...] = ()
    """Names of the calendars whose time is left out."""
    calendars: Mapping[str, Any] = field(default_factory=dict)
    """{name: what it says} of those: in the definition itself, so that every node leaves out the same."""
    on_excluded: str = "skip"
    """What becomes of a slot that is left out: skip, or next or previous (day that is not)."""
    jitter: int | None = None
    """How much later than its slot a firing may run; drawn anew for each slot."""
    splay: int | None = None
    """Within how much time the trigger's slots are moved, by an amount that its key decides."""
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
        if self.calendars:
            spec["calendars"] = dict(self.calendars)
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
            calendars=spec.get("calendars") or {},
            data=spec.get("data") or {},
            **plain,
        )

    @property
    def after(self) -> tuple[str, str] | None:
        """(the job whose ends it follows, which of them) of a continuation; None of what has slots."""
        job = self.schedule.get("after")
        return None if job is None else (str(job), str(self.schedule.get("on", "succeeded")))

    @property
    def delay(self) -> int | None:
        """How long (µs) after the end of its run the next slot comes; None of what has slots by itself."""
        delay = self.schedule.get("delay")
        return None if delay is None else int(delay)

    def digest(self) -> str:
        """Fingerprint of everything but what only says where it came from (`renamed_from`)."""
        spec = self.to_spec()
        spec.pop("renamed_from", None)
        return digest(spec)

    def schedule_digest(self) -> str:
        """Fingerprint of what decides *when*: an edit that keeps it keeps the next fire time."""
        spec = self.to_spec()
        return digest({name: spec.get(name) for name in _WHEN})

    def compile(self) -> Schedule:
        """The schedule within its bounds and outside its calendars, ready for arithmetic.

        Raises CronError, ZoneError, ScheduleError (the definition is wrong) or DefinitionError (an unknown kind).
        """
        from .compiling import Frame, Shift, compile_whole  # late: reading a list of triggers needs no engine

        if missing := [name for name in self.exclude if name not in self.calendars]:
            raise DefinitionError(
                f"trigger {self.key!r} leaves out {', '.join(missing)}, and its definition does not say what that is:"
                " apply it again"
            )
        frame = Frame(*(self.key, self.time_zone, self.dst_gap, self.dst_overlap, self.start_at, self.end_at))
        calendars = {name: self.calendars[name] for name in self.exclude}
        return compile_whole(self.schedule, frame, Shift(self.splay, calendars, self.on_excluded))


_DEFAULT_RULE = MisfireRule()
_TUPLES = frozenset({"exclude", "tags", "run_on"})
_WHEN = (
    *("schedule", "time_zone", "dst_gap", "dst_overlap", "start_at", "end_at", "max_fires"),
    *("exclude", "calendars", "on_excluded", "splay"),
)
"""What decides when a trigger's slots are; its jitter only moves what runs."""
_PLAIN: dict[str, Any] = {
    "time_zone": "UTC",
    "dst_gap": "run_after",
    "dst_overlap": "once",
    "start_at": None,
    "end_at": None,
    "max_fires": None,
    "exclude": (),
    "on_excluded": "skip",
    "jitter": None,
    "splay": None,
    "priority": DEFAULT_PRIORITY,
    "paused": False,
    "tags": (),
    "run_on": (),
    "description": None,
    "renamed_from": None,
}
