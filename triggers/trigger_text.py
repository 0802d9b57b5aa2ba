"""A trigger as text: its key, and its stored schedule as a list shows it; needs no definition and no engine."""

from collections.abc import Mapping
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
    if isinstance(job := schedule.get("after"), str):
        return f"after {job}" if schedule.get("on") == "succeeded" else f"after {job} ({schedule.get('on')})"
    return f"unknown {sorted(schedule)}"
