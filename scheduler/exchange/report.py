"""The fidelity report of an import: exact, changed or lost, line by line, and the next fires side by side."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from ...triggers.instant import from_instant, rfc3339
from ...triggers.zone import find_zone
from .reading import CHANGED, EXACT, LOST, Level, Place, Remark


class Row(NamedTuple):
    """One of the next fires: the source's and ours (microseconds; None: no such fire)."""

    source: int | None
    ours: int | None


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of one trigger of the source."""

    name: str
    place: Place
    remarks: tuple[Remark, ...]
    time_zone: str = "UTC"
    engine: str = ""
    rows: tuple[Row, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether the shown fires are the same ones."""
        return all(row.source == row.ours for row in self.rows)


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a source; `remarks` belong to no trigger."""

    format: str
    source: str
    entries: tuple[Entry, ...]
    remarks: tuple[Remark, ...] = ()

    def count(self, level: Level) -> int:
        """How many lines are exact, changed or lost."""
        remarks = chain(self.remarks, *(entry.remarks for entry in self.entries))
        return sum(remark.level == level for remark in remarks)

    def summary(self) -> str:
        """`crontab nightly.crontab: 3 triggers; 5 lines exact, 2 changed, 1 lost`."""
        number = len(self.entries)
        counts = ", ".join(f"{self.count(level)} {level}" for level in (EXACT, CHANGED, LOST))
        return f"{self.format} {self.source}: {number} trigger{'' if number == 1 else 's'}; {counts}"

    def text(self) -> str:
        """The report for a person."""
        return "".join(f"{line}\n" for line in self._lines())

    def items(self) -> list[dict[str, Any]]:
        """The report as JSON-ready values: one item for each trigger, and one without a name for the rest."""
        rest = [{"name": None, "remarks": [_remark(r) for r in self.remarks]}] if self.remarks else []
        return [*rest, *map(_entry, self.entries)]

    def _lines(self) -> Iterator[str]:
        yield self.summary()
        if self.remarks:
            yield ""
            yield from _remark_lines(self.remarks)
        for entry in self.entries:
            yield ""
            yield f"{entry.name} ({entry.place})"
            yield from _remark_lines(entry.remarks)
            yield from _fires(entry)


def _remark_lines(remarks: tuple[Remark, ...]) -> Iterator[str]:
    for remark in remarks:
        why = f": {remark.why}" if remark.why else ""
        yield f"  {remark.level:<8} {remark.place}  {remark.what}{why}"


def _fires(entry: Entry) -> Iterator[str]:
    if not entry.rows:
        return
    yield f"  next fires in {entry.time_zone}"
    yield f"       {'the source, by ' + entry.engine:<32}here"
    for n, row in enumerate(entry.rows, 1):
        mark = "" if row.source == row.ours else "  differs"
        yield f"    {n}  {_local(row.source, entry.time_zone):<32}{_local(row.ours, entry.time_zone)}{mark}"


def _local(instant: int | None, zone: str) -> str:
    if instant is None:
        return "-"
    return from_instant(instant).astimezone(find_zone(zone).tz).strftime("%a %Y-%m-%d %H:%M:%S %z")


def _entry(entry: Entry) -> dict[str, Any]:
    item: dict[str, Any] = {
        "name": entry.name,
        "place": str(entry.place),
        "remarks": [_remark(remark) for remark in entry.remarks],
    }
    if entry.rows:
        item |= {"engine": entry.engine, "time_zone": entry.time_zone, "agrees": entry.agrees}
        item["next"] = [
            {name: None if at is None else rfc3339(at) for name, at in row._asdict().items()}
            for row in entry.rows
        ]
    return item


def _remark(remark: Remark) -> dict[str, Any]:
    return {"level": remark.level, "place": str(remark.place), "what": remark.what, "why": remark.why}
