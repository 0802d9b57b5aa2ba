"""Which orders of two actors' steps are tried: all that can differ, or those with few switches and some by chance.

All: a depth-first walk through the choices, in which another side is tried at a choice only where a later step of it may
leave something else when it comes first (dynamic partial order reduction, Flanagan and Godefroid, with sleep sets).
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .accesses import Step, order_matters
from .turnstile import Event

_DEEPEST = 120
"""Behind so many choices (two that deadlock again and again) nothing is branched any more."""
SWITCHES = 2

Matters = Callable[[Step, Step], bool]


@dataclass
class Choice:
    """A moment at which both sides, or one, could go on."""

    ready: tuple[int, ...]
    steps: tuple[Step | None, ...]
    chosen: int
    tried: set[int] = field(default_factory=set)
    wanted: set[int] = field(default_factory=set)
    """Sides with which something else may come of it."""
    asleep: set[int] = field(default_factory=set)
    """Sides whose step was tried before and makes no difference until the other has done something that meets it."""


class Search:
    """A walk through all orders: `choose` plays one, `again` says whether there is another."""

    def __init__(self) -> None:
        self._path: list[Choice] = []
        self._depth = 0
        self.diverged = 0
        """Orders in which a side was not where it was before: the schedule did not decide everything."""

    def choose(self, ready: Sequence[int], steps: Sequence[Step | None]) -> int:
        """Who goes on."""
        place = self._depth
        self._depth += 1
        if place < len(self._path):
            known = self._path[place]
            if known.ready != tuple(ready) or known.steps != tuple(steps):
                self.diverged += 1
                del self._path[place:]
            else:
                return known.chosen
        if place > len(self._path) or place >= _DEEPEST:
            return self._stay(ready)
        return self._open(tuple(ready), tuple(steps))

    def again(self, events: Sequence[Event]) -> bool:
        """Having played one order: set out for the next; False when there is none."""
        self._learn(events)
        self._depth = 0
        while self._path:
            last = self._path[-1]
            last.tried.add(last.chosen)
            side = self._another(last)
            if side is not None:
                last.chosen = side
                return True
            self._path.pop()
        return False

    def _stay(self, ready: Sequence[int]) -> int:
        """Rather the side that went last."""
        last = self._path[-1].chosen if self._path else 0
        return last if last in ready else ready[0]

    def _open(self, ready: tuple[int, ...], steps: tuple[Step | None, ...]) -> int:
        chosen = self._stay(ready)
        self._path.append(Choice(ready, steps, chosen))
        return chosen

    def _learn(self, events: Sequence[Event]) -> None:
        """Look at what has happened."""

    def _another(self, choice: Choice) -> int | None:
        raise NotImplementedError


class EveryOrder(Search):
    """Every order that may leave something else."""

    def __init__(self, matters: Matters = order_matters) -> None:
        super().__init__()
        self._matters = matters

    def _open(self, ready: tuple[int, ...], steps: tuple[Step | None, ...]) -> int:
        asleep = self._asleep_after(self._path[-1]) if self._path else set()
        awake = [side for side in ready if side not in asleep]
        if not awake:  # whatever comes of it has been seen
            self._depth += _DEEPEST
            return self._stay(ready)
        chosen = self._stay(awake)
        self._path.append(Choice(ready, steps, chosen, wanted={chosen}, asleep=asleep))
        return chosen

    def _asleep_after(self, before: Choice) -> set[int]:
        done = before.steps[before.chosen]
        assert done is not None
        passed = (before.asleep | before.tried) - {before.chosen}
        return {
            side for side in passed if (step := before.steps[side]) is None or not self._matters(step, done)
        }

    def _learn(self, events: Sequence[Event]) -> None:
        known = [-1, -1]  # per side: the last event of the other that it follows from
        for place, event in enumerate(events):
            earlier = self._last_that_matters(events, place)
            if earlier is None:
                continue
            if earlier > known[event.side] and earlier < len(self._path):
                choice = self._path[earlier]
                choice.wanted |= {event.side} if event.side in choice.ready else set(choice.ready)
            known[event.side] = max(known[event.side], earlier)

    def _last_that_matters(self, events: Sequence[Event], place: int) -> int | None:
        event = events[place]
        for earlier in range(place - 1, -1, -1):
            other = events[earlier]
            if other.side != event.side:
                # Who of two that wait for each other is the deadlock's victim may depend on who waited first.
                parted = other.waited and event.waited
                if parted or self._matters(other.step, event.step):
                    return earlier
        return None

    def _another(self, choice: Choice) -> int | None:
        left = choice.wanted - choice.tried - choice.asleep
        return min(left) if left else None


class FewSwitches(Search):
    """Every order in which a side that could go on is interrupted at most so many times."""

    def __init__(self, switches: int = SWITCHES) -> None:
        super().__init__()
        self._switches = switches

    def _another(self, choice: Choice) -> int | None:
        before = self._path[:-1]
        spent = sum(self._interrupts(place, each.chosen) for place, each in enumerate(before))
        for side in choice.ready:
            if side not in choice.tried and spent + self._interrupts(len(before), side) <= self._switches:
                return side
        return None

    def _interrupts(self, place: int, side: int) -> int:
        if place == 0:
            return 0
        last = self._path[place - 1].chosen
        return int(side != last and last in self._path[place].ready)


class Chance(Search):
    """Orders drawn at random: `again` never ends."""

    def __init__(self, seed: str) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def choose(self, ready: Sequence[int], steps: Sequence[Step | None]) -> int:
        return self._random.choice(list(ready))

    def again(self, events: Sequence[Event]) -> bool:
        return True


class Given(Search):
    """One order that was written down: a letter for each choice, a or b."""

    def __init__(self, letters: str) -> None:
        super().__init__()
        self._letters = letters

    def choose(self, ready: Sequence[int], steps: Sequence[Step | None]) -> int:
        wanted = "ab".index(self._letters[self._depth]) if self._depth < len(self._letters) else 0
        self._depth += 1
        if wanted in ready:
            return wanted
        self.diverged += self._depth <= len(self._letters)
        return ready[0]

    def again(self, events: Sequence[Event]) -> bool:
        return False


def letters(events: Sequence[Event]) -> str:
    """An order as it can be given again."""
    return "".join("ab"[event.side] for event in events)
