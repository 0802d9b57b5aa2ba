"""The register of calendars: what each namespace has declared, for whoever reads; each trigger carries its own."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...triggers.job import canonical, digest
from ...triggers.trigger_text import trigger_key
from .tables import calendars
from .tx import Tx


class CalendarRow(NamedTuple):
    """A declared calendar, and the keys of the triggers of its namespace that leave its time out."""

    name: str
    namespace: str
    spec: Mapping[str, Any]
    updated_at: int
    used_by: tuple[str, ...]


def calendar_digests(tx: Tx, namespace: str) -> dict[str, str]:
    """{name: digest} of a namespace's calendars."""
    rows = tx.rows(
        "SELECT name, definition_digest FROM qsched_calendars WHERE cluster = ? AND namespace = ?",
        *(tx.cluster, namespace),
    )
    return {row[0]: row[1] for row in rows}


def write_calendars(
    tx: Tx, namespace: str, wanted: Mapping[str, Mapping[str, object]], *, keep: bool = False
) -> None:
    """Make a namespace's register say what is wanted (`keep`: and what it said beside); the caller holds its lock."""
    known = calendar_digests(tx, namespace)
    fresh = {name: digest(spec) for name, spec in wanted.items()}
    for name in () if keep else sorted(known.keys() - fresh.keys()):
        tx.run(
            "DELETE FROM qsched_calendars WHERE cluster = ? AND namespace = ? AND name = ?",
            *(tx.cluster, namespace, name),
        )
    for name in sorted(fresh.keys() & known.keys()):
        if fresh[name] != known[name]:
            tx.run(
                "UPDATE qsched_calendars SET spec = ?, definition_digest = ?, updated_at = ?"
                " WHERE cluster = ? AND namespace = ? AND name = ?",
                *(canonical(wanted[name]), fresh[name], tx.now(), tx.cluster, namespace, name),
            )
    tx.insert(
        calendars,
        ("cluster", "name", "namespace", "spec", "definition_digest", "updated_at"),
        [
            (tx.cluster, name, namespace, canonical(wanted[name]), fresh[name], tx.now())
            for name in sorted(fresh.keys() - known.keys())
        ],
    )


def read_calendars(tx: Tx) -> list[CalendarRow]:
    """All calendars of the cluster, and what programs added with their triggers, by namespace and name."""
    used: dict[tuple[str, str], list[str]] = {}
    carried: dict[tuple[str, str], Mapping[str, Any]] = {}
    rows = tx.rows(
        "SELECT namespace, group_name, name, spec FROM qsched_triggers WHERE cluster = ? AND state <> 'retired'"
        " AND spec LIKE ? ORDER BY group_name, name",
        *(tx.cluster, '%"exclude"%'),
    )
    for namespace, group, name, spec in rows:
        said = _mapping(spec)
        for each, calendar in said.get("calendars", {}).items():
            used.setdefault((namespace, each), []).append(trigger_key(group, name))
            carried.setdefault((namespace, each), calendar)
    declared = {
        (row[1], row[0]): CalendarRow(row[0], row[1], _mapping(row[2]), row[3], ())
        for row in tx.rows(
            "SELECT name, namespace, spec, updated_at FROM qsched_calendars WHERE cluster = ?", tx.cluster
        )
    }
    for (namespace, name), spec in carried.items():
        declared.setdefault((namespace, name), CalendarRow(name, namespace, spec, 0, ()))
    return [row._replace(used_by=tuple(used.get(key, ()))) for key, row in sorted(declared.items())]


def _mapping(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
