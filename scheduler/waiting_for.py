"""What stands in the way of a trigger whose slot is due and not decided: the first reason that holds, as rows tell it now."""

import json
from collections.abc import Mapping
from typing import Any

from ..triggers.errors import TriggerError
from .effective import NO_OVERLAP_SAID, job_policies
from .store import definition_rows, fate_rows, job_rows
from .store.fate_rows import LiveNode
from .store.job_rows import JobRow
from .store.trigger_rows import ERROR, TriggerRow
from .store.tx import Tx
from .stored import Stored

Reason = tuple[str, Mapping[str, Any]]


def waiting_for(tx: Tx, row: TriggerRow, stored: Stored, now: int) -> Reason:
    """(why, facts): paused, group_paused, error, no_node, run_on, unloadable, undecidable, overlap, group_limit, jitter,
    no_capacity, or soon where nothing is in its way."""
    return (
        _stopped(row)
        or _nodes(tx, row, stored)
        or _turn(tx, row)
        or _time(row, now)
        or _places(tx)
        or ("soon", {})
    )


def _stopped(row: TriggerRow) -> Reason | None:
    if row.paused_at is not None:
        facts = {"since": row.paused_at, "by": row.paused_by}
        return "paused", {**facts, "until": row.paused_until, "reason": row.paused_reason}
    if row.group_paused_at is not None:
        return "group_paused", {"since": row.group_paused_at, "group": row.group}
    return (ERROR, {"error": row.error}) if row.state == ERROR else None


def _nodes(tx: Tx, row: TriggerRow, stored: Stored) -> Reason | None:
    """Whether somebody lives who could run it."""
    nodes = fate_rows.live_nodes(tx)
    if not nodes:
        return "no_node", {}
    tags = _run_on(tx, row, stored)
    able = [node for node in nodes if node.tags.issuperset(tags)]
    if not able:
        return "run_on", {"run_on": tags}
    return _said(able, "unloadable", row.job_id) or _said(able, "undecidable", row.id)


def _said(nodes: list[LiveNode], what: str, number: int) -> Reason | None:
    """What all of them say that they cannot do."""
    said = [getattr(node, what).get(str(number)) for node in nodes]
    if not all(said):
        return None
    words = said[0][-1] if isinstance(said[0], list) else said[0]
    return what, {"said": str(words), "nodes": [node.name for node in nodes]}


def _run_on(tx: Tx, row: TriggerRow, stored: Stored) -> list[str]:
    if stored.definition is not None and stored.definition.run_on:
        return list(stored.definition.run_on)
    job: JobRow | None = job_rows.read_jobs(tx, [row.job_name]).get(row.job_name)
    if job is None:
        return []
    try:
        defaults, _ = definition_rows.read_defaults(tx)
        return list(job_policies(job.spec, job.loaded, defaults).run_on or ())
    except (TriggerError, json.JSONDecodeError):
        return []


def _turn(tx: Tx, row: TriggerRow) -> Reason | None:
    if row.overlap not in (None, NO_OVERLAP_SAID):
        holder = fate_rows.holder_of_job(tx, row.job_id)
        if holder is not None:
            return "overlap", {"firing": holder, "overlap": row.overlap, "job": row.job_name}
    if row.limit_key is not None and fate_rows.free_of_group(tx, row.limit_key) == 0:
        return "group_limit", {"job": row.job_name}
    return None


def _time(row: TriggerRow, now: int) -> Reason | None:
    if row.next_run_at is not None and row.next_run_at > now and row.next_run_at != row.next_fire_at:
        return "jitter", {"run_at": row.next_run_at}
    return None


def _places(tx: Tx) -> Reason | None:
    nodes = fate_rows.live_nodes(tx)
    if all(node.running >= node.capacity for node in nodes):
        return "no_capacity", {"capacity": sum(node.capacity for node in nodes)}
    return None
