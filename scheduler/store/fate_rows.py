"""What the ledger and the nodes say of a trigger's slots, for whoever asks why one ran or did not."""

import json
from typing import Any, NamedTuple

from .firing_reports import FIRINGS, firing_item
from .report_items import Item
from .tx import Tx

_MOST = 5000


class Covering(NamedTuple):
    """A row and the span of slots that it stands for (µs)."""

    first: int
    last: int
    item: Item


class LiveNode(NamedTuple):
    """A node that lives now, as it last said it is."""

    name: str
    capacity: int
    running: int
    tags: frozenset[str]
    undecidable: dict[str, Any]
    unloadable: dict[str, Any]


def rows_covering(tx: Tx, trigger_id: int, first: int, last: int) -> list[Covering]:
    """The rows that stand for slots of `first`..`last`, in their order; at most 5000."""
    text = FIRINGS + " AND f.trigger_id = ? AND f.scheduled_at"
    inside = list(
        tx.run(
            f"{text} >= ? AND f.scheduled_at <= ? ORDER BY f.scheduled_at LIMIT {_MOST}",
            *(tx.cluster, trigger_id, first, last),
        )
    )
    beyond = list(tx.run(f"{text} > ? ORDER BY f.scheduled_at LIMIT 1", *(tx.cluster, trigger_id, last)))
    return [Covering(row[4], row[3], firing_item(row)) for row in inside + beyond if row[4] <= last]


def backfills(tx: Tx, trigger_id: int, first: int, last: int) -> dict[int, Item]:
    """{slot: its newest backfilled firing}."""
    rows = tx.run(
        FIRINGS + " AND f.requested_trigger_id = ? AND f.reason = 'backfill' AND f.scheduled_at >= ?"
        f" AND f.scheduled_at <= ? ORDER BY f.id LIMIT {_MOST}",
        *(tx.cluster, trigger_id, first, last),
    )
    return {row[3]: firing_item(row) for row in rows}


def made_and_changed(tx: Tx, trigger_id: int) -> tuple[int, int, str | None, int | None]:
    """(when it was made, when its definition was last written, the kind of its error, since when)."""
    row = tx.run(
        "SELECT created_at, updated_at, error_kind, error_at FROM qsched_triggers WHERE id = ?", trigger_id
    ).one()
    return int(row[0]), int(row[1]), row[2], row[3]


def live_nodes(tx: Tx) -> list[LiveNode]:
    """The nodes that live and do not leave."""
    rows = tx.rows(
        "SELECT name, capacity, running, tags, undecidable, unloadable FROM qsched_nodes"
        " WHERE cluster = ? AND state = 'up' AND lease_until > ? ORDER BY name",
        *(tx.cluster, tx.now()),
    )
    return [
        LiveNode(row[0], row[1], row[2] or 0, frozenset(_json(row[3]) or ()), _json(row[4]), _json(row[5]))
        for row in rows
    ]


def holder_of_job(tx: Tx, job_id: int) -> int | None:
    """The firing of a job that runs now, or that waits and goes first."""
    row = tx.run(
        "SELECT MIN(id) FROM qsched_firings WHERE job_id = ? AND state IN ('due', 'running') AND run_at <= ?",
        *(job_id, tx.now()),
    ).one()
    return None if row[0] is None else int(row[0])


def free_of_group(tx: Tx, limit_key: str) -> int:
    """How many permits of a limited group are free."""
    row = tx.run(
        "SELECT COUNT(*) FROM qsched_permits WHERE cluster = ? AND permit_key = ? AND n >= 0 AND firing_id IS NULL",
        *(tx.cluster, limit_key),
    ).one()
    return int(row[0])


def _json(text: str | None) -> Any:
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return {}
