"""Definitions as a node reads them while it takes: triggers by id, jobs by id, what the cluster defaults to."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from .tx import Tx


class TriggerRow(NamedTuple):
    """A trigger's definition as stored; `spec` is JSON text that may be broken."""

    id: int
    group_name: str
    name: str
    spec: str
    spec_version: int
    definition_digest: str
    job_id: int
    state: str


class JobRow(NamedTuple):
    """A job's definition as stored; `updated_at` tells whether it changed."""

    id: int
    name: str
    updated_at: int
    state: str
    spec: str
    loaded: str | None
    followed: int


def read_triggers(tx: Tx, ids: Collection[int]) -> list[TriggerRow]:
    """The definitions of these triggers; those that do not exist are left out."""
    if not ids:
        return []
    condition, values = tx.among("id", sorted(ids))
    text = f"SELECT {','.join(TriggerRow._fields)} FROM qsched_triggers WHERE {condition}"
    return list(map(TriggerRow._make, tx.rows(text, *values)))


def job_versions(tx: Tx, ids: Collection[int]) -> dict[int, int]:
    """{job id: updated_at} of these jobs: what a node needs to trust what it knows."""
    if not ids:
        return {}
    condition, values = tx.among("id", sorted(ids))
    return {
        row[0]: row[1] for row in tx.run(f"SELECT id, updated_at FROM qsched_jobs WHERE {condition}", *values)
    }


def definition_hashes(tx: Tx, ids: Collection[int]) -> dict[int, int | None]:
    """{trigger id: the hash of its definition}."""
    if not ids:
        return {}
    condition, values = tx.among("id", sorted(ids))
    text = f"SELECT id, definition_hash FROM qsched_trigger_clocks WHERE {condition}"
    return {row[0]: row[1] for row in tx.rows(text, *values)}


def read_jobs(tx: Tx, ids: Collection[int]) -> list[JobRow]:
    """The definitions of these jobs."""
    if not ids:
        return []
    condition, values = tx.among("id", sorted(ids))
    return [
        JobRow(*row)
        for row in tx.run(f"SELECT {','.join(JobRow._fields)} FROM qsched_jobs WHERE {condition}", *values)
    ]


def read_cluster(tx: Tx) -> tuple[str, str | None]:
    """(uuid, defaults as JSON text) of the cluster."""
    row = tx.run("SELECT uuid, defaults FROM qsched_clusters WHERE id = ?", tx.cluster).one()
    return row[0], row[1]


def oldest_tzdata(tx: Tx, key: Callable[[str | None], tuple[int, ...]]) -> tuple[str | None, str | None]:
    """(the cluster's zone data version, the oldest one of a live node); `key` orders versions."""
    known = tx.run("SELECT tzdata FROM qsched_clusters WHERE id = ?", tx.cluster).scalar_one()
    live = tx.run(
        "SELECT tzdata FROM qsched_nodes WHERE cluster = ? AND state IN ('up', 'draining') AND lease_until > ?",
        tx.cluster,
        tx.now(),
    )
    return known, min((row[0] for row in live), key=key, default=known)


def claim_tzdata(tx: Tx, version: str) -> None:
    """The cluster's next fires are computed with this version of the zone data."""
    tx.run("UPDATE qsched_clusters SET tzdata = ? WHERE id = ?", version, tx.cluster)
