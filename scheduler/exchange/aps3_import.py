"""APScheduler 3: the jobs of an application's scheduler, read by their attributes; its stores hold pickles: nobody opens them."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from ...triggers.errors import DefinitionError
from ...triggers.instant import from_instant, to_instant
from ..errors import SourceError
from .application import variable
from .aps_entry import Entry, add
from .aps_job import Options as JobOptions
from .aps_trigger import said_of
from .reading import LOST, Fires, Options, Place, Reading

_VARIABLE: Final = "scheduler"
_ALIAS: Final = "default"


def read(where: str, options: Options) -> Reading:  # noqa: ARG001  (every importer is told the same)
    """Read `module:variable` or `file.py[:variable]`, a scheduler or a list of its jobs; the module is imported.

    Raises SourceError for what cannot be imported, and for a database: what its jobs are is in pickles.
    """
    if "://" in where or where.endswith((".db", ".sqlite", ".sqlite3")):
        raise SourceError(
            "an APScheduler 3 store keeps pickles, which run whatever they hold",
            hint="name the application's scheduler instead: module:variable",
        )
    module, _, path = where.rpartition(":") if ":" in where else (where, "", _VARIABLE)
    found, name = variable(module, path), Path(module).name
    defaults: Mapping[str, Any] = getattr(found, "_job_defaults", {})
    reading = Reading()
    for job in _jobs(found, where):
        place = Place(name)
        try:
            add(_entry(job, place, defaults), reading)
        except DefinitionError as error:
            reading.note(LOST, place, f"job {getattr(job, 'id', job)}", str(error))
    return reading


def _jobs(found: Any, where: str) -> Iterator[Any]:
    jobs = found.get_jobs() if hasattr(found, "get_jobs") else found
    if not isinstance(jobs, list | tuple) or not all(hasattr(job, "trigger") for job in jobs):
        raise SourceError(
            f"{Path(where).name} is neither a scheduler nor a list of its jobs", hint="name one of them"
        )
    yield from jobs


def _entry(job: Any, place: Place, defaults: Mapping[str, Any]) -> Entry:
    said = said_of(job.trigger)
    own = {
        name: getattr(job, name, defaults.get(name, getattr(JobOptions(), name)))
        for name in JobOptions.__dataclass_fields__
    }
    lost = {}
    if (executor := getattr(job, "executor", _ALIAS)) != _ALIAS:
        lost[f"executor {executor}"] = "see `run_in`, and `run_on` for nodes with tags"
    return Entry(
        name=job.id,
        place=place,
        func=job.func_ref or "",
        said=said,
        args=list(job.args),
        kwargs=dict(job.kwargs),
        options=JobOptions(**own),
        paused=getattr(job, "next_run_time", said) is None,
        description=job.name if job.name != job.id else "",
        lost=lost,
        fires=_fires(job.trigger),
    )


def _fires(trigger: Any) -> Fires:
    """APScheduler's next fires, each from the one before, as its scheduler asks."""

    def fires(after: int, count: int) -> list[int]:
        found: list[int] = []
        before: datetime | None = None
        now: datetime = from_instant(after) + timedelta(microseconds=1)
        while len(found) < count and (moment := trigger.get_next_fire_time(before, now)) is not None:
            utc = moment.astimezone(UTC)  # times of one zone compare by their walls, which come twice
            if utc < now:
                break  # it has lost its way around a change of offset
            found.append(to_instant(utc))
            before, now = moment, utc + timedelta(microseconds=1)
        return found

    return fires
