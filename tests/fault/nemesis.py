"""The nemesis: plays a plan of faults on the stage, heals each in its time, and says in the history what it really did."""

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from qsched.scheduler.clock import SystemClock

from .injections import LATER, Heal, Impossible, Injections
from .schedule import Fault
from .stage import Stage

_AGAIN = 0.7
"""Seconds after which a fault that found nothing to be done to is tried once more, elsewhere."""
_TRIES = 15


class Nemesis:
    """Driven by `step` from the thread that starts processes: what a thread started dies with it."""

    def __init__(self, stage: Stage, faults: Sequence[Fault], injections: Injections) -> None:
        self._stage = stage
        self._clock = SystemClock()
        self._injections = injections
        self._order = itertools.count()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._open: dict[int, Heal] = {}
        self._began = self._clock.monotonic()
        for number, fault in enumerate(faults):
            self._at(fault.at, self._beginning(number, fault, _TRIES))

    @property
    def done(self) -> bool:
        """Whether nothing is left to do or to heal."""
        return not self._queue

    def next_in(self) -> float:
        """Seconds until there is something to do."""
        return max(0.0, self._queue[0][0] - self._now()) if self._queue else 1.0

    def step(self) -> None:
        """Do what is due."""
        while self._queue and self._queue[0][0] <= self._now():
            heapq.heappop(self._queue)[2]()

    def heal_all(self) -> None:
        """End every fault that still lasts, and begin none any more."""
        self._queue.clear()
        while self._open:
            for number in list(self._open):
                self._heal(number)
            self._stage.pause(_AGAIN if self._open else 0.0)
        self._queue.clear()

    def _now(self) -> float:
        return self._clock.monotonic() - self._began

    def _at(self, at: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (at, next(self._order), act))

    def _beginning(self, number: int, fault: Fault, tries: int) -> Callable[[], None]:
        def begin() -> None:
            try:
                heal = self._injections.begin(fault)
            except Impossible:
                self._elsewhere(number, fault, tries)
                return
            self._stage.history.say(
                "fault",
                n=number,
                kind=fault.kind,
                target=fault.target,
                seconds=fault.seconds,
                options=fault.options,
            )
            self._open[number] = heal
            until = self._now() + fault.seconds
            if (again := self._injections.repeat(fault)) is not None:
                self._repeat(number, again, until)
            self._at(until, lambda: self._heal(number))

        return begin

    def _elsewhere(self, number: int, fault: Fault, tries: int) -> None:
        if tries <= 1:
            self._stage.history.say("skipped", n=number, kind=fault.kind, target=fault.target)
            return
        if fault.target:
            names = [seat.name for seat in self._stage.seats]
            fault = replace(fault, target=names[(names.index(fault.target) + 1) % len(names)])
        self._at(self._now() + _AGAIN, self._beginning(number, fault, tries - 1))

    def _repeat(self, number: int, again: tuple[float, Callable[[], object]], until: float) -> None:
        seconds, act = again

        def once_more() -> None:
            if number in self._open:
                act()
                if self._now() + seconds < until:
                    self._at(self._now() + seconds, once_more)

        self._at(self._now() + seconds, once_more)

    def _heal(self, number: int) -> None:
        heal = self._open.pop(number, None)
        if heal is None:
            return
        answer = heal()
        if answer == LATER:
            self._open[number] = heal
            self._at(self._now() + _AGAIN, lambda: self._heal(number))
            return
        self._stage.history.say("healed", n=number, unmet=answer is True)
