"""Splay: all slots of a trigger moved by one amount, which its key decides: many triggers of one expression spread out."""

from dataclasses import dataclass
from hashlib import blake2b

from .duration import format_duration
from .instant import MINUTE, SECOND
from .schedule import Moments, Schedule


@dataclass(frozen=True, slots=True)
class Splayed(Moments):
    """The slots of `inner`, each `offset` microseconds later (elapsed time, so that no change of offset moves one)."""

    inner: Schedule
    offset: int

    @classmethod
    def of(cls, inner: Schedule, key: str, splay: int) -> "Splayed":
        """`inner` moved by the share of `splay` (µs) that belongs to `key`: less than all of it, the same everywhere."""
        return cls(inner, share(key, splay))

    def slot_after(self, instant: int) -> int | None:
        slot = self.inner.slot_after(instant - self.offset)
        return None if slot is None else slot + self.offset

    def latest_before(self, instant: int) -> int | None:
        slot = self.inner.latest_before(instant - self.offset)
        return None if slot is None else slot + self.offset

    def count_between(self, first: int, last: int) -> int:
        return self.inner.count_between(first - self.offset, last - self.offset)

    def notes(self, slot: int) -> str | None:
        """What a change of offset does to the slot that was moved, for previews."""
        notes = getattr(self.inner, "notes", None)
        found: str | None = notes(slot - self.offset) if callable(notes) else None
        return found

    def words(self) -> str:
        return f"{self.inner.words()}, {format_duration(self.offset) if self.offset else '0s'} later (splay)"

    def __str__(self) -> str:
        return str(self.inner)


def share(text: str, most: int) -> int:
    """A number from 0 to `most` - 1 that `text` decides, alike everywhere; in whole seconds where that leaves a choice."""
    step = SECOND if most >= MINUTE else 1
    number = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    return number % (-(-most // step)) * step
