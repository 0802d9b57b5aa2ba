"""From a failing run to a small one: shorter, with fewer faults, verbs and triggers, that breaks the same invariant."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .result import Choice, Result, play
from .timeline import START

_SHUFFLES = 2
"""Other interleavings that are tried where a smaller plan does not fail at once."""


class Shrinker:
    """Tries smaller choices for one seed and one invariant, so many plays at most."""

    def __init__(self, seed: int, choice: Choice, code: str, *, most: int = 200) -> None:
        self._seed = seed
        self._code = code
        self._left = most
        self.best = choice
        self.result: Result | None = None

    def run(self) -> Choice:
        """The smallest choice found that still fails."""
        first = play(self._seed, self.best)
        self._shorten(first)
        for name in ("strikes", "verbs", "triggers"):
            places = getattr(self.best, name)
            if places is None:
                places = tuple(range(len(getattr(self.best.plan(self._seed), name))))
            self._thin(name, places)
        if self.result is not None:
            self._shorten(self.result)
        return self.best

    def _shorten(self, result: Result) -> None:
        at = next((each.at for each in result.complaints if each.code == self._code), None)
        if at is None:
            return
        seen = (at - START) / 60_000_000
        for after in (0.05, 0.3, 1.0):
            if self._fails(replace(self.best, until=round(seen + after, 3))):
                return

    def _thin(self, name: str, places: Sequence[int]) -> None:
        """Leave out halves, quarters, … of what is left, as long as it still fails (delta debugging)."""
        if self._fails(replace(self.best, **_part(name, ()))):
            return
        size = max(len(places) // 2, 1)
        while places and self._left > 0:
            start, thinned = 0, False
            while start < len(places):
                rest = (*places[:start], *places[start + size :])
                if self._fails(replace(self.best, **_part(name, rest))):
                    places, thinned = rest, True
                else:
                    start += size
            if size == 1 and not thinned:
                return
            size = max(size // 2, 1)

    def _fails(self, choice: Choice) -> bool:
        for shuffle in range(choice.shuffle, choice.shuffle + _SHUFFLES):
            if self._left <= 0:
                return False
            self._left -= 1
            tried = replace(choice, shuffle=shuffle)
            result = play(self._seed, tried)
            if any(each.code == self._code for each in result.complaints):
                self.best, self.result = tried, result
                return True
        return False


def _part(name: str, places: Sequence[int]) -> dict[str, Any]:
    return {name: tuple(places)}
