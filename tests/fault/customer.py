"""The client of a run: pauses, resumes, edits and fires about once a second, asks again where it got no answer, and says all."""

import itertools
import random
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from qsched.scheduler.errors import ConstraintHit, Refused, SchedulerError

from qsched import Every, Scheduler

from .history import History

PAUSED = ("tick_5", "slow_again_3", "flaky_3", "alone_1")
"""Triggers that are paused and resumed."""
EDITED = ("edited_1", "edited_2")
"""Triggers that the program adds, and whose schedule it changes."""
FIRED = ("even_1", "alone_again_5", "slow_2")
_PERIODS = (1, 2, 3)
_TRIES = 60


class Customer:
    """Works in a thread of its own until `stop`, then puts everything right again."""

    def __init__(self, url: str, history: History, seed: int) -> None:
        self._scheduler = Scheduler(url, who="customer")
        self._history = history
        self._random = random.Random(f"customer/{seed}")
        self._numbers = itertools.count(1)
        self._stopping = threading.Event()
        self._paused: set[str] = set()
        self._asked: list[tuple[str, dict[str, Any]]] = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="fault-customer", daemon=True)

    def start(self) -> None:
        for key in EDITED:
            self._edit(key, 1)
        self._thread.start()

    def fire_soon(self, key: str, data: dict[str, Any]) -> None:
        """Have the customer fire this next."""
        with self._lock:
            self._asked.append((key, data))

    def stop(self, within: float = 120.0) -> None:
        """Resume what is paused and end."""
        self._stopping.set()
        self._thread.join(within)
        assert not self._thread.is_alive(), "the customer still waits for an answer"
        self._scheduler.close()

    def _run(self) -> None:
        while not self._stopping.wait(self._random.uniform(0.4, 1.2)):
            with self._lock:
                asked = self._asked.pop(0) if self._asked else None
            if asked is not None:
                self._fire(*asked)
                continue
            act = self._random.choice((self._pause_one, self._resume_one, self._edit_one, self._fire_one))
            act()
        for key in sorted(self._paused):
            self._resume(key)

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def _pause_one(self) -> None:
        key = self._random.choice(PAUSED)
        self._paused.add(key)
        self._do("pause", key, lambda: self._scheduler.pause(key, reason="fault"))

    def _resume_one(self) -> None:
        if self._paused:
            self._resume(self._random.choice(sorted(self._paused)))

    def _resume(self, key: str) -> None:
        if self._do("resume", key, lambda: self._scheduler.resume(key)):
            self._paused.discard(key)

    def _edit_one(self) -> None:
        self._edit(self._random.choice(EDITED), self._random.choice(_PERIODS))

    def _edit(self, key: str, period: int) -> None:
        every = Every(timedelta(seconds=period))
        self._do("edit", key, lambda: self._scheduler.add(key, job="tick", schedule=every), period=period)

    def _fire_one(self) -> None:
        self._fire(self._random.choice(FIRED), {})

    def _fire(self, key: str, data: dict[str, Any]) -> None:
        request = f"request-{next(self._numbers)}"
        twice = self._random.random() < 0.3

        def fire() -> int:
            first = self._scheduler.fire(key, data=data, request_key=request)
            return self._scheduler.fire(key, data=data, request_key=request) if twice else first

        self._do("fire", key, fire, request=request)

    def _do(self, verb: str, key: str, work: Callable[[], object], **said: Any) -> bool:
        """Ask until there is an answer: a request that may have been heard is said again with the same words."""
        number = next(self._numbers)
        for _ in range(_TRIES):
            self._history.say("asked", n=number, verb=verb, key=key, **said)
            try:
                answer = work()
            except (Refused, ConstraintHit) as error:
                self._history.say("refused", n=number, verb=verb, key=key, reason=str(error)[:200])
                return False
            except SchedulerError as error:
                self._history.say("unanswered", n=number, verb=verb, key=key, reason=str(error)[:200])
                self._stopping.wait(0.3)
                continue
            firing = answer if isinstance(answer, int) and not isinstance(answer, bool) else None
            self._history.say("answered", n=number, verb=verb, key=key, firing=firing, **said)
            return True
        self._history.say("given_up", n=number, verb=verb, key=key)
        return False
