"""A PostgreSQL connection that gives up on a server that does not answer, and closes itself then.

Neither libpq nor the kernel does that: of a stopped server, or behind a proxy that swallows what it is sent, every packet
is acknowledged and nothing ever comes back. PyMySQL has a read time-out of its own.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

import psycopg

from ..clock import Clock, SystemClock

T = TypeVar("T")

Waiting = Generator[Any, Any, T]
"""How psycopg waits: a generator that yields what it waits for, and is sent 0 about every 0.1 s in which nothing came."""


class AnsweringConnection(psycopg.Connection[Any]):
    """Every wait for the server, be it to connect, for a row, or in COMMIT, is bounded by `answer_within` seconds."""

    connect_within: float | None = None
    answer_within: float | None = None

    @classmethod
    def _connect_gen(cls, *arguments: Any, **options: Any) -> Waiting[Any]:
        # libpq's own time-out counts whole seconds, two at least: with a short lease that would be more than a check-in has.
        return _bounded(super()._connect_gen(*arguments, **options), cls.connect_within, lambda: None)

    def wait(self, gen: Waiting[T], *arguments: Any, **options: Any) -> T:
        # What it was asked is still under way: nothing else may be sent on it, and its answer to COMMIT is lost.
        return super().wait(_bounded(gen, self.answer_within, self.close), *arguments, **options)


def answering(
    connect_within: float | None, answer_within: float | None
) -> Callable[..., AnsweringConnection]:
    """What connects, in place of psycopg.connect."""
    fields = {"connect_within": connect_within, "answer_within": answer_within, "__module__": __name__}
    made: type[AnsweringConnection] = type("AnsweringConnection", (AnsweringConnection,), fields)
    return made.connect


def _bounded(waiting: Waiting[T], within: float | None, give_up: Callable[[], None]) -> Waiting[T]:
    """The same generator, ended when nothing has come for so long.

    Only a look that finds nothing counts: an answer that is there after this process was stopped for a minute is an answer.
    """
    if within is None:
        return (yield from waiting)
    clock: Clock = SystemClock()
    until = clock.monotonic() + within
    try:
        ready = yield next(waiting)
        while True:
            now = clock.monotonic()
            if ready:
                until = now + within
            elif now >= until:
                give_up()
                raise psycopg.OperationalError(f"the server did not answer for {within:g} s: timed out")
            ready = yield waiting.send(ready)
    except StopIteration as ended:
        value: T = ended.value
        return value
