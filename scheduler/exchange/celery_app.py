"""A Celery application's beat_schedule, read by its attributes: Celery itself is only the application's to import."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from ..errors import SourceError
from .application import variable
from .celery_entry import Entry, add
from .reading import Options, Place, Reading

_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_MICROSECOND = timedelta(microseconds=1)


def read_app(where: str, options: Options) -> Reading:
    """Read `module:variable`, whose module is imported; raises SourceError when it holds no beat_schedule."""
    module, _, path = where.partition(":")
    found = variable(module, path)
    conf = getattr(found, "conf", None)
    schedule = found if conf is None else conf.beat_schedule
    if not isinstance(schedule, Mapping):
        raise SourceError(
            f"{where} is neither a Celery application nor its beat_schedule", hint="name one of them"
        )
    zone = str(getattr(conf, "timezone", None) or options.time_zone or "UTC")
    reading = Reading()
    for name, said in schedule.items():
        add(_entry(str(name), said, Place(where), zone), reading)
    return reading


def _entry(name: str, said: Mapping[str, Any], place: Place, zone: str) -> Entry:
    entry = Entry(name, place, str(said.get("task", "")), _when(said.get("schedule")), zone)
    entry.args, entry.kwargs = list(said.get("args") or ()), dict(said.get("kwargs") or {})
    entry.options = dict(said.get("options") or {})
    return entry


def _when(schedule: Any) -> tuple[str, Any]:
    if isinstance(schedule, int | float):
        return "every", round(schedule * 1_000_000)
    if isinstance(schedule, timedelta):
        return "every", schedule // _MICROSECOND
    if hasattr(schedule, "_orig_minute"):
        return "crontab", [_field(getattr(schedule, f"_orig_{name}")) for name in _FIELDS]
    if isinstance(every := getattr(schedule, "run_every", None), timedelta):
        return "every", every // _MICROSECOND
    return "unknown", f"schedule {type(schedule).__name__} {getattr(schedule, 'event', '')}".strip()


def _field(said: Any) -> str:
    """A field as it was written: text, a number, or a set of numbers."""
    if isinstance(said, str | int):
        return "".join(str(said).split())
    return ",".join(str(each) for each in sorted(said))
