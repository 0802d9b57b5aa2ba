"""What a trigger's ledger says of a span of slots, as a backfill needs to know it."""

from typing import NamedTuple

from .tx import Tx


class Decided(NamedTuple):
    """A firing of one slot: by the schedule (`schedule`, `misfire`) or by a backfill before."""

    id: int
    scheduled_at: int
    reason: str
    state: str
    request_key: str | None


_COLUMNS = ",".join(Decided._fields)


def decided_between(tx: Tx, trigger_id: int, first: int, last: int) -> list[Decided]:
    """The firings whose own slot lies in `first`..`last`, in the order in which they were recorded; skipped rows are left out."""
    rows = tx.rows(
        f"SELECT {_COLUMNS} FROM qsched_firings"
        " WHERE trigger_id = ? AND scheduled_at >= ? AND scheduled_at <= ? AND state <> 'skipped'"
        f" UNION ALL SELECT {_COLUMNS} FROM qsched_firings"
        " WHERE requested_trigger_id = ? AND scheduled_at >= ? AND scheduled_at <= ? AND reason = 'backfill'"
        " ORDER BY 1",
        *(trigger_id, first, last, trigger_id, first, last),
    )
    return [Decided._make(row) for row in rows]
