"""What promises are judged by: the rows before, and the rows now."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .photograph import Rows, records

Record = dict[str, Any]


@dataclass(frozen=True)
class Moment:
    """The rows by their tables, before and now."""

    before: Rows
    now: Rows
    time: int

    def rows(self, table: str) -> list[Record]:
        return records(self.now, table)

    def pairs(self, table: str, key: str = "id") -> Iterator[tuple[Record, Record]]:
        """(row before, row now) of what was there before."""
        now = {row[key]: row for row in records(self.now, table)}
        for row in records(self.before, table):
            if row[key] in now:
                yield row, now[row[key]]
