"""Declarations in other formats: YAML in full, crontab, CronJobs and calendar files as far as these can say it."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from ...triggers.errors import TriggerError
from ...triggers.instant import DAY, from_instant
from ...triggers.job import JobDefinition
from ...triggers.trigger import TriggerDefinition
from ..errors import SourceError
from .declaration_text import declaration_text
from .declared import Unsayable, document

_MOST_EVENTS: Final = 10_000


class Declared(Protocol):
    """What is exported: of a store, or of files."""

    @property
    def namespace(self) -> str: ...
    @property
    def jobs(self) -> tuple[JobDefinition, ...]: ...
    @property
    def triggers(self) -> tuple[TriggerDefinition, ...]: ...
    @property
    def limits(self) -> Mapping[str, int]: ...


class Exported(NamedTuple):
    """The text, and what it could not say: one line each."""

    text: str
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """From when and for how many days a calendar file shows fires."""

    now: int
    days: int = 30


def export(to: str, declared: Declared, span: Span) -> Exported:
    """The declarations in format `to`; raises SourceError for what cannot be written at all."""
    try:
        return _WRITERS[to](declared, span)
    except Unsayable as error:
        raise SourceError(
            str(error), hint="export it by --to crontab, k8s or ics, or keep its file"
        ) from error


def _yaml(declared: Declared, _span: Span) -> Exported:
    return Exported(
        declaration_text(document(declared.namespace, declared.jobs, declared.triggers, declared.limits))
    )


def _commands(
    declared: Declared, wanted: str
) -> Iterator[tuple[TriggerDefinition, JobDefinition | None, str | None]]:
    """(trigger, its job, None or why it cannot be said) for what needs five fields and a command."""
    jobs = {job.name: job for job in declared.jobs}
    for trigger in declared.triggers:
        job = jobs.get(trigger.job)
        kind = next(iter(trigger.schedule))
        if kind != "cron" or "H" in str(trigger.schedule["cron"]) or "L" in str(trigger.schedule["cron"]):
            yield trigger, job, f"its schedule is `{kind}`, and {wanted} has five plain fields"
        elif job is None or job.kind != "command":
            yield trigger, job, f"its job is no command, and {wanted} runs nothing else"
        else:
            yield trigger, job, None


def _dropped(trigger: TriggerDefinition, job: JobDefinition, kept: tuple[str, ...]) -> list[str]:
    """What a trigger and its job say that the format has no words for."""
    spec = {**job.to_spec(), **trigger.to_spec()}
    said = [name for name in _WITHOUT_WORDS if name in spec and name not in kept]
    return [f"{trigger.key}: {', '.join(said)}"] if said else []


_WITHOUT_WORDS: Final = (
    *(
        "start_at",
        "end_at",
        "max_fires",
        "exclude",
        "jitter",
        "splay",
        "misfire",
        "retry",
        "overlap",
        "timeout",
        "dst_gap",
    ),
    *("dst_overlap", "request_recovery", "run_on", "key", "data", "paused", "env", "cwd", "persist_data"),
)


def _crontab(declared: Declared, _span: Span) -> Exported:
    lines, lost, zone = (
        ["# exported from qsched: times are read by the zone of CRON_TZ, where cron knows it"],
        [],
        None,
    )
    for trigger, job, why in _commands(declared, "a crontab"):
        if why is None and job is not None and "\n" in _shell(job):
            why = "its command has several lines"
        if why is not None or job is None:
            lines.append(f"# qsched: lost {trigger.key}: {why}")
            lost.append(f"{trigger.key}: {why}")
            continue
        dropped = _dropped(trigger, job, ("env", "cwd", "paused"))
        lost += dropped
        lines += [f"# qsched: lost {each}" for each in dropped]
        if trigger.time_zone != zone:
            zone = trigger.time_zone
            lines.append(f"CRON_TZ={zone}")
        env = "".join(f"{name}={shlex.quote(value)} " for name, value in job.env.items())
        folder = f"cd {shlex.quote(job.cwd)} && " if job.cwd else ""
        entry = f"{trigger.schedule['cron']} {folder}{env}{_shell(job)}".replace("%", "\\%")
        lines.append(f"# paused: {entry}" if trigger.paused else entry)
    return Exported("".join(f"{line}\n" for line in lines), tuple(lost))


def _shell(job: JobDefinition) -> str:
    return shlex.join(job.target) if isinstance(job.target, tuple) else job.target


_CONCURRENCY: Final = {"allow": "Allow", "queue": "Forbid", "skip": "Forbid", "cancel": "Replace"}


def _k8s(declared: Declared, _span: Span) -> Exported:
    texts, lost = [], []
    for trigger, job, why in _commands(declared, "a CronJob"):
        if why is not None or job is None:
            texts.append(f"# qsched: lost {trigger.key}: {why}\n")
            lost.append(f"{trigger.key}: {why}")
            continue
        lost += _dropped(trigger, job, ("env", "cwd", "paused", "overlap", "timeout"))
        lost.append(f"{trigger.key}: no image is known; write one in place of IMAGE")
        texts.append(declaration_text(_cron_job(trigger, job)))
    return Exported("---\n".join(texts), tuple(lost))


def _cron_job(trigger: TriggerDefinition, job: JobDefinition) -> dict[str, Any]:
    argv = list(job.target) if isinstance(job.target, tuple) else ["/bin/sh", "-c", job.target]
    container: dict[str, Any] = {"name": "job", "image": "IMAGE", "command": argv}
    if job.cwd:
        container["workingDir"] = job.cwd
    if job.env:
        container["env"] = [{"name": name, "value": value} for name, value in job.env.items()]
    inner: dict[str, Any] = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    if job.policies.timeout is not None:
        inner["activeDeadlineSeconds"] = max(1, job.policies.timeout // 1_000_000)
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": _label(trigger.key)},
        "spec": {
            "schedule": trigger.schedule["cron"],
            "timeZone": trigger.time_zone,
            "suspend": trigger.paused,
            "concurrencyPolicy": _CONCURRENCY[job.policies.overlap or "allow"],
            "jobTemplate": {"spec": inner},
        },
    }


def _label(key: str) -> str:
    """A name as Kubernetes allows: 52 small letters, digits and `-`."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in key.lower())[:52].strip("-") or "job"


def _ics(declared: Declared, span: Span) -> Exported:
    """One event for each fire of the coming days, in UTC, without length."""
    lines, lost = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//qsched//export//EN"], []
    end = span.now + span.days * DAY
    stamp = _utc(span.now)
    for trigger in declared.triggers:
        slots, whole = _slots(trigger, span.now, end)
        if not whole:
            lost.append(f"{trigger.key}: only the first {len(slots)} fires, or none that is known before")
        for slot in slots:
            lines += ["BEGIN:VEVENT", f"UID:{slot}-{_escaped(trigger.key)}@qsched", f"DTSTAMP:{stamp}"]
            lines += [
                f"DTSTART:{_utc(slot)}",
                f"SUMMARY:{_escaped(trigger.key)}",
                "TRANSP:TRANSPARENT",
                "END:VEVENT",
            ]
    return Exported("".join(f"{_folded(line)}\r\n" for line in [*lines, "END:VCALENDAR"]), tuple(lost))


def _slots(trigger: TriggerDefinition, now: int, end: int) -> tuple[list[int], bool]:
    """(the slots in now..end, whether these are all)."""
    if trigger.after is not None or trigger.delay is not None or trigger.paused:
        return [], trigger.paused
    most = min(_MOST_EVENTS, trigger.max_fires or _MOST_EVENTS)
    found: list[int] = []
    try:
        schedule, at = trigger.compile(), now
        while (slot := schedule.slot_after(at)) is not None and slot <= end:
            if len(found) == most:
                return found, trigger.max_fires == most
            found.append(slot)
            at = slot
    except TriggerError:
        return found, False
    return found, True


def _utc(instant: int) -> str:
    return from_instant(instant).strftime("%Y%m%dT%H%M%SZ")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")


def _folded(line: str) -> str:
    """No line longer than 75 bytes: the rest follows behind a blank."""
    parts, part = [], ""
    for c in line:
        if len((part + c).encode()) > 74:
            parts.append(part)
            part = ""
        part += c
    return "\r\n ".join([*parts, part])


_WRITERS: Final[dict[str, Callable[[Declared, Span], Exported]]] = {
    "yaml": _yaml,
    "crontab": _crontab,
    "k8s": _k8s,
    "ics": _ics,
}
FORMATS_OUT: Final = tuple(_WRITERS)
