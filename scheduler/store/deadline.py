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
    _cut = False

    @classmethod
    def _connect_gen(cls, *arguments: Any, **options: Any) -> Waiting[Any]:
        # libpq's own time-out counts whole seconds, two at least: with a short lease that would be more than a check-in has.
        return _bounded(super()._connect_gen(*arguments, **options), cls.connect_within, None)

    def wait(self, gen: Waiting[T], *arguments: Any, **options: Any) -> T:
        self._cut = False  # it was meant for a call that has been answered since
        return super().wait(_bounded(gen, self.answer_within, self), *arguments, **options)

    def cut(self) -> None:
        """Let the call that waits on it in another thread give up now (within 0.1 s)."""
        self._cut = True


def answering(
    connect_within: float | None, answer_within: float | None
) -> Callable[..., AnsweringConnection]:
    """What connects, in place of psycopg.connect."""
    fields = {"connect_within": connect_within, "answer_within": answer_within, "__module__": __name__}
    made: type[AnsweringConnection] = type("AnsweringConnection", (AnsweringConnection,), fields)
    return made.connect


def _bounded(waiting: Waiting[T], within: float | None, connection: AnsweringConnection | None) -> Waiting[T]:
    """The same generator, ended when nothing has come for so long, or when it is cut.

    Only a look that finds nothing counts: an answer that is there after this process was stopped for a minute is an answer.
    """
    clock: Clock = SystemClock()
    heard = clock.monotonic()
    try:
        ready = yield next(waiting)
        while True:
            now = clock.monotonic()
            if ready:
                heard = now
            elif (within is not None and now >= heard + within) or (
                connection is not None and connection._cut
            ):
                if connection is not None:
                    # What it was asked is still under way: nothing more may be sent on it, and a COMMIT is in doubt.
                    connection.close()
                raise psycopg.OperationalError(
                    f"the server did not answer for {now - heard:.1f} s: timed out"
                )
            ready = yield waiting.send(ready)
    except StopIteration as ended:
        value: T = ended.value
        return value
