"""A node's hooks: all that is marked on_startup runs before its first firing, what is marked on_shutdown after its last body."""

import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final

from ..clock import Clock
from ..error_text import one_line
from ..errors import StartupFailed
from .chain import Marked
from .marks import SHUTDOWN, STARTUP, place_of

_LEAST: Final = 0.5
"""Seconds that the hooks of a shutdown have, together, where bodies took all of the drain's time."""
_LOOK: Final = 0.05

log = logging.getLogger("qsched.node")

Awaited = Callable[[Coroutine[Any, Any, None]], object]
"""Runs a coroutine that raises nothing to its end, from another thread than its loop's."""


class Hooks:
    """Of one start of a node. `find` answers what is marked; `end` is called when nothing is left to run."""

    def __init__(
        self, find: Callable[[], Iterable[Marked]], awaited: Awaited, end: Callable[[], None], clock: Clock
    ) -> None:
        self._find = find
        self._awaited = awaited
        self._end = end
        self._clock = clock
        self._marked: list[Marked] = []
        self._opened = self._closed = self._left = False
        self._at: str | None = None

    def open(self, leaving: Callable[[], bool]) -> bool:
        """Run what is to run at the start, if it has not; False where the node was told to leave. Raises StartupFailed.

        A hook that runs when the node is told to is not broken off, but the next one is not begun.
        """
        if not self._opened:
            self._marked = list(self._find())
            self._opened = start_up(self._marked, self._awaited, leaving)
        return self._opened

    def close(self, seconds: float | None, hurry: Callable[[], bool] = lambda: False) -> None:
        """Run what is to run at the end, once, if all that is to run at the start has ended well; raises nothing.

        After `seconds` (half a second at least, None: no limit) what has not ended is left behind in its daemon thread.
        """
        if self._closed:
            return
        self._closed = True
        if self._opened and any(mark.kind == SHUTDOWN for mark, _ in self._marked):
            thread = threading.Thread(target=self._shut_down, name="qsched-shutdown", daemon=True)
            thread.start()
            self._wait_for(thread, seconds, hurry)
        self._end()

    def _wait_for(self, thread: threading.Thread, seconds: float | None, hurry: Callable[[], bool]) -> None:
        began = self._clock.monotonic()
        while thread.is_alive():
            thread.join(_LOOK)
            most = _LEAST if hurry() else seconds
            if (
                most is not None
                and self._clock.monotonic() >= began + max(most, _LEAST)
                and thread.is_alive()
            ):
                self._left = True
                log.warning("hook.left hook=%s: the time of the drain is over", self._at or "-")
                return

    def _shut_down(self) -> None:
        for function in reversed(_in_order(self._marked, SHUTDOWN)):
            self._at = place_of(function)
            if self._left:
                log.warning("hook.not_run hook=%s: the time of the drain is over", self._at)
                continue
            try:
                _run(function, self._awaited)
            except BaseException as error:
                log.error("hook.failed hook=%s reason=%s", self._at, one_line(error), exc_info=error)
            else:
                log.info("hook.ran hook=%s", self._at)


def start_up(marked: Iterable[Marked], awaited: Awaited, leaving: Callable[[], bool] = lambda: False) -> bool:
    """Run the hooks of a start, each when the one before has ended; False where it was broken off between two.

    Raises StartupFailed for the first one that raises, whatever it raises.
    """
    for function in _in_order(marked, STARTUP):
        if leaving():
            return False
        place = place_of(function)
        try:
            _run(function, awaited)
        except BaseException as error:
            raise StartupFailed(f"startup hook {place} failed: {one_line(error)}") from error
        log.info("hook.ran hook=%s", place)
    return True


def _in_order(marked: Iterable[Marked], kind: str) -> list[Callable[[], Any]]:
    chosen = sorted((each for each in marked if each[0].kind == kind), key=lambda each: each[0].place)
    return [function for _, function in chosen]


def _run(function: Callable[[], Any], awaited: Awaited) -> None:
    """Run one hook to its end; raises what it raises."""
    result = function()
    if not inspect.iscoroutine(result):
        return
    ended: list[BaseException] = []

    async def contained() -> None:
        """Nothing leaves it: a SystemExit would end the loop, which may be the application's."""
        try:
            await result
        except BaseException as error:
            ended.append(error)

    waiting = contained()
    try:
        awaited(waiting)
    except BaseException:  # no loop runs it any more
        for coroutine in (waiting, result):
            with suppress(BaseException):
                coroutine.close()
        raise
    if ended:
        raise ended[0]
