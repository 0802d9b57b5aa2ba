"""What runs again later, beside its trigger's next slots: known to the trigger's clock, in its turn, ended when overtaken."""

from collections.abc import Collection, Mapping

from ...triggers.instant import rfc3339
from ..firing import FAILED, permit_key
from .followers import End, follow_found
from .ledger_tables import firings
from .tx import Tx

SOME, OF_ANOTHER_JOB = 1, 2
"""A clock's `retrying`, where it is not 0: a retry may wait; it may be of a job that the trigger had before."""


def know_retries(tx: Tx, again: Mapping[int, int]) -> None:
    """Have the next slot's decision look for what waits: {firing: its trigger, whose clock is locked}."""
    if not again:
        return
    condition, values = tx.among("id", sorted(set(again.values())))
    of_these, firing_ids = tx.among("f.id", sorted(again))
    other = (
        f"EXISTS (SELECT 1 FROM qsched_firings f WHERE {of_these} AND f.trigger_id = qsched_trigger_clocks.id"
        " AND f.job_id <> qsched_trigger_clocks.job_id)"
    )
    tx.run(
        f"UPDATE qsched_trigger_clocks SET retrying = CASE WHEN retrying = {OF_ANOTHER_JOB} OR {other}"
        f" THEN {OF_ANOTHER_JOB} ELSE {SOME} END, version = version + 1 WHERE {condition}",
        *(*firing_ids, *values),
    )


def take_turns(tx: Tx, firing_ids: Collection[int]) -> None:
    """Firings that are due again need a permit if their job has come to forbid overlap since they were taken, one of its
    group's if that has come to be limited, and none if it is not limited any more: nobody could give them one."""
    if not firing_ids:
        return
    condition, values = tx.among("f.id", sorted(firing_ids))
    rows = tx.rows(
        "SELECT f.id, f.job_id, COALESCE(c.overlap, 'allow'), f.permit_key, c.limit_key FROM qsched_firings f"
        " LEFT JOIN qsched_trigger_clocks c"
        " ON c.id = COALESCE(f.trigger_id, f.requested_trigger_id) AND c.job_id = f.job_id"
        f" WHERE {condition} AND ((f.permit_key IS NULL AND c.overlap <> 'allow')"
        " OR (f.limit_key IS NULL AND c.limit_key IS NOT NULL) OR (f.limit_key IS NOT NULL AND NOT EXISTS (SELECT 1"
        " FROM qsched_permits p WHERE p.cluster = f.cluster AND p.permit_key = f.limit_key AND p.n >= 0)))"
        " ORDER BY f.id",
        *values,
    )
    turns = [
        (row[0], permit_key(row[1]) if row[2] != "allow" and row[3] is None else row[3], row[4])
        for row in rows
    ]
    tx.update(firings, ("id",), ("permit_key", "limit_key"), turns)


def supersede_retries(
    tx: Tx, trigger_id: int, job_ids: Collection[int], slot: int, *, followed: bool = False
) -> int:
    """End the waiting retries of slots before `slot`, which is being decided now; the trigger is locked by the caller.

    So an outage never lets a retry and a regular firing run side by side (DESIGN §8). No `job_ids`: of whatever job, which
    costs a look at all that is due. How many there were. Where triggers follow the job, they follow these ends too.
    """
    if job_ids:
        condition, values = tx.among("job_id", sorted(job_ids))
        where = f"{condition} AND state IN ('due', 'running')"
    else:
        # Found without locks: the index of what is due holds what other takes have locked.
        found = tx.rows(
            "SELECT id FROM qsched_firings WHERE cluster = ? AND state = 'due' AND trigger_id = ? AND attempt > 0 ORDER BY id",
            *(tx.cluster, trigger_id),
        )
        if not found:
            return 0
        where, values = tx.among("id", [row[0] for row in found])
    if followed or not job_ids:
        ended = tx.rows(
            f"SELECT id, job_id FROM qsched_firings WHERE {where} AND trigger_id = ? AND scheduled_at < ?"
            f" AND state = 'due' AND attempt > 0 ORDER BY id{tx.dialect.for_update}",
            *(*values, trigger_id, slot),
        )
        follow_found(tx, [End(firing_id, job_id, FAILED) for firing_id, job_id in ended])
    return tx.run(
        "UPDATE qsched_firings SET state = 'failed', outcome = 'failed', finished_at = ?, retry_dropped = 'superseded',"
        f" note = ? WHERE {where} AND trigger_id = ? AND scheduled_at < ? AND state = 'due' AND attempt > 0",
        *(tx.now(), superseded_by(slot), *values, trigger_id, slot),
    ).rowcount


def superseded_by(slot: int) -> str:
    """The note of a retry that a later slot has overtaken."""
    return f"retry dropped: superseded by the slot at {rfc3339(slot)}"
