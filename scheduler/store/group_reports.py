"""The groups there are: who paused one, how its triggers are, and how many permits of its limit are held; only reads."""

import json
from typing import Any

from ..firing import limit_key
from .database import Store
from .limit_rows import read_limits
from .report_items import Item, instant
from .trigger_rows import DONE, RETIRED
from .tx import Tx

STATES = ("waiting", "paused", "error", "done")
"""How a group's triggers are counted; a waiting one that is paused, by itself or with its group, is paused."""


def groups(store: Store) -> list[Item]:
    """Every group that has triggers, a pause or a limit, in order of its name.

    `paused` is {at, by, until, reason} or None, `triggers` {state: how many}, `limit` {most, in_use, namespace} or None.
    """
    return store.read("groups", _groups)


def group(store: Store, name: str) -> Item | None:
    """One of `groups`; None where nothing has that name."""
    return next((item for item in groups(store) if item["name"] == name), None)


def _groups(tx: Tx) -> list[Item]:
    pauses = _pauses(tx)
    counts = _counts(tx, pauses.keys())
    limits = _limits(tx)
    return [
        {
            "name": name,
            "paused": pauses.get(name),
            "triggers": counts.get(name) or dict.fromkeys(STATES, 0),
            "limit": limits.get(name),
        }
        for name in sorted(pauses.keys() | counts.keys() | limits.keys())
    ]


def _pauses(tx: Tx) -> dict[str, Item]:
    rows = tx.rows(
        "SELECT group_name, paused_at, paused_by, paused_until, paused_reason FROM qsched_paused_groups"
        " WHERE cluster = ?",
        tx.cluster,
    )
    return {
        row[0]: {"at": instant(row[1]), "by": row[2], "until": instant(row[3]), "reason": row[4]}
        for row in rows
    }


def _counts(tx: Tx, paused: Any) -> dict[str, dict[str, int]]:
    rows = tx.rows(
        "SELECT group_name, state, CASE WHEN paused_at IS NULL THEN 0 ELSE 1 END, COUNT(*) FROM qsched_triggers"
        " WHERE cluster = ? AND state <> ? GROUP BY group_name, state, CASE WHEN paused_at IS NULL THEN 0 ELSE 1 END",
        *(tx.cluster, RETIRED),
    )
    counts: dict[str, dict[str, int]] = {}
    for name, state, own_pause, number in rows:
        of_group = counts.setdefault(name, dict.fromkeys(STATES, 0))
        stopped = state == "waiting" and (own_pause or name in paused)
        of_group["paused" if stopped else state] += number
    for name in _continuations(tx):  # these have no slot of their own: they wait for their job's ends
        counts[name]["done"] -= 1
        counts[name]["paused" if name in paused else "waiting"] += 1
    return counts


def _continuations(tx: Tx) -> list[str]:
    """The group of each continuation; in the store they are done as what has no slot is."""
    rows = tx.rows(
        "SELECT group_name, spec FROM qsched_triggers WHERE cluster = ? AND state = ? AND spec LIKE ?",
        *(tx.cluster, DONE, '%"after"%'),
    )
    return [row[0] for row in rows if _follows(row[1])]


def _follows(text: str) -> bool:
    try:
        return "after" in json.loads(text)["schedule"]
    except (ValueError, TypeError, KeyError):
        return False


def _limits(tx: Tx) -> dict[str, Item]:
    held = {
        row[0]: row[1]
        for row in tx.rows(
            "SELECT permit_key, COUNT(*) FROM qsched_permits WHERE cluster = ? AND firing_id IS NOT NULL"
            " GROUP BY permit_key",
            tx.cluster,
        )
    }
    return {
        name: {
            "most": limit.most,
            "in_use": int(held.get(limit_key(limit.id), 0)),
            "namespace": limit.namespace,
        }
        for name, limit in read_limits(tx).items()
    }
