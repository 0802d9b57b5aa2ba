"""What every calendar can say: whether an instant is left out, and for how long that stays so on both sides."""

from typing import Protocol


class Calendar(Protocol):
    """Instants are microseconds since the epoch. Stateless; bounded work per call."""

    def excludes(self, instant: int) -> bool:
        """Whether the instant is left out."""

    def changes_after(self, instant: int) -> int | None:
        """The first instant after `instant` at which the answer may be another; None where it stays for good."""

    def changes_before(self, instant: int) -> int | None:
        """The first instant of the stretch around `instant` in which the answer is the same (it may have been the same
        before); None where it was so from the beginning of time."""
