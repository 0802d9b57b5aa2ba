"""What a play left behind, told without what only its order decides: so that equal ends are looked at once."""

from collections.abc import Iterable
from typing import Any

from support.hand_node import HandNode

from .photograph import Rows, columns, records

End = tuple[Any, ...]

_FIRING = ("trigger_id", "requested_trigger_id", "scheduled_at", "reason", "request_key")
_LEDGER = (
    *("trigger_name", "first_scheduled_at", "scheduled_at", "covers", "reason", "state", "outcome"),
    *("attempt", "recoveries", "retry_dropped", "misfire_decision"),
)
_NUMBERED = {"id", "firing_id", "of_firing"}


def end_of(before: Rows, now: Rows, nodes: Iterable[HandNode]) -> End:
    """All rows, and what the nodes hold; numbers that the database drew are replaced by what they stand for."""
    firings = {row["id"]: tuple(row[name] for name in _FIRING) for row in records(now, "firings")}
    fresh = sorted(key for key in now["nodes"] if key not in before["nodes"])
    incarnations = {key[0]: f"new {place}" for place, key in enumerate(fresh)}
    told = []
    for table in now:
        names = columns(table)
        rows = []
        for row in now[table].values():
            values = [
                firings.get(value, value)
                if name in _NUMBERED and table in ("firings", "attempts", "permits")
                else incarnations.get(value, value)
                if name == "incarnation"
                else None
                if table == "audit" and name == "id"
                else value
                for name, value in zip(names, row, strict=True)
            ]
            rows.append(repr(values))
        told.append(tuple(sorted(rows)))
    held = [sorted(repr((firings.get(each.firing_id), each.fence)) for each in node.taken) for node in nodes]
    return (*told, repr(held))


def ledger_of(now: Rows) -> End:
    """What a person reads in the ledger: which slots ran, and which did not and why."""
    firings = (tuple(row[name] for name in _LEDGER) for row in records(now, "firings"))
    triggers = ((row["name"], row["state"]) for row in records(now, "triggers"))
    return (*sorted(map(repr, firings)), *sorted(map(repr, triggers)))
