"""One entry of a Celery beat, wherever it stood, as a trigger of ours."""

from dataclasses import dataclass, field
from typing import Any

from ...triggers.duration import format_duration
from .other_cron import ENGINE, FIXED, fires
from .reading import CHANGED, EXACT, LOST, Item, Place, Reading


@dataclass(slots=True)
class Entry:
    """What an entry says in plain values: `when` is (kind, value), the rest as Celery names it."""

    name: str
    place: Place
    task: str
    when: tuple[str, Any]
    """crontab: five fields in cron's order; every: microseconds; clocked: ISO text; else: what it is, in words."""
    zone: str = "UTC"
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    """What only a message broker would know: each is lost."""
    one_off: bool = False
    enabled: bool = True
    start: str | None = None
    description: str = ""


def add(entry: Entry, reading: Reading) -> None:
    """Add the entry to what was read, with a remark for each thing it says."""
    item = Item(reading.free_name(entry.name), entry.place, {})
    reading.items.append(item)
    if entry.task.startswith("celery."):
        item.refusal = f"{entry.task} is Celery's own housekeeping: nothing here needs it"
        return
    _when(entry, item)
    if entry.description:
        item.trigger["description"] = entry.description
    if entry.start is not None:
        item.trigger["start_at"] = entry.start
        item.note(EXACT, f"start_time {entry.start}", "`start_at`")
    if entry.one_off and "at" not in item.trigger:
        item.trigger["max_fires"] = 1
        item.note(EXACT, "one_off", "`max_fires: 1`")
    if not entry.enabled:
        item.trigger["paused"] = True
        item.note(EXACT, "enabled false", "`paused: true`")
    item.trigger["misfire"] = "fire_once"
    item.note(EXACT, "what was missed while beat was down", "it runs once: `misfire: fire_once`")
    _call(entry, item)
    for name, value in entry.options.items():
        item.note(LOST, f"{name} {value}", "no broker carries what runs here: see `run_on` and `timeout`")


def _when(entry: Entry, item: Item) -> None:
    kind, value = entry.when
    if kind == "crontab":
        _crontab(entry, item, value)
    elif kind == "every":
        item.trigger["every"] = format_duration(value)
        why = "Celery counts from the last run; here the slots stand on a fixed grid"
        item.note(CHANGED, f"schedule every {format_duration(value)}", why)
    elif kind == "clocked":
        item.trigger["at"] = value
        item.note(EXACT, f"schedule clocked {value}", "`at`")
    else:
        item.refusal = f"{value}: no schedule here follows it"


def _crontab(entry: Entry, item: Item, fields: list[str]) -> None:
    minute, hour, day, month, weekday = fields
    said = " ".join(fields)
    if entry.zone != "UTC":
        item.trigger["time_zone"] = entry.zone
    if "*" not in (day, weekday):
        both = (f"{minute} {hour} {day} {month} *", f"{minute} {hour} * {month} {weekday}")
        item.trigger["all"] = [{"cron": text} for text in both]
        item.note(
            CHANGED,
            f"schedule {said}",
            "day and weekday must both match there: `all:` of two, since cron takes either",
        )
        return
    item.trigger["cron"] = said
    item.note(EXACT, f"schedule {said}")
    try:
        item.fires, item.engine = fires(said, entry.zone, FIXED), ENGINE
    except ValueError:
        return  # refused, with its reason, where all is checked


def _call(entry: Entry, item: Item) -> None:
    module, _, function = entry.task.rpartition(".")
    target = f"{module or 'tasks'}:{function}"
    item.trigger["python"] = target
    item.note(
        CHANGED, f"task {entry.task}", f"`{target}` stands for it: see that it can be called without Celery"
    )
    item.take_arguments(entry.args, entry.kwargs)
