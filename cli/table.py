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
    """The greater, the sooner it is left out; 0 = never."""
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
        shown = self._fitting(widths)
        yield self._line([column.title for column in self.columns], widths, shown, head=True)
        for row in first:
            yield self._line(row, widths, shown)
        for row in rows:
            yield self._line(row, widths, shown)

    def _fitting(self, widths: list[int]) -> list[int]:
        """Which columns are shown; the widest are narrowed (in `widths`) where leaving out is not enough."""
        shown = list(range(len(widths)))
        if self.width is None:
            return shown
        for n in sorted(shown, key=lambda n: -self.columns[n].drop):
            if _total(widths, shown) <= self.width or not self.columns[n].drop:
                break
            shown.remove(n)
        while (over := _total(widths, shown) - self.width) > 0:
            widest = max(shown, key=lambda n: widths[n])
            if widths[widest] <= _NARROWEST:
                break
            widths[widest] = max(_NARROWEST, widths[widest] - over)
        return shown

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
    "dead": "✖",
}
_COLOURS: Final = {"●": 32, "▶": 36, "◷": 36, "✔": 32, "‖": 33, "◐": 33, "✖": 31, "○": 2}


def state_cell(state: str | None) -> str:
    """A state as glyph and word, so that colour never carries it alone."""
    return "-" if state is None else f"{GLYPHS.get(state, '?')} {state}"


def _painted(cell: str) -> str:
    colour = _COLOURS.get(cell[:1])
    return cell if colour is None else f"\x1b[{colour}m{cell}\x1b[0m"
