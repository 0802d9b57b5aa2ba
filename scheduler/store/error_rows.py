"""Triggers in `error`: written with their kind and reason, listed for who might clear them."""

from collections.abc import Collection
from typing import NamedTuple

from .tx import Tx


class TroubledTrigger(NamedTuple):
    """A trigger in error, or one that waits for a job nobody can load."""

    id: int
    job_id: int
    error_kind: str


def set_error(tx: Tx, trigger_id: int, kind: str, reason: str) -> None:
    """poison | undecidable | unloadable; the caller holds the trigger's clock. next_fire_at stays, to be shown."""
    tx.run(
        "UPDATE qsched_trigger_clocks SET next_run_at = NULL, version = version + 1 WHERE id = ?", trigger_id
    )
    tx.run(
        "UPDATE qsched_triggers SET state = 'error', error_kind = ?, error = ?, error_at = ?"
        " WHERE id = ? AND state IN ('waiting', 'done')",
        kind,
        reason[:2000],
        tx.now(),
        trigger_id,
    )


def clearable(tx: Tx, most: int = 1000) -> list[TroubledTrigger]:
    """Triggers whose error clears itself when a node that can appears."""
    rows = tx.run(
        "SELECT id, job_id, error_kind FROM qsched_triggers WHERE cluster = ? AND error_kind IN ('undecidable', 'unloadable')"
        " AND state = 'error' ORDER BY id LIMIT ?",
        tx.cluster,
        most,
    )
    return [TroubledTrigger(*row) for row in rows]


def waiting_for_jobs(tx: Tx, job_ids: Collection[int], most: int = 1000) -> list[int]:
    """Due triggers of these jobs; locked until commit."""
    condition, values = tx.among("job_id", sorted(job_ids))
    rows = tx.run(
        f"SELECT id FROM qsched_trigger_clocks WHERE cluster = ? AND next_run_at <= ? AND {condition}"
        f" ORDER BY next_run_at, precedence, id LIMIT ?{tx.dialect.skip_locked}",
        tx.cluster,
        tx.now(),
        *values,
        most,
    )
    return [row[0] for row in rows]


def lock_waiting(tx: Tx, trigger_ids: Collection[int]) -> dict[int, int]:
    """{id: version of its clock} of those of these triggers that still wait and are due; locked until commit."""
    condition, values = tx.among("id", sorted(trigger_ids))
    rows = tx.run(
        f"SELECT id, version FROM qsched_trigger_clocks WHERE next_run_at <= ? AND {condition}"
        f" ORDER BY id{tx.dialect.skip_locked}",
        tx.now(),
        *values,
    )
    return {row[0]: row[1] for row in rows}
