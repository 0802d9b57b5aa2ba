"""When which node had a place free, by the rows that ran there: nobody waits for what is not there."""

from collections import defaultdict

from .evidence import Evidence
from .runs import takes_of


class Room:
    """The places of all nodes over a run."""

    def __init__(self, evidence: Evidence) -> None:
        self._capacity = evidence.settings.capacity
        self._moves: dict[int, list[tuple[float, int]]] = defaultdict(list)
        self._lives: dict[int, tuple[float, float]] = {}
        for incarnation, versions in evidence.of_node.items():
            ended = [
                version.mono
                for version in versions
                if version.row["state"] in ("dead", "stopped", "draining")
            ]
            self._lives[incarnation] = (versions[0].mono, min(ended, default=float("inf")))
        for take in takes_of(evidence):
            self._moves[take.incarnation].append((take.begin.mono, 1))
            if take.end is not None:
                self._moves[take.incarnation].append((take.end.mono, -1))
        for moves in self._moves.values():
            moves.sort()

    def longest(self, first: float, last: float) -> float:
        """The longest time in first..last in which some node lived and had a place."""
        return max((self._of(incarnation, first, last) for incarnation in self._lives), default=0.0)

    def _of(self, incarnation: int, first: float, last: float) -> float:
        began, ended = self._lives[incarnation]
        first, last = max(first, began), min(last, ended)
        running, longest, since = 0, 0.0, first
        for mono, step in [*self._moves[incarnation], (last, 0)]:
            at = min(max(mono, first), last)
            if running < self._capacity:
                longest = max(longest, at - since)
            else:
                since = at
            running += step
        return longest
