"""Two stored definitions side by side, field by field, in the words people write."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..triggers.duration import format_duration
from ..triggers.errors import TriggerError
from ..triggers.instant import rfc3339
from ..triggers.job import canonical
from ..triggers.misfire import MisfireRule
from ..triggers.retention import Retention
from ..triggers.retry import RetryPolicy
from ..triggers.trigger import schedule_text


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that would change; None where it is not said."""

    field: str
    before: str | None
    after: str | None


_NOT_SHOWN = {"v", "renamed_from"}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Difference, ...]:
    """The fields in which two specs differ, in the order of their names, schedule first."""
    names = sorted((before.keys() | after.keys()) - _NOT_SHOWN, key=lambda name: (name != "schedule", name))
    return tuple(
        Difference(name, _shown(name, before), _shown(name, after))
        for name in names
        if before.get(name) != after.get(name)
    )


def _shown(name: str, spec: Mapping[str, Any]) -> str | None:
    value = spec.get(name)
    if value is None:
        return None
    try:
        return _WORDS.get(name, _plain)(value)
    except (TriggerError, TypeError, ValueError, AttributeError):
        return _plain(value)  # written by another version: shown as it stands


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)


def _listed(value: Any) -> str:
    return ", ".join(str(item) for item in value)


_WORDS: Mapping[str, Callable[[Any], str]] = {
    "schedule": schedule_text,
    "start_at": rfc3339,
    "end_at": rfc3339,
    "timeout": format_duration,
    "misfire": lambda value: str(MisfireRule.from_spec(value)),
    "retry": lambda value: str(RetryPolicy.from_spec(value)),
    "retention": lambda value: str(Retention.from_spec(value)),
    "tags": _listed,
    "run_on": _listed,
}
