"""A trigger as text: its key, and its stored schedule as a list shows it; needs no definition and no engine."""

from collections.abc import Mapping, Sequence
from typing import Any

from .duration import format_duration
from .instant import rfc3339

DEFAULT_GROUP = "default"


def trigger_key(group: str, name: str) -> str:
    """`group/name`; the default group is not printed."""
    return name if group == DEFAULT_GROUP else f"{group}/{name}"


def split_key(key: str) -> tuple[str, str]:
    """(group, name) of a key as people write it."""
    group, slash, name = key.rpartition("/")
    return (group, name) if slash else (DEFAULT_GROUP, key)


def schedule_text(schedule: Mapping[str, Any]) -> str:
    """The schedule as a list shows it: `15 2 * * *`, `quartz 0 30 18 LW * ?`, `every 10s`, `at 2027-01-01T…Z`."""
    if isinstance(text := schedule.get("cron"), str):
        return text
    if isinstance(text := schedule.get("quartz"), str):
        return f"quartz {text}"
    if isinstance(interval := schedule.get("every"), int):
        anchor = schedule.get("anchor")
        return f"every {format_duration(interval)}" + (
            f" from {rfc3339(anchor)}" if isinstance(anchor, int) else ""
        )
    if isinstance(instant := schedule.get("at"), int):
        return f"at {rfc3339(instant)}"
    if isinstance(delay := schedule.get("delay"), int):
        return f"delay {format_duration(delay)}"
    if isinstance(said := schedule.get("calendar_interval"), Mapping):
        return calendar_interval_text(said)
    if isinstance(said := schedule.get("daily_window"), Mapping):
        return daily_window_text(said)
    if isinstance(text := schedule.get("rrule"), str):
        return recurrence_text(text)
    for kind in ("any", "all"):
        if isinstance(parts := schedule.get(kind), Sequence):
            return f"{kind} of ({'; '.join(map(schedule_text, parts))})"
    if isinstance(job := schedule.get("after"), str):
        return f"after {job}" if schedule.get("on") == "succeeded" else f"after {job} ({schedule.get('on')})"
    return f"unknown {sorted(schedule)}"


def calendar_interval_text(said: Mapping[str, Any]) -> str:
    """`every 2 weeks at 09:00`, `every month on its last day`."""
    unit = next((unit for unit in ("years", "months", "weeks", "days") if unit in said), "days")
    text = f"every {unit[:-1]}" if said.get(unit) == 1 else f"every {said.get(unit)} {unit}"
    if "day" in said:
        text += " on its last day" if said["day"] == "last" else f" on day {said['day']}"
    return f"{text} at {said['at']}" if "at" in said else text


def daily_window_text(said: Mapping[str, Any]) -> str:
    """`every 15m from 09:00 to 17:00 on mon, fri`."""
    every = said.get("every")
    text = f"every {format_duration(every)}" if isinstance(every, int) else f"every {every}"
    text += f" from {said.get('from')} to {said.get('to')}"
    if days := said.get("days"):
        text += f" on {', '.join(days)}"
    return f"{text}, {said['repeat']} a day" if "repeat" in said else text


def recurrence_text(text: str) -> str:
    """`rrule FREQ=…`: the rule, without the lines beside it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    rule = next((line for line in lines if line.upper().startswith("RRULE:")), lines[0] if lines else "")
    more = f" (and {len(lines) - 1} lines)" if len(lines) > 1 else ""
    return f"rrule {rule.removeprefix('RRULE:')}{more}"
