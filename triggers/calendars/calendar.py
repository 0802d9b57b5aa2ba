"""What every calendar can say: whether an instant is left out, and for how long that stays so on both sides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Calendar(Protocol):
    """Instants are microseconds since the epoch. Stateless; bounded work per call."""

    def excludes(self, instant: int) -> bool:
        """Whether the instant is left out."""

    def changes_after(self, instant: int) -> int | None:
        """The first instant after `instant` at which the answer may be another; None where it stays for good."""

    def changes_before(self, instant: int) -> int | None:
        """The first instant of a stretch around `instant` in which the answer is the same (it may have been the same
        before that); None where it was so from the beginning of time."""


@dataclass(frozen=True, slots=True)
class Together:
    """Leaves out what any of its calendars does."""

    calendars: Sequence[Calendar]

    def excludes(self, instant: int) -> bool:
        return any(calendar.excludes(instant) for calendar in self.calendars)

    def changes_after(self, instant: int) -> int | None:
        ends = [calendar.changes_after(instant) for calendar in self._deciding(instant)]
        if self.excludes(instant):  # left out until the last of those that leave it out lets go
            return None if None in ends else max(end for end in ends if end is not None)
        return min((end for end in ends if end is not None), default=None)

    def changes_before(self, instant: int) -> int | None:
        begins = [calendar.changes_before(instant) for calendar in self._deciding(instant)]
        if self.excludes(instant):
            return None if None in begins else min(begin for begin in begins if begin is not None)
        return max((begin for begin in begins if begin is not None), default=None)

    def _deciding(self, instant: int) -> list[Calendar]:
        """Where it is left out, those that do so; else all."""
        leaving = [calendar for calendar in self.calendars if calendar.excludes(instant)]
        return leaving or list(self.calendars)
