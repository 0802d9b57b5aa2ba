"""At: one slot, at one instant."""

from dataclasses import dataclass
from datetime import datetime

from .instant import rfc3339, to_instant
from .schedule import Moments


@dataclass(frozen=True, slots=True, init=False)
class At(Moments):
    """The single slot `instant` (an aware datetime, or microseconds since the epoch)."""

    instant: int

    def __init__(self, instant: datetime | int) -> None:
        object.__setattr__(self, "instant", to_instant(instant) if isinstance(instant, datetime) else instant)

    def slot_after(self, instant: int) -> int | None:
        """The slot, while it is strictly after `instant`."""
        return self.instant if self.instant > instant else None

    def latest_before(self, instant: int) -> int | None:
        """The slot, once it is *not after* `instant`."""
        return self.instant if self.instant <= instant else None

    def count_between(self, first: int, last: int) -> int:
        """1 where the slot lies in `first`..`last`, both included, else 0."""
        return int(first <= self.instant <= last)

    def words(self) -> str:
        """The schedule in plain words."""
        return f"Once, at {rfc3339(self.instant)}"

    def __str__(self) -> str:
        return f"at {rfc3339(self.instant)}"
