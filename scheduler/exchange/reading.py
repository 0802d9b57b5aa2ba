"""What an importer answers: triggers and jobs in the keys of a declaration, and what became of each thing it read."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Level = Literal["exact", "changed", "lost"]
EXACT: Final = "exact"
CHANGED: Final = "changed"
LOST: Final = "lost"

Fires = Callable[[int, int], list[int]]
"""(instant, count) → the source's own next fires strictly after it (microseconds), by an engine that is not ours."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a source something stands; a source without lines (a table, an application) has line 0."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Remark:
    """One line of the report: what became of `what`, and why it is not as it was."""

    level: Level
    place: Place
    what: str
    """The thing in the source's own words: `schedule 15 2 * * *`, `MAILTO=ops`."""
    why: str = ""
    """What is here instead (exact, changed), or why nothing is (lost)."""


@dataclass(slots=True)
class Item:
    """One trigger: its name and its keys as a declaration writes them; the remarks about it, and the source's own fires."""

    name: str
    place: Place
    trigger: dict[str, Any]
    """The mapping under `triggers: {name: …}`; its own job (`command: …`) within it, or `job:` naming one."""
    remarks: list[Remark] = field(default_factory=list)
    fires: Fires | None = None
    """None: the source names no instants of its own (it counts from starts or ends)."""
    engine: str = ""
    """Whose reading `fires` is: `croniter`."""
    refusal: str = ""
    """Why it cannot become a trigger; the rest of it does not count then."""

    def note(self, level: Level, what: str, why: str = "", place: Place | None = None) -> None:
        """Add a remark, at the item's own place unless another is given."""
        self.remarks.append(Remark(level, place or self.place, what, why))

    def take_arguments(self, args: list[Any], kwargs: Mapping[str, Any]) -> None:
        """What a Python function was called with, as the trigger's `data`."""
        data = dict(kwargs)
        if data:
            self.note(EXACT, f"kwargs {', '.join(data)}", "`data`")
        if args:
            data["args"] = args
            self.note(CHANGED, f"args {args}", "no argument goes by its position: they are `data`'s `args`")
        if data:
            self.trigger["data"] = data


@dataclass(slots=True)
class Reading:
    """All of a source. `jobs` are the ones that triggers name; remarks here belong to no trigger."""

    items: list[Item] = field(default_factory=list)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)

    def note(self, level: Level, place: Place, what: str, why: str = "") -> None:
        self.remarks.append(Remark(level, place, what, why))

    def free_name(self, wanted: str, *, numbered: bool = False) -> str:
        """`wanted` as a trigger's name: without what names may not hold, and with a number where it is taken.

        `numbered` begins to count at once: for names that nobody gave (`backup-sh-1`).
        """
        base = clean_name(wanted)
        taken = {item.name for item in self.items}
        if not numbered and base not in taken:
            return base
        number = 1 if numbered else 2
        while f"{base}-{number}" in taken:
            number += 1
        return f"{base}-{number}"


@dataclass(frozen=True, slots=True)
class Options:
    """What an importer is told. `time_zone` None: nobody said which zone the source's host was in."""

    now: int
    time_zone: str | None = None
    namespace: str | None = None
    said: Mapping[str, str] = field(default_factory=dict)
    """What only one format knows, by name."""


LONGEST_NAME: Final = 150


def clean_name(wanted: str) -> str:
    """A name that a declaration accepts: no `/`, no control characters, no blanks at the ends, not empty."""
    kept = "".join(c if c.isprintable() and c != "/" else "-" for c in wanted.strip())
    return re.sub(r"-{2,}", "-", kept)[:LONGEST_NAME].strip(" -") or "imported"
