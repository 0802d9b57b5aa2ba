"""The formats that can be imported, by name; each reader is loaded when it is asked for."""

from collections.abc import Callable
from importlib import import_module
from typing import Final, NamedTuple

from ..errors import SourceError
from .reading import Options, Reading

Importer = Callable[[str, Options], Reading]


class Format(NamedTuple):
    """Where a reader lives (`module:attribute` in this room), and what it reads."""

    place: str
    reads: str


FORMATS: Final[dict[str, Format]] = {
    "apscheduler3": Format(
        "aps3_import:read", "an APScheduler 3 application's scheduler: module:variable, or file.py[:variable]"
    ),
    "apscheduler4": Format("aps4_import:read", "APScheduler 4's schedules and tasks, as JSON"),
    "quartz": Format("quartz_xml:read", "Quartz's job_scheduling_data 2.0, a file or a folder of them"),
    "crontab": Format("crontab:read", "a user's crontab, /etc/crontab or a folder as /etc/cron.d"),
    "k8s": Format("k8s:read", "Kubernetes CronJob manifests: YAML of one or more documents, Lists, or JSON"),
    "systemd": Format("systemd:read", "systemd timer units, with the service beside each"),
    "celery": Format(
        "celery_beat:read", "django-celery-beat as `dumpdata` writes it, or an application's module:variable"
    ),
}


def importer(name: str) -> Importer:
    """The reader of a format; raises SourceError for one that is not known."""
    if name not in FORMATS:
        raise SourceError(
            f"{name!r} is not a format that can be imported", hint=f"use one of {', '.join(FORMATS)}"
        )
    module, _, attribute = FORMATS[name].place.partition(":")
    found: Importer = getattr(import_module(f".{module}", __package__), attribute)
    return found
