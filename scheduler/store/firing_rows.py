"""The ledger's rows: one insert per decision, and the few updates that may follow it."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..firing import NewFiring, stops_with
from .ledger_tables import firings
from .tx import Tx

_COLUMNS = NewFiring._fields


def insert_firings(tx: Tx, rows: Sequence[NewFiring]) -> list[int]:
    """Write the decisions `rows`; answers their ids in order. A slot that was decided before raises ConstraintHit."""
    return tx.insert_ids(firings, _COLUMNS, rows)


class OpenFiring(NamedTuple):
    """What a verdict, a rescue or a reconciliation needs of a running firing."""

    id: int
    fence: int
    incarnation: int | None
    take_no: int | None
    trigger_id: int | None
    requested_trigger_id: int | None
    job_id: int
    permit_key: str | None
    attempt: int
    refires: int
    recoveries: int
    next_at: int | None
    retry_until: int | None
    first_started_at: int | None
    started_at: int | None
    request_recovery: int
    max_recoveries: int
    cancel_requested_at: int | None
    cancel_requested_by: str | None
    limit_key: str | None
    reason: str

    @property
    def stops_with(self) -> int | None:
        return stops_with(self.reason, self.trigger_id, self.requested_trigger_id)


_OPEN = ",".join(OpenFiring._fields)


def open_firings(tx: Tx, ids: Collection[int]) -> dict[int, OpenFiring]:
    """These firings, whatever their state."""
    if not ids:
        return {}
    condition, values = tx.among("id", sorted(ids))
    return {
        row[0]: OpenFiring(*row)
        for row in tx.run(f"SELECT {_OPEN} FROM qsched_firings WHERE {condition}", *values)
    }


def names_of(tx: Tx, ids: Collection[int]) -> dict[int, tuple[str | None, str]]:
    """{firing: its trigger's key, its job's name}."""
    condition, values = tx.among("id", sorted(ids))
    rows = tx.rows(f"SELECT id, trigger_name, job_name FROM qsched_firings WHERE {condition}", *values)
    return {row[0]: (row[1], row[2]) for row in rows}


def running_here(tx: Tx, incarnation: int) -> list[OpenFiring]:
    """What the ledger says runs under this incarnation."""
    rows = tx.run(
        f"SELECT {_OPEN} FROM qsched_firings WHERE incarnation = ? AND state = 'running'", incarnation
    )
    return [OpenFiring(*row) for row in rows]
