"""A trigger as a program adds it: schedule objects and keywords in, the same definition that YAML makes out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, TypedDict

from ..triggers.after import CONDITIONS, OF_SLOTS, SUCCEEDED
from ..triggers.errors import DefinitionError
from ..triggers.instant import to_instant
from ..triggers.job import JobDefinition
from ..triggers.misfire import MisfireRule
from ..triggers.retry import RetryPolicy
from ..triggers.trigger import TriggerDefinition, split_key
from .added_schedules import WRITTEN, Whole, duration, kept_object, kept_written
from .desired import CODE
from .jobs import target_of
from .payload import checked_data


class AddOptions(TypedDict, total=False):
    """What a trigger may say, by the names that YAML has for it; exactly one of those up to `after` says when.

    `schedule` is a Cron, an Every, an At, a CalendarInterval, a DailyWindow, a Recurrence, an AnyOf or an AllOf; `cron` to
    `delay` are what YAML writes (in `any` and `all` objects may stand, too). `after` is another job (a function marked
    @job, or its name) whose ends this one follows: good ones, or those that `on` says (failed, any). `exclude` is {name: keys}
    of calendars, with the keys that YAML has for them.
    """

    schedule: Whole
    cron: str
    quartz: str
    every: str | timedelta
    at: datetime
    calendar_interval: Mapping[str, Any]
    daily_window: Mapping[str, Any]
    rrule: str
    any: Sequence[Whole | Mapping[str, Any]]
    all: Sequence[Whole | Mapping[str, Any]]
    delay: str | timedelta
    after: str | Callable[..., Any]
    on: str
    time_zone: str
    start_at: datetime
    end_at: datetime
    max_fires: int
    exclude: Mapping[str, Mapping[str, Any]]
    on_excluded: str
    jitter: str | timedelta
    splay: str | timedelta
    misfire: str | MisfireRule
    retry: RetryPolicy
    data: Mapping[str, Any]
    priority: int
    paused: bool
    tags: Sequence[str]
    run_on: Sequence[str]
    description: str
    renamed_from: str


@dataclass(frozen=True, slots=True)
class Added:
    """Triggers that a program adds: a declaration of the namespace `code`, which has no file and no revisions."""

    triggers: tuple[TriggerDefinition, ...]
    jobs: tuple[JobDefinition, ...] = ()
    namespace: str = CODE
    cluster_defaults: Mapping[str, Any] = field(default_factory=dict)
    revision_digest: str = ""
    limits: Mapping[str, int] = field(default_factory=dict)
    calendars: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def added(key: str, job: str | Callable[..., Any], options: AddOptions) -> Added:
    """The declaration of one trigger; raises DefinitionError (or CronError, …) for what could not work."""
    group, name = split_key(key)
    for part in (group, name):
        _check_name(part, key)
    if unknown := sorted(options.keys() - AddOptions.__annotations__.keys()):
        close = get_close_matches(unknown[0], AddOptions.__annotations__, 1)
        hint = f": did you mean {close[0]}?" if close else ""
        raise DefinitionError(f"trigger {key!r}: unknown option {unknown[0]}{hint}")
    target = job if isinstance(job, str) else target_of(job)
    given: Mapping[str, Any] = {**options}
    said = {name: given[name] for name in _PLAIN if name in given}
    said |= {name: tuple(given[name]) for name in ("tags", "run_on") if name in given}
    said |= {name: to_instant(given[name]) for name in ("start_at", "end_at") if name in given}
    said |= {name: duration(given[name]) for name in ("jitter", "splay") if name in given}
    if "exclude" in options:
        said |= _calendars(options)
    if "misfire" in options:
        rule = options["misfire"]
        said["misfire"] = MisfireRule(policy=rule) if isinstance(rule, str) else rule
    if "data" in options:
        said["data"] = checked_data(options["data"], of=f"trigger {key!r}")
    trigger = TriggerDefinition(name=name, group=group, job=target, **{**said, **_schedule(key, options)})
    trigger.compile()
    return Added((trigger,))


def _calendars(options: AddOptions) -> dict[str, Any]:
    """`exclude={"closed": {"weekly": ["sun"]}}` as a definition carries it."""
    from ..triggers.given_calendar import (
        calendar_spec,  # pydantic, which a program without calendars does not need
    )

    calendars = {name: calendar_spec(name, keys) for name, keys in sorted(options["exclude"].items())}
    return {
        "exclude": tuple(calendars),
        "calendars": calendars,
        "on_excluded": options.get("on_excluded", "skip"),
    }


_PLAIN = ("time_zone", "max_fires", "retry", "priority", "paused", "description", "renamed_from")
_WHEN = ("schedule", *WRITTEN, "after")


def _schedule(key: str, options: AddOptions) -> dict[str, Any]:
    """The fields that say when."""
    said = [name for name in _WHEN if name in options]
    if len(said) != 1:
        raise DefinitionError(
            f"trigger {key!r} needs exactly one of {', '.join(_WHEN)}"
            + (f", and has {', '.join(said)}" if said else ", as in schedule=Cron('0 9 * * 1')")
        )
    value: Any = {**options}[said[0]]
    if said[0] == "after":
        return {"schedule": _followed(key, value, options)}
    if "on" in options:
        raise DefinitionError(f"trigger {key!r}: `on` goes with `after`, and it has {said[0]}")
    fields = kept_object(key, value) if said[0] == "schedule" else kept_written(key, said[0], value)
    _check_agreed(key, fields, options)
    return fields


def _check_agreed(key: str, fields: Mapping[str, Any], options: AddOptions) -> None:
    """Refuse a schedule object that says another zone or start than the options beside it."""
    zone = options.get("time_zone")
    if zone is not None and fields.get("time_zone", zone) != zone:
        kind = type(options["schedule"]).__name__ if "schedule" in options else "schedule"
        raise DefinitionError(
            f"trigger {key!r}: its {kind} is in {fields['time_zone']} and time_zone says {zone}: say it in one of them"
        )
    start = to_instant(options["start_at"]) if "start_at" in options else None
    if start is not None and fields.get("start_at", start) != start:
        raise DefinitionError(
            f"trigger {key!r}: its schedule and start_at begin at two times: say it in one of them"
        )


def _followed(key: str, job: str | Callable[..., Any], options: AddOptions) -> dict[str, Any]:
    if strange := [name for name in OF_SLOTS if name in options]:
        raise DefinitionError(
            f"trigger {key!r} follows another job and has no slots: leave out {', '.join(strange)}"
        )
    on = options.get("on", SUCCEEDED)
    if on not in CONDITIONS:
        raise DefinitionError(f"trigger {key!r}: on {on!r} is not one of {', '.join(CONDITIONS)}")
    return {"after": job if isinstance(job, str) else target_of(job), "on": on}


def _check_name(name: str, key: str) -> None:
    if not 1 <= len(name) <= 200 or name != name.strip() or "/" in name or not name.isprintable():
        raise DefinitionError(
            f"{key!r} is not a trigger's key: name, or group/name, each of 1 to 200 printable characters without '/'"
        )
