"""After: no slots of its own; a trigger that follows the ends of another job's firings."""

from dataclasses import dataclass
from typing import Final

from .schedule import Moments

SUCCEEDED: Final = "succeeded"
CONDITIONS: Final = (SUCCEEDED, "failed", "any")
"""Which ends are followed: good ones, bad ones (failed, lost), all of them (what was cancelled while it ran, too)."""

OF_SLOTS: Final = (
    *("start_at", "end_at", "max_fires", "exclude", "on_excluded", "jitter", "splay", "misfire"),
    "time_zone",
)
"""What a trigger says of its slots, and has no meaning for one that has none."""


@dataclass(frozen=True, slots=True)
class After(Moments):
    """Runs once for each firing of `job` that ends as `on` says; for the arithmetic of time it has nothing to give."""

    job: str
    on: str = SUCCEEDED

    def slot_after(self, instant: int) -> int | None:  # noqa: ARG002
        """None: nobody knows when a job will end."""
        return None

    def latest_before(self, instant: int) -> int | None:  # noqa: ARG002
        """None."""
        return None

    def count_between(self, first: int, last: int) -> int:  # noqa: ARG002
        """0."""
        return 0

    def words(self) -> str:
        """The schedule in plain words."""
        return f"After {self.job}, when it {_WORDS[self.on]}"

    def __str__(self) -> str:
        return f"after {self.job}" if self.on == SUCCEEDED else f"after {self.job} ({self.on})"


_WORDS = {SUCCEEDED: "has succeeded", "failed": "has failed", "any": "has ended"}
