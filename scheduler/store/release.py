"""`release`: a taken firing whose body has not begun goes back to whoever is next, as if nobody had taken it."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..firing import CANCELLED, DUE, FAILED, stops_with
from .after_end import set_next
from .finish import states_of
from .followers import End, follow_found
from .ledger_tables import firings
from .permit_rows import free_permits
from .take_rows import lock_clocks
from .tx import Tx
from .waiting_retries import know_retries, superseded_by, take_turns


def release(tx: Tx, incarnation: int, taken: Collection[tuple[int, int]]) -> int:
    """running → due for firings whose body has *not* begun: (firing id, fence); run_at is kept. How many were still ours.

    Those of a retired trigger, which nobody would start any more, are cancelled instead, as are those that were asked to
    stop; and a retry whose next slot was decided meanwhile ends as the others of its slot did then, for it would run beside
    that.
    """
    if not taken:
        return 0
    condition, values = tx.among("id", sorted(firing_id for firing_id, _ in taken))
    clocks = _clocks_of(tx, condition, values)
    ours = [
        row
        for row in map(
            _Unbegun._make,
            tx.rows(
                f"SELECT {_UNBEGUN} FROM qsched_firings WHERE {condition}"
                f" AND incarnation = ? AND state = 'running' ORDER BY id{tx.dialect.for_update}",
                *values,
                incarnation,
            ),
        )
        if (row.id, row.fence) in taken
    ]
    ends = {row.id: end for row in ours if (end := _end_of_unbegun(row, clocks)) is not None}
    _end_unbegun(tx, [row for row in ours if row.id in ends], ends)
    failed = [End(row.id, row.job_id, FAILED) for row in ours if row.id in ends and ends[row.id][0] == FAILED]
    follow_found(tx, failed)
    set_next(tx, {row.trigger_id: tx.now() for row in ours if row.id in ends and row.trigger_id is not None})
    back = [row for row in ours if row.id not in ends]
    tx.update(
        firings,
        ("id", "fence"),
        ("state", "incarnation", "started_at"),
        [(row.id, row.fence, DUE, None, None) for row in back],
    )
    if back:
        # A slot that has never run is judged again when it is found late; one of which a part ran is not.
        condition, values = tx.among("id", [row.id for row in back])
        tx.run(
            f"UPDATE qsched_firings SET first_started_at = NULL WHERE {condition} AND NOT EXISTS"
            " (SELECT 1 FROM qsched_attempts a WHERE a.firing_id = qsched_firings.id)",
            *values,
        )
    free_permits(tx, [(row.permit_key, row.id, row.fence) for row in ours if row.permit_key is not None])
    free_permits(tx, [(row.limit_key, row.id, row.fence) for row in ours if row.limit_key is not None])
    know_retries(tx, {row.id: row.trigger_id for row in back if row.attempt and row.trigger_id is not None})
    take_turns(tx, [row.id for row in back])
    return len(ours)


class _Unbegun(NamedTuple):
    """A taken firing that is given back."""

    id: int
    fence: int
    permit_key: str | None
    trigger_id: int | None
    attempt: int
    next_at: int | None
    cancel_requested_at: int | None
    limit_key: str | None
    job_id: int
    reason: str
    requested_trigger_id: int | None

    @property
    def stops_with(self) -> int | None:
        return stops_with(self.reason, self.trigger_id, self.requested_trigger_id)


_UNBEGUN = ", ".join(_Unbegun._fields)


def _clocks_of(tx: Tx, condition: str, values: Sequence[object]) -> dict[int, tuple[str | None, int | None]]:
    """{trigger id: its state, its watermark} of these firings. Their clocks are locked: whoever retires a trigger, or
    decides its next slot, ends what is due then, and would not see what becomes due behind it."""
    rows = tx.rows(
        "SELECT DISTINCT COALESCE(trigger_id, requested_trigger_id) FROM qsched_firings"
        f" WHERE {condition} AND COALESCE(trigger_id, requested_trigger_id) IS NOT NULL",
        *values,
    )
    ids = [row[0] for row in rows]
    if not ids:
        return {}
    lock_clocks(tx, ids)
    return states_of(tx, ids)


_RETIRED = (CANCELLED, CANCELLED, None, "not begun: the trigger was retired")
_UNWANTED = (CANCELLED, CANCELLED, None, "not begun: its cancel was requested")


def _end_of_unbegun(
    row: _Unbegun, clocks: dict[int, tuple[str | None, int | None]]
) -> tuple[str, str, str | None, str] | None:
    state, watermark = clocks.get(row.stops_with or 0, (None, None))
    if state == "retired":
        return _RETIRED
    if row.cancel_requested_at is not None:
        return _UNWANTED
    if row.attempt > 0 and row.next_at is not None and watermark is not None and watermark >= row.next_at:
        return (FAILED, FAILED, "superseded", superseded_by(row.next_at))
    return None


def _end_unbegun(tx: Tx, rows: Sequence[_Unbegun], ends: dict[int, tuple[str, str, str | None, str]]) -> None:
    tx.update(
        firings,
        ("id", "fence"),
        ("state", "outcome", "retry_dropped", "note", "started_at", "finished_at"),
        [(row.id, row.fence, *ends[row.id], None, tx.now()) for row in rows],
    )
