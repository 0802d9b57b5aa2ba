"""How far a long piece of work is: a bar with rate and time left on a terminal, else one line for each tenth."""

import sys
from typing import Final

import click

from ..scheduler.clock import Clock, SystemClock

_WIDTH: Final = 24


class Bar:
    """Told on standard error. `total` is known before; rate and time left count from the making of the bar."""

    def __init__(self, title: str, total: int, clock: Clock | None = None) -> None:
        self._title = title
        self._total = max(1, total)
        self._clock = SystemClock() if clock is None else clock
        self._began = self._clock.monotonic()
        self._told = 0
        self._on_terminal = bool(sys.stderr) and sys.stderr.isatty()

    def at(self, done: int) -> None:
        """So much is done."""
        tenth = 10 * done // self._total
        if self._on_terminal:
            line = self._line(done)
            click.echo(f"\r{line}\x1b[K", err=True, nl=done >= self._total)
        elif tenth > self._told:
            self._told = tenth
            click.echo(self._line(done, bar=False), err=True)

    def stopped(self) -> None:
        """The work ended before its end: what is said next begins on a line of its own."""
        if self._on_terminal:
            click.echo(err=True)

    def _line(self, done: int, *, bar: bool = True) -> str:
        seconds = self._clock.monotonic() - self._began
        rate = done / seconds if seconds > 0 else 0.0
        said = f"{self._title} {done}/{self._total} ({100 * done // self._total} %)"
        if bar:
            full = _WIDTH * done // self._total
            said = f"{self._title} [{'█' * full}{'·' * (_WIDTH - full)}] {done}/{self._total}"
        if rate:
            said += f" · {rate:.0f}/s"
            if done < self._total:
                said += f" · {(self._total - done) / rate:.0f}s left"
        return said
