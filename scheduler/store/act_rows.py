"""Single firings, as people act on them: locked first, so that a state that was looked at is the one that is changed."""

from collections.abc import Collection
from typing import NamedTuple

from ..firing import CANCELLED
from .tx import Tx
from .waiting_rows import end_waiting


class Acted(NamedTuple):
    """What an act needs to know of a firing."""

    id: int
    state: str
    trigger_id: int | None
    requested_trigger_id: int | None
    job_id: int
    trigger_name: str | None
    job_name: str
    scheduled_at: int
    precedence: int
    data: str | None
    first_started_at: int | None
    """None as long as no body of it has begun; what was taken and given back is as if it never had been."""


def jobs_of(tx: Tx, ids: Collection[int]) -> set[int]:
    """The jobs of these firings of this cluster."""
    if not ids:
        return set()
    condition, values = tx.among("id", sorted(set(ids)))
    rows = tx.rows(
        f"SELECT job_id FROM qsched_firings WHERE cluster = ? AND {condition}", tx.cluster, *values
    )
    return {row[0] for row in rows}


def lock_acted(tx: Tx, ids: Collection[int]) -> dict[int, Acted]:
    """These firings of this cluster, locked until commit, ids ascending."""
    if not ids:
        return {}
    condition, values = tx.among("id", sorted(set(ids)))
    rows = tx.run(
        f"SELECT {', '.join(Acted._fields)} FROM qsched_firings WHERE cluster = ? AND {condition} ORDER BY id"
        + tx.dialect.for_update,
        *(tx.cluster, *values),
    )
    return {row[0]: Acted(*row) for row in rows}


def cancel_due(tx: Tx, ids: Collection[int], why: str) -> None:
    """End these (locked) firings, which wait."""
    end_waiting(tx, ids, CANCELLED, why[:2000])


def ask_to_stop(tx: Tx, ids: Collection[int], who: str) -> None:
    """Ask what runs of these (locked) firings to stop; their nodes see it at the next check-in. The first who asked stays."""
    if ids:
        condition, values = tx.among("id", sorted(ids))
        tx.run(
            "UPDATE qsched_firings SET cancel_requested_at = ?, cancel_requested_by = ?"
            f" WHERE {condition} AND cancel_requested_at IS NULL",
            *(tx.now(), who[:200], *values),
        )


def find_retry(tx: Tx, request_key: str) -> tuple[int, int | None] | None:
    """(id, the firing that it runs again) of the firing with this request key."""
    row = tx.run(
        "SELECT id, of_firing FROM qsched_firings WHERE cluster = ? AND request_key = ?",
        *(tx.cluster, request_key),
    ).one_or_none()
    return None if row is None else (row[0], row[1])
