"""Definitions back in the words of a file: what is read from it again is the same, digest for digest."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ...triggers.duration import format_duration
from ...triggers.instant import rfc3339
from ...triggers.job import JobDefinition, JobPolicies
from ...triggers.misfire import MisfireRule
from ...triggers.retry import RetryPolicy
from ...triggers.trigger import DEFAULT_GROUP, TriggerDefinition

_DURATIONS: Final = frozenset(("delay", "max_delay", "give_up_after", "threshold", "window", "timeout"))


class Unsayable(ValueError):
    """A definition that no file can declare: the message says what and why."""


def document(
    namespace: str,
    jobs: Iterable[JobDefinition],
    triggers: Iterable[TriggerDefinition],
    limits: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """A file's content: jobs and triggers of one namespace, each said in full."""
    said: dict[str, Any] = {"qsched": 1, "namespace": namespace}
    listed = list(triggers)
    # A trigger that follows a job may name no zone, and yet carries the one of its file.
    zone = next((trigger.time_zone for trigger in listed if trigger.after is not None), "UTC")
    if zone != "UTC":
        said["defaults"] = {"time_zone": zone}
    calendars = {name: spec for trigger in listed for name, spec in trigger.calendars.items()}
    if calendars:
        said["calendars"] = {name: calendar(spec) for name, spec in sorted(calendars.items())}
    if limits:
        said["groups"] = {name: {"limit": most} for name, most in sorted(limits.items())}
    own = {job.name: job for job in jobs}
    inline = {
        trigger.key for trigger in listed if trigger.job == trigger.key and _belongs(own.get(trigger.job))
    }
    named = {
        name: job
        for name, job in own.items()
        if name not in inline and job != JobDefinition(name, "python", name)
    }
    if wrong := next((name for name in named if "/" in name), None):
        raise Unsayable(
            f"the job {wrong} has a group in its name and policies of its own: declare it under another name"
        )
    if named:
        said["jobs"] = {name: job_said(job) for name, job in named.items()}
    said["triggers"] = {
        trigger.name: trigger_said(trigger, own[trigger.job] if trigger.key in inline else None)
        for trigger in listed
    }
    if len(said["triggers"]) != len(listed):
        raise Unsayable("two triggers of different groups have one name, and a file names each once")
    return said


def _belongs(job: JobDefinition | None) -> bool:
    """Whether a job of a trigger's own name can stand within the trigger: what both could say is the trigger's there."""
    if job is None:
        return False
    policies = job.policies
    return (
        not (job.data or job.tags or job.description) and policies.retry is None and policies.run_on is None
    )


def job_said(job: JobDefinition) -> dict[str, Any]:
    """The mapping under `jobs: {name: …}`."""
    target: Any = list(job.target) if isinstance(job.target, tuple) else job.target
    said: dict[str, Any] = {job.kind: {"url": target, **job.request} if job.kind == "http" else target}
    said |= policies(job.policies)
    for name in ("data", "env"):
        if value := getattr(job, name):
            said[name] = dict(value)
    for name in ("cwd", "description"):
        if value := getattr(job, name):
            said[name] = value
    if job.tags:
        said["tags"] = list(job.tags)
    if job.group != DEFAULT_GROUP:
        said["group"] = job.group
    return said


def policies(said: JobPolicies) -> dict[str, Any]:
    """The policies that were said."""
    spec = said.to_spec()
    if said.timeout is not None:
        spec["timeout"] = format_duration(said.timeout)
    if said.retry is not None:
        spec["retry"] = retry(said.retry)
    return spec


def trigger_said(
    trigger: TriggerDefinition, own: JobDefinition | None = None, zone: str = "UTC"
) -> dict[str, Any]:
    """The mapping under `triggers: {name: …}`; `own` is the job that it declares itself, `zone` the file's."""
    runs = {"job": trigger.job} if own is None else job_said(own)
    said: dict[str, Any] = {**runs, **schedule(trigger.schedule)}
    if trigger.group != DEFAULT_GROUP:
        said["group"] = trigger.group
    if trigger.after is not None:
        return said | _rest(trigger)
    if trigger.time_zone != zone:
        said["time_zone"] = trigger.time_zone
    dst = {"gap": trigger.dst_gap, "overlap": trigger.dst_overlap}
    if dst != {"gap": "run_after", "overlap": "once"}:
        said["dst"] = dst
    for name in ("start_at", "end_at"):
        if (instant := getattr(trigger, name)) is not None:
            said[name] = rfc3339(instant)
    for name in ("jitter", "splay"):
        if (amount := getattr(trigger, name)) is not None:
            said[name] = format_duration(amount)
    if trigger.misfire != MisfireRule():
        said["misfire"] = _spans(trigger.misfire.to_spec())
    return said | _rest(trigger)


def _rest(trigger: TriggerDefinition) -> dict[str, Any]:
    said: dict[str, Any] = {}
    spec = trigger.to_spec()
    for name in (
        "max_fires",
        "on_excluded",
        "priority",
        "paused",
        "description",
        "exclude",
        "tags",
        "run_on",
    ):
        if name in spec:
            said[name] = spec[name]
    if trigger.retry is not None:
        said["retry"] = retry(trigger.retry)
    if trigger.data:
        said["data"] = dict(trigger.data)
    return said


def retry(policy: RetryPolicy) -> Any:
    """`none`, or the policy's keys."""
    if policy == RetryPolicy.none():
        return "none"
    return _spans(policy.to_spec())


def _spans(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Durations as text."""
    said: dict[str, Any] = {
        name: format_duration(value) if name in _DURATIONS else value for name, value in spec.items()
    }
    if "delays" in said:
        said["delays"] = [format_duration(value) for value in said["delays"]]
    return said


def schedule(said: Mapping[str, Any]) -> dict[str, Any]:
    """The schedule's key, and what goes with it."""
    kind = next((kind for kind in _SCHEDULES if kind in said), None)
    if kind is None:
        raise Unsayable(f"the schedule {sorted(said)} is one that this version does not know")
    return _SCHEDULES[kind](said)


def _as_it_is(kind: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda said: {kind: said[kind]}


def _every(said: Mapping[str, Any]) -> dict[str, Any]:
    anchor = {} if said.get("anchor") is None else {"anchor": rfc3339(said["anchor"])}
    return {"every": format_duration(said["every"]), **anchor}


def _window(said: Mapping[str, Any]) -> dict[str, Any]:
    window = dict(said["daily_window"])
    return {"daily_window": {**window, "every": format_duration(int(window["every"]))}}


def _after(said: Mapping[str, Any]) -> dict[str, Any]:
    return {"after": {"job": said["after"], "on": said.get("on", "succeeded")}}


_SCHEDULES: Final[dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    **{kind: _as_it_is(kind) for kind in ("cron", "quartz", "calendar_interval", "rrule")},
    "every": _every,
    "at": lambda said: {"at": rfc3339(said["at"])},
    "daily_window": _window,
    "any": lambda said: {"any": [schedule(part) for part in said["any"]]},
    "all": lambda said: {"all": [schedule(part) for part in said["all"]]},
    "delay": lambda said: {"delay": format_duration(said["delay"])},
    "after": _after,
}

_OF_FILES: Final = frozenset(("spans", "days", "recurring"))


def calendar(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A calendar's keys. Raises Unsayable for what came from an ICS file, which stays a file of its own."""
    if _OF_FILES & spec.keys():
        raise Unsayable("a calendar was read from an ICS file: keep that file, and its `ics:`")
    if "any" in spec:
        raise Unsayable("a calendar is made of others: declare it again with `any:`")
    said = {key: value for key, value in spec.items() if key not in ("dates", "yearly", "daily")}
    ranges = [each for key in ("dates", "yearly") for each in spec.get(key, ())]
    dates = [first if first == last else f"{first}..{last}" for first, last in ranges]
    if dates:
        said["dates"] = dates
    if daily := spec.get("daily"):
        said["daily"] = [f"{begin}-{end}" for begin, end in daily]
    return said
