"""One job of APScheduler 3, or one schedule of APScheduler 4, wherever it stood, as a trigger of ours."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...triggers.duration import format_duration
from ...triggers.errors import DefinitionError
from ...triggers.instant import SECOND, rfc3339
from .aps_job import Options, misfire_rule, overlap
from .aps_trigger import Said, When, when_of
from .reading import CHANGED, EXACT, LOST, Fires, Item, Place, Reading


@dataclass(slots=True)
class Entry:
    """What it says in plain values; `func` is module:function, or empty where other processes cannot find it."""

    name: str
    place: Place
    func: str
    said: Said
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    options: Options = field(default_factory=Options)
    paused: bool = False
    description: str = ""
    lost: Mapping[str, str] = field(default_factory=dict)
    """{what it says besides: why nothing here does}."""
    fires: Fires | None = None
    """APScheduler's own answers."""


def add(entry: Entry, reading: Reading) -> None:
    """Add the entry to what was read, with a remark for each thing it says."""
    item = Item(reading.free_name(entry.name), entry.place, {})
    reading.items.append(item)
    if not entry.func or "<" in entry.func:
        item.refusal = (
            "it calls a lambda or a nested function, which no other process finds: name module:function"
        )
        return
    try:
        when = when_of(entry.said)
    except (DefinitionError, KeyError, ValueError, TypeError) as error:
        item.refusal = str(error)
        return
    item.trigger["python"] = entry.func
    _when(entry, item, when)
    _late(entry, item)
    _call(entry, item)
    if entry.description and entry.description != entry.func.rpartition(":")[2]:
        item.trigger["description"] = entry.description
    if entry.paused:
        item.trigger["paused"] = True
        item.note(EXACT, "paused", "`paused: true`")
    for what, why in entry.lost.items():
        item.note(LOST, what, why)


def _when(entry: Entry, item: Item, when: When) -> None:
    item.trigger |= _written(when.schedule)
    if when.time_zone != "UTC":
        item.trigger["time_zone"] = when.time_zone
    for name, instant in (("start_at", when.start_at), ("end_at", when.end_at)):
        if instant is not None:
            item.trigger[name] = rfc3339(instant)
    said = _spoken(entry.said)
    for why in when.changed:
        item.note(CHANGED, f"schedule {said}", why)
    if when.jitter is not None:
        item.trigger["jitter"] = format_duration(when.jitter)
        item.note(CHANGED, f"jitter {entry.said['jitter']}", "earlier or later there; here later only")
    if "all" in when.schedule and entry.said["type"] == "cron":
        item.note(EXACT, f"schedule {said}", "day and weekday must both match: `all:` of two")
    elif not when.changed:
        item.note(EXACT, f"schedule {said}")
    if when.time_zone != "UTC":
        why = "APScheduler loses days and repeats times there; here `dst:` decides"
        item.note(CHANGED, "changes of offset", why)
    if entry.said["type"] == "calendarinterval" and str(entry.said.get("start_date", ""))[8:10] > "28":
        item.note(CHANGED, "a month without that day", "it is left out there; here its last day is taken")
    if any(char.isdigit() for char in str(entry.said.get("day_of_week", ""))):
        item.note(
            CHANGED, f"day_of_week {entry.said['day_of_week']}", "0 is Monday there: days are named here"
        )
    if when.jitter is None and entry.said["type"] in ("cron", "date"):
        item.fires = entry.fires
        item.engine = "apscheduler" if entry.fires is not None else ""


def _written(schedule: Mapping[str, Any]) -> dict[str, Any]:
    """A definition's schedule as YAML has it."""
    found: dict[str, Any] = {}
    for kind, value in schedule.items():
        if kind in ("any", "all"):
            found[kind] = [_written(part) for part in value]
        elif kind == "every":
            found[kind] = format_duration(value)
        elif kind in ("at", "anchor"):
            found[kind] = rfc3339(value)
        else:
            found[kind] = dict(value) if isinstance(value, Mapping) else value
    return found


def _spoken(said: Said) -> str:
    """A trigger in a line: `cron hour=2 minute=15`."""
    if "triggers" in said:
        return f"{said['type']}({', '.join(_spoken(part) for part in said['triggers'])})"
    left_out = ("type", "timezone", "jitter")
    return " ".join(
        [
            said["type"],
            *(f"{key}={value}" for key, value in said.items() if key not in left_out and value != "*"),
        ]
    )


def _late(entry: Entry, item: Item) -> None:
    options, rule = entry.options, misfire_rule(entry.options)
    grace = options.misfire_grace_time
    misfire: dict[str, Any] = {"policy": rule.policy}
    if grace is not None and options.coalesce:
        misfire["threshold"] = format_duration(rule.threshold)
    elif grace is not None:
        misfire["window"] = format_duration(rule.window)
    item.trigger["misfire"] = misfire if len(misfire) > 1 else rule.policy
    said = f"misfire_grace_time {grace}, coalesce {options.coalesce}"
    short = grace is not None and grace * SECOND < rule.threshold
    why = (
        f"`{rule.policy}`, and what is up to a minute late still runs"
        if short
        else f"`misfire: {rule.policy}`"
    )
    item.note(CHANGED if short else EXACT, said, why)
    item.trigger["overlap"] = overlap(options)
    if options.max_instances == 1:
        item.note(
            CHANGED, "max_instances 1", "in each process there; in the whole cluster here: `overlap: skip`"
        )
    else:
        item.note(
            LOST, f"max_instances {options.max_instances}", "`overlap: allow` counts none: see `groups:`"
        )


def _call(entry: Entry, item: Item) -> None:
    item.take_arguments(entry.args, entry.kwargs)
    item.note(CHANGED, f"func {entry.func}", "mark it with @job, and give its module to `qsched node --app`")
