"""Celery's beat schedules: django-celery-beat's tables as `dumpdata` writes them, or an application's own mapping."""

import json
import re
from pathlib import Path
from typing import Any

from ..errors import SourceError
from .celery_app import read_app
from .celery_entry import Entry, add
from .reading import LOST, Options, Reading
from .sources import Source, of_files

_VARIABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_OPTIONS = ("queue", "exchange", "routing_key", "priority", "expires", "expire_seconds")
_PERIODS = {
    "days": 86_400_000_000, "hours": 3_600_000_000, "minutes": 60_000_000, "seconds": 1_000_000, "microseconds": 1,
}  # fmt: skip
_TABLE = "django_celery_beat."


def read(where: str, options: Options) -> Reading:
    """Read `module:variable` (an application, or its beat_schedule), else dumps; raises SourceError."""
    if _VARIABLE.fullmatch(where) and not Path(where).exists():
        return read_app(where, options)
    return _of_dumps(where, options)


def _read(source: Source, options: Options, reading: Reading) -> None:
    tables: dict[str, dict[Any, dict[str, Any]]] = {}
    for row in _rows(source):
        tables.setdefault(row["model"].removeprefix(_TABLE), {})[row.get("pk")] = row["fields"]
    for pk, said in tables.get("periodictask", {}).items():
        try:
            add(_entry(said, tables, source, options), reading)
        except (KeyError, TypeError, ValueError) as error:
            reading.note(
                LOST, source.at(), f"periodictask {said.get('name', pk)}", f"it is not readable: {error!r}"
            )


_of_dumps = of_files(_read, (".json",))


def _rows(source: Source) -> list[dict[str, Any]]:
    hint = "make it with `manage.py dumpdata django_celery_beat`, or name module:variable"
    try:
        rows = json.loads(source.text)
    except ValueError as error:
        raise SourceError(f"{source.name} is not JSON ({error})", hint=hint) from error
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("model"), str) and isinstance(row.get("fields"), dict)
        for row in rows
    ):
        raise SourceError(f"{source.name} is not a list of rows with model and fields", hint=hint)
    return rows


def _entry(said: dict[str, Any], tables: dict[str, Any], source: Source, options: Options) -> Entry:
    entry = Entry(said["name"], source.at(), said["task"], ("none", "it names no schedule"))
    entry.args, entry.kwargs = json.loads(said.get("args") or "[]"), json.loads(said.get("kwargs") or "{}")
    entry.options = {name: said[name] for name in _OPTIONS if said.get(name) is not None}
    if (headers := said.get("headers")) not in (None, "", "{}"):
        entry.options["headers"] = headers
    entry.one_off, entry.enabled = bool(said.get("one_off")), bool(said.get("enabled", True))
    entry.start, entry.description = said.get("start_time"), said.get("description") or ""
    if (pk := said.get("crontab")) is not None:
        row = tables["crontabschedule"][pk]
        entry.when = "crontab", ["".join(str(row[name]).split()) for name in _FIELDS]
        entry.zone = row.get("timezone") or options.time_zone or "UTC"
    elif (pk := said.get("interval")) is not None:
        row = tables["intervalschedule"][pk]
        entry.when = "every", int(row["every"]) * _PERIODS[row["period"]]
    elif (pk := said.get("clocked")) is not None:
        entry.when = "clocked", tables["clockedschedule"][pk]["clocked_time"]
    elif (pk := said.get("solar")) is not None:
        entry.when = "solar", f"solar {tables['solarschedule'][pk]['event']}"
    return entry
