"""Slots that were decided in time and never begun: found too late, they are judged again, with their trigger locked."""

from typing import NamedTuple

from ...triggers.misfire import FIRE_ALL, SKIP, MisfireRule
from .node_rows import covered
from .tx import Tx


class Judged(NamedTuple):
    """What became of a trigger's late firings, for the log."""

    slots: int
    first: int
    cause: str | None
    policy: str
    decision: str


def judge_late_firings(tx: Tx, trigger_id: int, rule: MisfireRule) -> Judged | None:
    """Apply the misfire policy to due firings of slots that are older than the threshold and were never begun.

    Such a row was released, or its node is gone: nobody ran it in time, so it is as missed as one that was not decided
    (amendment 2). `skip` skips them all; `fire_once` keeps the newest, unless a later slot is due anyway; `fire_all` runs
    them. Retries and manual starts are not slots to be judged.
    """
    now = tx.now()
    clock = tx.run(
        "SELECT next_fire_at, misfires, job_id FROM qsched_trigger_clocks WHERE id = ?"
        + tx.dialect.for_update,
        trigger_id,
    ).first()
    if clock is None:
        return None
    rows = tx.run(
        "SELECT id, scheduled_at FROM qsched_firings WHERE job_id = ? AND state IN ('due', 'running')"
        " AND trigger_id = ? AND state = 'due' AND reason = 'schedule' AND first_started_at IS NULL AND run_at < ?"
        " ORDER BY scheduled_at, id" + tx.dialect.for_update,
        clock[2],
        trigger_id,
        now - rule.threshold,
    ).all()
    if not rows:
        return None
    cause = "no_capacity" if covered(tx, rows[0][1]) else "node_down"
    count, later_due = len(rows), clock[0] is not None and clock[0] <= now
    running: list[int] = []
    if rule.policy == SKIP:
        decision = f"skipped {count}"
    elif rule.policy == FIRE_ALL:
        decision, running = f"ran each of {count}", [row[0] for row in rows]
    elif later_due:
        decision = f"coalesced {count} into a later slot"
    else:
        decision, running = f"ran the last of {count}", [rows[-1][0]]
    for firing_id, _ in rows:
        kept = firing_id in running
        tx.run(
            "UPDATE qsched_firings SET reason = 'misfire', misfire_cause = ?, misfire_policy = ?, misfire_decision = ?,"
            " state = ?, finished_at = ? WHERE id = ? AND state = 'due'",
            cause,
            rule.policy,
            decision,
            "due" if kept else "skipped",
            None if kept else now,
            firing_id,
        )
    tx.run(
        "UPDATE qsched_trigger_clocks SET misfires = ?, last_misfire_at = ?, version = version + 1 WHERE id = ?",
        clock[1] + count,
        rows[-1][1],
        trigger_id,
    )
    return Judged(count, rows[0][1], cause, rule.policy, decision)


def slot_has_row(tx: Tx, trigger_id: int, slot: int) -> bool:
    """Whether this slot of the trigger has its row in the ledger."""
    row = tx.run(
        "SELECT 1 FROM qsched_firings WHERE trigger_id = ? AND scheduled_at = ?", trigger_id, slot
    ).first()
    return row is not None
