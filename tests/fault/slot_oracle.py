"""Which slots a trigger has: by plain arithmetic on its declaration, and nothing of the house's."""

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from .evidence import Change, Evidence
from .workload import TriggerFacts

SECOND = 1_000_000
MINUTE = 60 * SECOND


def every(period: int, first: int, last: int) -> list[int]:
    """The multiples of `period` (µs) in first..last."""
    return list(range(-(-first // period) * period, last + 1, period))


def of_minute(seconds: tuple[int, ...], first: int, last: int) -> list[int]:
    """These seconds of every minute, in first..last."""
    found = [
        minute + second * SECOND
        for minute in every(MINUTE, first - MINUTE, last)
        for second in sorted(seconds)
    ]
    return [slot for slot in found if first <= slot <= last]


def declared(trigger: TriggerFacts) -> Callable[[int, int], list[int]]:
    """The slots of a trigger of the file in a span (first, last], as a function."""

    def slots(first: int, last: int) -> list[int]:
        if trigger.every:
            return every(trigger.every * SECOND, first + 1, last)
        if trigger.seconds:
            return of_minute(trigger.seconds, first + 1, last)
        return [trigger.at] if first < trigger.at <= last else []

    return slots


def edited(versions: list[Change], decided: list[Change], last: int) -> list[int]:
    """The slots of a trigger that was edited: each of its schedules from its edit to the next.

    `decided` are its rows' inserts: where the database's clock went back, an edit does not bring back what was decided.
    """
    found: list[int] = []
    spans = _spans(versions, decided)
    for n, (began, spec) in enumerate(spans):
        until = spans[n + 1][0] if n + 1 < len(spans) else last
        found += every(spec["schedule"]["every"], began + 1, min(until, last))
    return found


def _spans(versions: list[Change], decided: list[Change]) -> list[tuple[int, dict[str, Any]]]:
    found: list[tuple[int, dict[str, Any]]] = []
    for version in versions:
        spec = json.loads(version.row["spec"])
        if not found or found[-1][1]["schedule"] != spec["schedule"]:
            before = [change.row["scheduled_at"] for change in decided if change.seq < version.seq]
            found.append((max([version.row["updated_at"], *before]), spec))
    return found


class Slots:
    """All triggers' slots up to the end of a run, by the trigger's key."""

    def __init__(self, evidence: Evidence, last: int) -> None:
        self.last = last
        self._of: dict[str, list[int]] = {}
        versions: dict[str, list[Change]] = {}
        decided: dict[str, list[Change]] = defaultdict(list)
        for change in evidence.of_table["firings"]:
            if change.op == "INSERT" and change.row["trigger_id"] is not None:
                decided[change.row["trigger_name"]].append(change)
        for change in evidence.of_table["triggers"]:
            versions.setdefault(key_of(change.row), []).append(change)
        for key, found in versions.items():
            facts = evidence.triggers.get(key)
            if facts is None:
                self._of[key] = edited(found, decided[key], last)
            else:
                self._of[key] = declared(facts)(found[0].row["created_at"], last)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._of))

    def of(self, key: str) -> list[int]:
        return self._of.get(key, [])

    def within(self, key: str, first: int, last: int) -> list[int]:
        """The slots in first..last."""
        slots = self.of(key)
        return slots[bisect_left(slots, first) : bisect_right(slots, last)]


def key_of(row: dict[str, Any]) -> str:
    """The key of a trigger's row."""
    return str(row["name"] if row["group_name"] == "default" else f"{row['group_name']}/{row['name']}")
