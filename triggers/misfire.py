"""What a trigger does with slots that were noticed too late: the rule, as declared and stored (DESIGN §7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .duration import format_duration
from .errors import DefinitionError, TriggerError
from .instant import HOUR, MINUTE

FIRE_ONCE: Final = "fire_once"
SKIP: Final = "skip"
FIRE_ALL: Final = "fire_all"
POLICIES: Final = (FIRE_ONCE, SKIP, FIRE_ALL)
MOST_LIMIT: Final = 10_000
"""The largest `limit`: one decision writes at most this many rows that run."""


@dataclass(frozen=True, slots=True)
class MisfireRule:
    """When a trigger counts as misfired and what is then done; durations are microseconds.

    `window` and `limit` bound `fire_all` only. Raises TriggerError for a value that makes no sense.
    """

    policy: str = FIRE_ONCE
    threshold: int = MINUTE
    window: int = 24 * HOUR
    limit: int = 100

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise TriggerError(f"misfire.policy {self.policy!r} is not one of {', '.join(POLICIES)}")
        for name in ("threshold", "window", "limit"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TriggerError(f"misfire.{name} must be a whole number, and {value!r} is not")
        if self.threshold < 0:
            raise TriggerError(
                f"misfire.threshold must not be negative, and {self.threshold} is: write 0s or more"
            )
        if self.window <= 0:
            raise TriggerError(f"misfire.window must be greater than zero, and {self.window} is not")
        if not 1 <= self.limit <= MOST_LIMIT:
            raise TriggerError(f"misfire.limit must be 1 to {MOST_LIMIT}, and {self.limit} is not")

    def to_spec(self) -> dict[str, Any]:
        """The stored form: only what differs from the default."""
        return {
            name: getattr(self, name) for name in _FIELDS if getattr(self, name) != getattr(_DEFAULT, name)
        }

    @classmethod
    def from_spec(cls, spec: object) -> "MisfireRule":
        """Read what `to_spec` wrote; raises DefinitionError with the reason."""
        if not isinstance(spec, Mapping):
            raise DefinitionError(f"the misfire rule {spec!r} is not a mapping: apply the trigger again")
        if unknown := sorted(str(name) for name in spec if name not in _FIELDS):
            raise DefinitionError(
                f"the misfire rule has unknown keys {', '.join(unknown)}: a newer qsched may know them"
            )
        try:
            return cls(**spec)
        except TriggerError as error:
            raise DefinitionError(f"{error}: apply the trigger again") from error

    def __str__(self) -> str:
        """The rule in a few words, for lists: `fire_all, threshold 5m, limit 10`."""
        said = self.to_spec()
        said.pop("policy", None)
        parts = [
            f"{name} {value if name == 'limit' else format_duration(value)}" for name, value in said.items()
        ]
        return ", ".join([self.policy, *parts])


_FIELDS = ("policy", "threshold", "window", "limit")
_DEFAULT = MisfireRule()
