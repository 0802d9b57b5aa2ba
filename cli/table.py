"""Tables: aligned, as wide as the terminal allows and never cut short where no terminal is looking."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from itertools import islice
from typing import Any, Final

Item = Mapping[str, Any]

_LOOK_AHEAD: Final = 1000
"""Widths come from the first rows, so that a long list is written as it is read; wider cells stick out."""
_NARROWEST: Final = 10
_READABLE: Final = 24
"""Of a wider cell so much is worth a place; what a terminal leaves over makes it wider."""
_GAP: Final = "  "


@dataclass(frozen=True)
class View:
    """What a cell may depend on beside its item."""

    zone: tzinfo
    now: int


@dataclass(frozen=True)
class Column:
    """One column: its title, how a cell is made, and what gives way first on a narrow terminal."""

    title: str
    cell: Callable[[Item, View], str]
    wide: bool = False
    """Shown with `-o wide` only."""
    right: bool = False
    drop: int = 0
    """The greater, the sooner it gives way; 0 = never. One that says nothing in any row gives way to all others."""
    paint: bool = False
    """Its cells are coloured by the state they begin with."""


class Table:
    """A table about to be written: at most `width` wide, or as wide as it needs (None)."""

    def __init__(self, columns: Iterable[Column], *, width: int | None = None, colour: bool = False) -> None:
        self.columns = list(columns)
        self.width = width
        self.colour = colour

    def lines(self, items: Iterable[Item], view: View) -> Iterator[str]:
        """The head and one line per item; nothing for no items."""
        rows = ([printable(column.cell(item, view)) for column in self.columns] for item in items)
        first = list(islice(rows, _LOOK_AHEAD))
        if not first:
            return
        widths = [
            max(len(column.title), *(len(row[n]) for row in first)) for n, column in enumerate(self.columns)
        ]
        shown = self._fitting(widths, {n for n in range(len(widths)) if all(row[n] == "-" for row in first)})
        yield self._line([column.title for column in self.columns], widths, shown, head=True)
        for row in first:
            yield self._line(row, widths, shown)
        for row in rows:
            yield self._line(row, widths, shown)

    def _fitting(self, widths: list[int], silent: set[int]) -> list[int]:
        """Which columns are shown, the most important first; those too wide are narrowed (in `widths`)."""
        if self.width is None:
            return list(range(len(widths)))
        wanted = [
            min(width, max(_READABLE, len(column.title))) if column.drop else width
            for width, column in zip(widths, self.columns, strict=True)
        ]
        shown: list[int] = []
        for n in sorted(range(len(widths)), key=lambda n: self._rank(n, silent)):
            if not self.columns[n].drop or _total(wanted, [*shown, n]) <= self.width:
                shown.append(n)
        shown.sort()
        while (over := _total(widths, shown) - self.width) > 0:
            n = max(shown, key=lambda n: (widths[n] > wanted[n], widths[n]))
            least = wanted[n] if widths[n] > wanted[n] else _NARROWEST
            if widths[n] <= least:
                break
            widths[n] = max(least, widths[n] - over)
        return shown

    def _rank(self, n: int, silent: set[int]) -> tuple[bool, int]:
        drop = self.columns[n].drop
        return drop > 0 and n in silent, drop

    def _line(self, row: list[str], widths: list[int], shown: list[int], *, head: bool = False) -> str:
        cells = []
        for n in shown:
            text, column = row[n], self.columns[n]
            if self.width is not None and len(text) > widths[n]:
                text = text[: widths[n] - 1] + "…"
            padded = text.rjust(widths[n]) if column.right else text.ljust(widths[n])
            cells.append(_painted(padded) if self.colour and column.paint and not head else padded)
        return _GAP.join(cells).rstrip()


def _total(widths: list[int], shown: list[int]) -> int:
    return sum(widths[n] for n in shown) + len(_GAP) * (len(shown) - 1)


def printable(text: str) -> str:
    """The text on one line and without what a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))


GLYPHS: Final = {
    "waiting": "●",
    "running": "▶",
    "due": "◷",
    "succeeded": "✔",
    "done": "✔",
    "active": "●",
    "up": "●",
    "paused": "‖",
    "skipped": "○",
    "cancelled": "○",
    "draining": "◐",
    "retired": "○",
    "stopped": "○",
    "error": "✖",
    "failed": "✖",
    "timed_out": "✖",
    "lost": "✖",
    "interrupted": "✖",
    "cancel_requested": "◐",
    "dead": "✖",
    "silent": "✖",
}
_COLOURS: Final = {"●": 32, "▶": 36, "◷": 36, "✔": 32, "‖": 33, "◐": 33, "✖": 31, "○": 2}


def state_cell(state: str | None) -> str:
    """A state as glyph and word, so that colour never carries it alone."""
    return "-" if state is None else f"{GLYPHS.get(state, '?')} {state}"


def _painted(cell: str) -> str:
    colour = _COLOURS.get(cell[:1])
    return cell if colour is None else f"\x1b[{colour}m{cell}\x1b[0m"
