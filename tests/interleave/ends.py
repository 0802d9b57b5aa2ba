"""What a play left behind, told without what only its order decides: so that equal ends are looked at once."""

from collections.abc import Iterable, Mapping
from typing import Any

from support.hand_node import HandNode

from .photograph import Rows, columns, records

End = tuple[Any, ...]

_FIRING = ("trigger_id", "requested_trigger_id", "scheduled_at", "reason", "request_key")
_LEDGER = (
    *("trigger_name", "first_scheduled_at", "scheduled_at", "covers", "reason", "state", "outcome"),
    *("attempt", "recoveries", "retry_dropped", "misfire_decision"),
)
_OF_FIRINGS = {
    ("firings", "id"),
    ("firings", "of_firing"),
    ("attempts", "firing_id"),
    ("permits", "firing_id"),
}
_OF_TRIGGERS = {
    *(("triggers", "id"), ("trigger_clocks", "id")),
    *(("firings", "trigger_id"), ("firings", "requested_trigger_id")),
}


def end_of(before: Rows, now: Rows, nodes: Iterable[HandNode]) -> End:
    """All rows, and what the nodes hold; numbers that the database drew are replaced by what they stand for."""
    firings = {row["id"]: tuple(row[name] for name in _FIRING) for row in records(now, "firings")}
    triggers = {row["id"]: row["name"] for row in records(now, "triggers")}
    fresh = sorted(key for key in now["nodes"] if key not in before["nodes"])
    incarnations = {key[0]: f"new {place}" for place, key in enumerate(fresh)}

    def meaning(table: str, column: str) -> Mapping[Any, Any]:
        if (table, column) in _OF_FIRINGS:
            return firings
        if (table, column) in _OF_TRIGGERS:
            return triggers
        return incarnations if column == "incarnation" else {}

    told = []
    for table in now:
        meant = [meaning(table, column) for column in columns(table) if (table, column) != ("audit", "id")]
        last = len(meant)  # audit's id, its first column, says nothing
        rows = (row[-last:] for row in now[table].values())
        told.append(
            tuple(
                sorted(
                    repr([names.get(value, value) for names, value in zip(meant, row, strict=True)])
                    for row in rows
                )
            )
        )
    held = [sorted(repr((firings.get(each.firing_id), each.fence)) for each in node.taken) for node in nodes]
    return (*told, repr(held))


def ledger_of(now: Rows) -> End:
    """What a person reads in the ledger: which slots ran, and which did not and why."""
    firings = (tuple(row[name] for name in _LEDGER) for row in records(now, "firings"))
    triggers = ((row["name"], row["state"]) for row in records(now, "triggers"))
    return (*sorted(map(repr, firings)), *sorted(map(repr, triggers)))
