"""APScheduler 4: the rows of its `schedules` and `tasks` tables as JSON, as its JSONSerializer keeps what they hold."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...triggers.errors import DefinitionError
from ..errors import SourceError
from .aps_cron import FIELDS
from .aps_entry import Entry, add
from .aps_job import Options as JobOptions
from .aps_trigger import Said
from .reading import LOST, Options, Reading
from .sources import Source, of_files

_OBJECT: Final = "_apscheduler_json"
_HINT: Final = 'write {"schedules": […], "tasks": […]}, the rows of both tables as JSON'
_UNITS: Final = (604_800.0, 86_400.0, 3_600.0, 60.0, 1.0, 0.000_001)


def _read(source: Source, _options: Options, reading: Reading) -> None:
    try:
        tables = json.loads(source.text)
    except ValueError as error:
        raise SourceError(f"{source.name} is not JSON ({error})", hint=_HINT) from error
    if not isinstance(tables, dict) or not isinstance(tables.get("schedules"), list):
        raise SourceError(f"{source.name} holds no rows of schedules", hint=_HINT)
    tasks = {task.get("id"): task for task in tables.get("tasks", ())}
    for row in tables["schedules"]:
        name = str(row.get("id", "?"))
        try:
            add(_entry(row, tasks.get(row["task_id"], {}), source), reading)
        except (DefinitionError, KeyError, TypeError, ValueError, IndexError) as error:
            reading.note(LOST, source.at(), f"schedule {name}", f"it is not readable: {error}")


read = of_files(_read, (".json",))


def _entry(row: Mapping[str, Any], task: Mapping[str, Any], source: Source) -> Entry:
    said = _said(*_object(row["trigger"]))
    if row.get("max_jitter"):
        said["jitter"] = row["max_jitter"]
    grace = row.get("misfire_grace_time")
    if grace is None:
        grace = task.get("misfire_grace_time")
    coalesce = str(row.get("coalesce", "latest"))
    lost: dict[str, str] = {}
    if coalesce == "earliest":
        lost["coalesce earliest"] = "of several late slots the last one runs here"
    if (executor := row.get("job_executor", task.get("job_executor"))) not in (None, "threadpool", "async"):
        lost[f"job_executor {executor}"] = "see `run_in`"
    for what in ("metadata", "job_result_expiration_time"):
        if row.get(what):
            lost[what] = "results and their time are kept by `retention`"
    most = task.get("max_running_jobs", 1)
    options = JobOptions(
        coalesce != "all", None if grace is None else int(grace), 0 if most is None else int(most)
    )
    return Entry(
        name=str(row["id"]),
        place=source.at(),
        func=str(task.get("func") or row["task_id"]),
        said=said,
        args=list(_plain(row.get("args")) or ()),
        kwargs=dict(_plain(row.get("kwargs")) or {}),
        options=options,
        paused=bool(row.get("paused")),
        lost=lost,
    )


def _plain(value: Any) -> Any:
    """A column's value; text is what the serializer wrote."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise DefinitionError(
            "its columns are no JSON: it was written by a pickle or CBOR serializer; write it anew with JSONSerializer"
        ) from error


def _object(value: Any) -> tuple[str, Mapping[str, Any]]:
    """(the class's name, its state) of a serialized trigger: a pair, or that under the serializer's key."""
    value = _plain(value)
    reference, state = value[_OBJECT] if isinstance(value, Mapping) else value
    return str(reference).rpartition(":")[2].rpartition(".")[2], state


def _said(kind: str, state: Mapping[str, Any]) -> Said:
    if kind not in _TRIGGERS:
        raise DefinitionError(f"{kind} is not a trigger of APScheduler's own")
    return _TRIGGERS[kind](state)


def _cron(state: Mapping[str, Any]) -> Said:
    fields = dict(zip(FIELDS, state["fields"], strict=True))
    return {"type": "cron", **fields, "timezone": state["timezone"], **_bounds(state)}


def _interval(state: Mapping[str, Any]) -> Said:
    seconds = sum(number * unit for number, unit in zip(state["interval"], _UNITS, strict=True))
    return {"type": "interval", "seconds": seconds, **_bounds(state)}


def _date(state: Mapping[str, Any]) -> Said:
    return {"type": "date", "run_date": state["run_time"]}


def _calendar_interval(state: Mapping[str, Any]) -> Said:
    units = dict(zip(("years", "months", "weeks", "days"), state["interval"], strict=True))
    clock = ":".join(f"{part:02}" for part in state["time"])
    said = {"type": "calendarinterval", **{name: n for name, n in units.items() if n}, "time": clock}
    days = {name: state[name] for name in ("start_date", "end_date") if state.get(name)}
    return {**said, "timezone": state["timezone"], **days}


def _combined(kind: str) -> Callable[[Mapping[str, Any]], Said]:
    return lambda state: {"type": kind, "triggers": [_said(*_object(part)) for part in state["triggers"]]}


def _bounds(state: Mapping[str, Any]) -> Said:
    pairs = (("start_date", "start_time"), ("end_date", "end_time"))
    return {name: state[key] for name, key in pairs if state.get(key)}


_TRIGGERS: Mapping[str, Callable[[Mapping[str, Any]], Said]] = {
    "CronTrigger": _cron,
    "IntervalTrigger": _interval,
    "DateTrigger": _date,
    "CalendarIntervalTrigger": _calendar_interval,
    "AndTrigger": _combined("and"),
    "OrTrigger": _combined("or"),
}
