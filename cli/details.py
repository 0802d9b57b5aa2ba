"""One thing shown whole: its facts, one a line, and the tables that belong to it."""

from collections.abc import Iterable

from .render import answer
from .table import printable


def show_details(facts: Iterable[tuple[str, object]], *tables: Iterable[str]) -> None:
    """Write `Name  value` lines, without empty ones, then each table behind a blank line."""
    said = [(name, printable(str(value))) for name, value in facts if value not in (None, "", "-")]
    width = max(len(name) for name, _ in said)
    for name, value in said:
        answer(f"{name.ljust(width)}  {value}")
    for table in tables:
        lines = list(table)
        if lines:
            answer("")
        for line in lines:
            answer(line)
