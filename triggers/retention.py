"""How long history is kept: by result, and by the number of rows of one trigger."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .duration import format_duration
from .errors import DefinitionError
from .instant import DAY

FOREVER = "forever"
MOST_ROWS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention of a cluster's firings (DESIGN §4); ages in microseconds since a firing's end, None: for ever."""

    succeeded: int | None = 7 * DAY
    """Skipped and cancelled ones, too."""
    failed: int | None = 30 * DAY
    """Lost ones, too."""
    per_trigger: int = 10_000
    """Rows of one trigger, requested ones with it; of an enqueued job's own ones."""

    @classmethod
    def from_spec(cls, spec: object) -> "Retention":
        """Read the `retention` of a cluster's defaults; what it leaves out is qsched's default. Raises DefinitionError."""
        if spec is None:
            return cls()
        if not isinstance(spec, Mapping):
            raise DefinitionError("cluster.retention is not a mapping: apply it again")
        known = cls()
        return cls(
            _age(spec, "succeeded", known.succeeded),
            _age(spec, "failed", known.failed),
            _count(spec, known.per_trigger),
        )

    def __str__(self) -> str:
        ages = [("succeeded", self.succeeded), ("failed", self.failed)]
        words = [f"{name} {FOREVER if age is None else format_duration(age)}" for name, age in ages]
        return ", ".join([*words, f"per_trigger {self.per_trigger}"])


def _age(spec: Mapping[str, Any], name: str, default: int | None) -> int | None:
    value = spec.get(name, default)
    if value is None or value == FOREVER:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise DefinitionError(f"cluster.retention.{name} {value!r} is no duration: apply it again")
    return value


def _count(spec: Mapping[str, Any], default: int) -> int:
    value = spec.get("per_trigger", default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_ROWS:
        raise DefinitionError(f"cluster.retention.per_trigger {value!r} is no number of rows: apply it again")
    return value
