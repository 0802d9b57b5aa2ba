"""Slots that were decided in time and never begun: found too late, they are judged again, with their trigger locked."""

from collections.abc import Collection
from typing import NamedTuple

from ...triggers.misfire import FIRE_ALL, SKIP, MisfireRule
from ..firing import serial_key
from .after_end import set_next
from .node_rows import covered
from .permit_rows import make_permits
from .take_rows import stopped_triggers
from .tx import Tx


class Judged(NamedTuple):
    """What became of a trigger's late firings, for the log."""

    slots: int
    first: int
    cause: str | None
    policy: str
    decision: str
    at: int


def judge_late_firings(tx: Tx, trigger_id: int, rule: MisfireRule, job_ids: Collection[int]) -> Judged | None:
    """Apply the misfire policy to due firings of slots that are older than the threshold and were never begun.

    Such a row was released, or its node is gone: nobody ran it in time, so it is as missed as one that was not decided
    (amendment 2). `job_ids`: those of the firings that were found, which an edit may have made others than the trigger's.
    `skip` skips them all; `fire_once` keeps the newest, unless a later slot is due anyway; `fire_all` runs
    them. Retries and manual starts are not slots to be judged.
    """
    now = tx.now()
    clock = tx.run(
        "SELECT next_fire_at, misfires FROM qsched_trigger_clocks WHERE id = ?" + tx.dialect.for_update,
        trigger_id,
    ).first()
    if clock is None or stopped_triggers(tx, {trigger_id}):
        return None  # paused or retired since they were found late: held, or ended already
    of_jobs, values = tx.among("job_id", sorted(job_ids))
    rows = tx.run(
        f"SELECT id, scheduled_at FROM qsched_firings WHERE {of_jobs} AND state IN ('due', 'running')"
        " AND trigger_id = ? AND state = 'due' AND reason = 'schedule' AND first_started_at IS NULL AND run_at < ?"
        " ORDER BY scheduled_at, id" + tx.dialect.for_update,
        *values,
        trigger_id,
        now - rule.threshold,
    ).all()
    if not rows:
        return None
    cause = "no_capacity" if covered(tx, rows[0][1]) else "node_down"
    ids = [row[0] for row in rows]
    serial = None
    if rule.policy == FIRE_ALL:  # as when it was decided late: at most one of them running at a time
        serial = serial_key(trigger_id)
        make_permits(tx, {serial})
    decision, running = _decided(rule.policy, ids, later_due=clock[0] is not None and clock[0] <= now)
    for firing_id in ids:
        kept = firing_id in running
        tx.run(
            "UPDATE qsched_firings SET reason = 'misfire', misfire_cause = ?, misfire_policy = ?, misfire_decision = ?,"
            " state = ?, finished_at = ?, permit_key = COALESCE(permit_key, ?) WHERE id = ? AND state = 'due'",
            *(cause, rule.policy, decision),
            *("due" if kept else "skipped", None if kept else now, serial, firing_id),
        )
    tx.run(
        "UPDATE qsched_trigger_clocks SET misfires = ?, last_misfire_at = ?, version = version + 1 WHERE id = ?",
        *(clock[1] + len(rows), rows[-1][1], trigger_id),
    )
    set_next(tx, {trigger_id: now})  # where its slots count from ends, and nothing of it is left
    return Judged(len(rows), rows[0][1], cause, rule.policy, decision, now)


def _decided(policy: str, ids: list[int], *, later_due: bool) -> tuple[str, list[int]]:
    """The decision in words, and which of the late firings run for it, of those with `ids`, oldest first."""
    count = len(ids)
    if policy == SKIP:
        return f"skipped {count}", []
    if policy == FIRE_ALL:
        return f"ran each of {count}", ids
    if later_due:
        return f"coalesced {count} into a later slot", []
    return f"ran the last of {count}", ids[-1:]


def slot_has_row(tx: Tx, trigger_id: int, slot: int) -> bool:
    """Whether this slot of the trigger has its row in the ledger."""
    row = tx.run(
        "SELECT 1 FROM qsched_firings WHERE trigger_id = ? AND scheduled_at = ?", trigger_id, slot
    ).first()
    return row is not None
