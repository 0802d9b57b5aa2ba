"""One time for everything: database time and wall time as seconds of the machine's monotonic clock, moved clocks included."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

_BLUR = 0.25
"""Seconds around a step of the database's clock in which a moment may lie on either side of it."""


@dataclass(frozen=True)
class Hands:
    """How the clocks of a run stand to each other."""

    base: float
    """µs: the machine's wall clock minus the monotonic one."""
    steps: tuple[tuple[float, float], ...] = ()
    """(monotonic moment, seconds by which the database's clock is moved from then on), in order."""
    down: tuple[tuple[float, float], ...] = ()
    """Times without a database: it wrote nothing in them."""

    @classmethod
    def of(cls, lines: Sequence[dict[str, Any]]) -> "Hands":
        """From the history's lines that hold both clocks."""
        pairs = [line["wall"] - line["mono"] * 1e6 for line in lines if "wall" in line]
        return cls(median(pairs) if pairs else 0.0, tuple(db_offsets(lines)), tuple(_down(lines)))

    def offset(self, mono: float) -> float:
        """Seconds by which the database's clock is moved at this moment."""
        at = bisect_right([step for step, _ in self.steps], mono)
        return self.steps[at - 1][1] if at else 0.0

    def database(self, mono: float) -> float:
        """Database time (µs) at this moment."""
        return mono * 1e6 + self.base + self.offset(mono) * 1e6

    def mono(self, at: float, *, near: float | None = None) -> float:
        """The moment of a database time. Where steps leave several, the first after `near`, within a blur."""
        plain = (at - self.base) / 1e6
        found = [
            plain - offset
            for began, ended, offset in self._spans()
            if began - _BLUR <= plain - offset < ended + _BLUR and not self._is_down(plain - offset)
        ]
        if not found:
            return plain
        if near is None:
            return found[0]
        return min(found, key=lambda moment: abs(moment - near))

    def _is_down(self, moment: float) -> bool:
        return any(began + _BLUR < moment < ended - _BLUR for began, ended in self.down)

    def stepped(self, began: float, ended: float) -> bool:
        """Whether the database's clock was moved in this time, or just before or after it."""
        return any(began - _BLUR <= step <= ended + _BLUR for step, _ in self.steps)

    def _spans(self) -> list[tuple[float, float, float]]:
        edges = [float("-inf"), *(step for step, _ in self.steps), float("inf")]
        offsets = [0.0, *(offset for _, offset in self.steps)]
        return [(edges[n], edges[n + 1], offsets[n]) for n in range(len(offsets))]


def db_offsets(lines: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    """The steps of the database's clock."""
    return [(line["mono"], line["seconds"]) for line in lines if line["what"] == "db_clock"]


def _down(lines: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    """The times in which the database was stopped."""
    healed = {line["n"]: line["mono"] for line in lines if line["what"] == "healed"}
    return [
        (line["mono"], healed.get(line["n"], line["mono"]))
        for line in lines
        if line["what"] == "fault" and line["kind"] in ("db_restart", "db_pause")
    ]
