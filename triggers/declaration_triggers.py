"""Triggers of a declaration: the schedule, its bounds and rules, and the job they run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .after import OF_SLOTS, SUCCEEDED
from .compiling import Frame
from .declaration_calendars import Calendars
from .declaration_fields import Wrong, is_target, name_fault
from .declaration_files import Source
from .declaration_jobs import Jobs, complain, raw_at
from .declaration_keys import KINDS, ONLY_OF_JOBS, SCHEDULES, TriggerKeys
from .declaration_merge import merged, misfire_rule, retry_policy
from .declaration_schedules import COMBINED, kept, part_faults, place_of_fault
from .declaration_shape import read_shape
from .declaration_times import Moment
from .errors import TriggerError
from .schedule import Schedule
from .trigger import DEFAULT_GROUP, DEFAULT_PRIORITY, TriggerDefinition, trigger_key
from .yaml_tree import Path


@dataclass(frozen=True, eq=False, slots=True)
class Declared:
    """A trigger that was made, with its place and its compiled schedule."""

    definition: TriggerDefinition
    schedule: Schedule
    source: Source
    path: Path


@dataclass(eq=False)
class Triggers:
    """All triggers of one declaration."""

    jobs: Jobs
    calendars: Calendars = field(default_factory=Calendars)
    declared: dict[str, Declared] = field(default_factory=dict)
    places: dict[str, tuple[Source, Path]] = field(default_factory=dict)

    def read_section(self, source: Source) -> list[tuple[Source, Path, dict[str, Any]]]:
        """The shapes of `triggers` of one file, with the inline jobs among them already declared."""
        shapes = []
        section = source.section("triggers")
        for name, raw in (section or {}).items():
            path: Path = ("triggers", name)
            if (fault := name_fault(name)) is not None:
                complain(source, path, fault._replace(on_key=True))
            said = read_shape(TriggerKeys, raw, source.document, path)
            shapes.append((source, path, said))
            self._take_key(said, source, path)
            self._inline_job(said, source, path)
        return shapes

    def _take_key(self, said: Mapping[str, Any], source: Source, path: Path) -> None:
        key = trigger_key(said.get("group", DEFAULT_GROUP), str(path[1]))
        if key not in self.places:
            self.places[key] = (source, path)
            return
        other, there = self.places[key]
        first = other.document.at_path(there, "E025", "", key=True)
        message = f"the trigger `{key}` is also declared in {other.file}, line {first.line}"
        complain(
            source, path, Wrong("E025", message, "keep one, rename one, or give it a `group`", on_key=True)
        )

    def _inline_job(self, said: Mapping[str, Any], source: Source, path: Path) -> None:
        """A trigger with `command` or `python` declares a job of its own, named by the trigger's key."""
        raw = raw_at(source, path)
        if not any(kind in raw for kind in KINDS):
            return
        group = said.get("group", DEFAULT_GROUP)
        own = {key: said[key] for key in (*KINDS, *ONLY_OF_JOBS, "group") if key in said}
        name = trigger_key(group, str(path[1]))
        if "job" in raw:
            kind = next(kind for kind in KINDS if kind in raw)
            wrong = Wrong("E021", f"both `job` and `{kind}` are given", "keep one", (kind,), True)
            complain(source, path, wrong)
        elif name in self.jobs.places and self.jobs.places[name][1][0] == "jobs":
            other, there = self.jobs.places[name]
            line = other.document.at_path(there, "E025", "", key=True).line
            message = f"this trigger declares the job `{name}`, which {other.file}, line {line} declares too"
            complain(
                source,
                path,
                Wrong("E025", message, f"write `job: {name}`, or rename the trigger", on_key=True),
            )
        else:
            self.jobs.place(name, self.jobs.build(name, own, source, path), source, path)

    def build(self, source: Source, path: Path, said: dict[str, Any]) -> None:
        """Make the trigger that `said` means; all that is wrong with it becomes problems."""
        raw = raw_at(source, path)
        if not raw:
            return  # it is not a mapping, and that was said already
        kind = _schedule_kind(raw, source, path)
        job = self._job(raw, said, source, path)
        _check(raw, kind, source, path)
        self._check_renamed(said, source, path)
        self.jobs.check_variables({"data": said.get("data")}, source, path)
        if kind is None or kind not in said:
            return
        if kind == "after" and not self._followed(said, source, path):
            return
        if faults := part_faults(kind, said):
            for wrong in faults:
                complain(source, path, wrong)
            return
        calendars = self.calendars.named(said.get("exclude", []), source, path)
        if calendars is None:
            return
        definition = self._definition(kind, job or "", {**said, "calendars": calendars}, (source, path))
        schedule = _compiled(definition, kind, source, path)
        if schedule is not None:
            self.declared.setdefault(definition.key, Declared(definition, schedule, source, path))

    def _definition(
        self, kind: str, job: str, said: dict[str, Any], place: tuple[Source, Path]
    ) -> TriggerDefinition:
        """The definition; with problems noted where its parts do not fit together."""
        source, path = place
        zoned: dict[str, Any] = {
            key: source.defaults[key] for key in ("time_zone", "dst", "misfire") if key in source.defaults
        }
        full = merged(zoned, said)
        zone = full.get("time_zone", "UTC")
        times = _Times(zone, said)
        schedule = kept(kind, said, zone)
        if kind == "after":
            schedule = {"after": said[kind]["job"], "on": said[kind].get("on", SUCCEEDED)}
        start_at, end_at = times.of("start_at"), times.of("end_at")
        if start_at is not None and end_at is not None and start_at > end_at:
            complain(
                source,
                path,
                Wrong("E023", "`end_at` is before `start_at`", "swap or correct them", ("end_at",)),
            )
        retry, run_on = self._policies(said, job, source)
        return TriggerDefinition(
            name=str(path[1]),
            job=job,
            schedule=schedule,
            group=said.get("group", DEFAULT_GROUP),
            time_zone=zone,
            dst_gap=full.get("dst", {}).get("gap", "run_after"),
            dst_overlap=full.get("dst", {}).get("overlap", "once"),
            start_at=start_at,
            end_at=end_at,
            max_fires=said.get("max_fires"),
            exclude=tuple(sorted(said["calendars"])),
            calendars=said["calendars"],
            on_excluded=said.get("on_excluded", "skip") if said["calendars"] else "skip",
            jitter=said.get("jitter"),
            splay=said.get("splay"),
            misfire=misfire_rule(full.get("misfire")),
            retry=retry_policy(retry, source.document, path)[0],
            data=said.get("data", {}),
            priority=said.get("priority", source.defaults.get("priority", DEFAULT_PRIORITY)),
            paused=said.get("paused", False),
            tags=tuple(said.get("tags", ())),
            run_on=tuple(run_on),
            description=said.get("description"),
            renamed_from=said.get("renamed_from"),
        )

    def _policies(
        self, said: Mapping[str, Any], job: str, source: Source
    ) -> tuple[Mapping[str, Any] | None, list[str]]:
        """The trigger's own retry and run_on; the file's defaults where no job of the files carries them."""
        defaults = source.defaults if job not in self.jobs.names else {}
        retry, run_on = (
            said.get("retry", defaults.get("retry")),
            said.get("run_on", defaults.get("run_on", [])),
        )
        if "retry" in said and "retry" in source.defaults:
            retry = merged({"retry": source.defaults["retry"]}, {"retry": said["retry"]})["retry"]
        return retry, run_on

    def _job(self, raw: Mapping[str, Any], said: Mapping[str, Any], source: Source, path: Path) -> str | None:
        """The name of the job that the trigger runs."""
        if any(kind in raw for kind in KINDS):
            return trigger_key(said.get("group", DEFAULT_GROUP), str(path[1]))
        for key in ONLY_OF_JOBS:
            if key in raw:
                message = f"`{key}` belongs to the job, and this trigger declares none"
                hint = "set it under `jobs`, or on the function"
                complain(source, path, Wrong("E026", message, hint, (key,), True))
        if "job" not in raw:
            hint = "add `job: name`, `command: …`, `python: module:function` or `http: …`"
            message = f"the trigger `{path[1]}` does not say what to run"
            complain(source, path, Wrong("E013", message, hint, on_key=True))
            return None
        job: str | None = said.get("job")
        if job is None:
            return None
        if is_target(job) and self.jobs.places.get(job, ("", ("",)))[1][0] != "jobs":
            self.jobs.from_target(job, source, path)
        return job if self.jobs.refer(job, source, path) else None

    def _followed(self, said: Mapping[str, Any], source: Source, path: Path) -> bool:
        """Whether `after` names a job that there is."""
        job = said["after"].get("job")
        at = ("after", "job") if isinstance(raw_at(source, path).get("after"), Mapping) else ("after",)
        if job is None:
            hint = "write after: name, or after: {job: name, on: failed}"
            complain(source, path, Wrong("E013", "`after` does not say which job", hint, ("after",)))
            return False
        if is_target(job) and self.jobs.places.get(job, ("", ("",)))[1][0] != "jobs":
            self.jobs.from_target(job, source, path)
        return self.jobs.refer(job, source, path, at)

    def _check_renamed(self, said: Mapping[str, Any], source: Source, path: Path) -> None:
        old = said.get("renamed_from")
        if old in self.places:
            message = f"`{old}` is still declared, so this trigger cannot be its new name"
            hint = "remove the old one, or this key"
            complain(source, path, Wrong("E026", message, hint, ("renamed_from",)))


class _Times:
    """The dates of one trigger, read in its zone."""

    def __init__(self, zone: str, said: Mapping[str, Any]) -> None:
        self.zone, self.said = zone, said

    def of(self, key: str) -> int | None:
        moment: Moment | None = self.said.get(key)
        return None if moment is None else moment.instant(self.zone)


_OF_SLOTS = (*OF_SLOTS, "dst")

_NO_EFFECT = {"every": ("dst",), "daily_window": ("dst",), "at": ("dst",), "delay": ("dst", "splay")}


def _schedule_kind(raw: Mapping[str, Any], source: Source, path: Path) -> str | None:
    kinds = [key for key in raw if key in SCHEDULES]
    if len(kinds) > 1:
        names = " and ".join(f"`{kind}`" for kind in kinds)
        complain(source, path, Wrong("E021", f"{names} are given, and a trigger has one schedule", "keep one",
                                     (kinds[1],), True))  # fmt: skip
        return None
    if not kinds:
        hint = f"add one of {', '.join(SCHEDULES)}"
        complain(source, path, Wrong("E013", f"the trigger `{path[1]}` has no schedule", hint, on_key=True))
    return kinds[0] if kinds else None


def _check(raw: Mapping[str, Any], kind: str | None, source: Source, path: Path) -> None:
    """Keys that need another key, or have no effect beside it."""
    if "anchor" in raw and kind not in ("every", None):
        hint = "use start_at, or every"
        complain(
            source,
            path,
            Wrong("E026", f"`anchor` goes with `every`, not with `{kind}`", hint, ("anchor",), True),
        )
    for key in _OF_SLOTS if kind == "after" else ():
        if key in raw:
            message = (
                f"`{key}` has no meaning for a trigger that follows another job: it has no slots of its own"
            )
            complain(source, path, Wrong("E026", message, "remove it", (key,), True))
    for key in _NO_EFFECT.get(kind or "", ()):
        if key in raw:
            why = "" if kind == "at" or key == "splay" else ", which counts elapsed time"
            message = f"`{key}` has no effect on `{kind}`{why}"
            complain(source, path, Wrong("W006", message, "remove it", (key,), True))
    if "on_excluded" in raw and "exclude" not in raw:
        wrong = Wrong(
            "W006", "`on_excluded` has no effect without `exclude`", "remove it", ("on_excluded",), True
        )
        complain(source, path, wrong)
    misfire = raw.get("misfire")
    if isinstance(misfire, Mapping):
        policy = misfire.get("policy") or source.defaults.get("misfire", {}).get("policy", "fire_once")
        for key in ("window", "limit"):
            if key in misfire and policy != "fire_all":
                message = f"`{key}` bounds `fire_all` only, and the policy is `{policy}`"
                complain(source, path, Wrong("W006", message, "remove it", ("misfire", key), True))


def _compiled(definition: TriggerDefinition, kind: str, source: Source, path: Path) -> Schedule | None:
    try:
        return definition.compile()
    except TriggerError as error:
        _, mark, inner = str(error).partition(
            '": '
        )  # what stands before is the expression, and is shown anyway
        message, mark, hint = (inner if mark else str(error)).rpartition("; ")
        message, hint = (message, hint) if mark else (hint, "")
        code = "E022" if "can never fire" in str(error) else "E020"
        frame = Frame(definition.key, definition.time_zone, start_at=definition.start_at)
        at = place_of_fault(definition.schedule, frame) if kind in COMBINED else (kind,)
        if message.startswith("on_excluded"):
            at = ("on_excluded",)
        complain(source, path, Wrong(code, message, hint, at))
    return None
