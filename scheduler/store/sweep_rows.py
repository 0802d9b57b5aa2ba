"""What no transaction of ours leaves behind and a hand can: states that contradict each other, found and put right.

Each look is one statement over rows that are few by nature: what runs, what is held, the head of what is due. What is put
right is compared again under its lock, so that a look that is out of date changes nothing.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ...triggers.instant import DAY, SECOND
from ...triggers.retry import LONGEST_DELAY
from ..firing import permit_key
from .job_rows import make_job_permits
from .permit_rows import hold_permits, lock_limits
from .trigger_rows import AWAITS_END
from .tx import Tx
from .waiting_retries import OF_ANOTHER_JOB

IDLE_PERMIT = "permit_of_what_does_not_run"
UNHELD = "running_without_its_permit"
UNHELD_OF_GROUP = "running_without_its_groups_permit"
LEFT_OVER = "permit_beyond_its_groups_limit"
NO_LIMIT = "due_of_a_group_without_permits"
NO_LIMIT_OF_CLOCK = "clock_of_a_group_without_permits"
MISSING_OF_JOB = "no_permit_row_of_a_job"
MISSING_OF_FIRING = "no_permit_row_of_a_firing"
CARRIED = "due_with_an_incarnation"
UNKNOWN_RETRY = "retry_its_clock_does_not_know"
BEHIND = "fence_behind_its_attempts"
FAR_OFF = "due_beyond_all_delays"

LEFT_FOR = SECOND
"""µs for which a node that leaves although a body runs holds that one's permit: so long its process may take to be gone."""

_STALE = 10 * SECOND
"""µs by which the instant that a look is given may lie behind: rescues come before it. And no more, for clocks are set back."""

_HEAD = 1000
"""Rows of what is due that a look examines."""


class Wrong(NamedTuple):
    """One contradiction: its kind, the row's id (a firing's, a job's, a trigger's, a node's), and what was seen of it."""

    kind: str
    id: int
    key: str | None
    n: int | None
    fence: int | None


_DUE = (
    "(SELECT id, cluster, trigger_id, fence, incarnation, attempt, recoveries, refires, permit_key, limit_key"
    " FROM qsched_firings"
    f" WHERE cluster = ? AND state = 'due' AND run_at <= ? LIMIT {_HEAD}) f"
)
_LOOKS = (
    (
        IDLE_PERMIT,
        "p.firing_id, p.permit_key, p.n, p.fence FROM qsched_permits p LEFT JOIN qsched_firings f ON f.id = p.firing_id"
        " WHERE p.cluster = ? AND p.firing_id IS NOT NULL"
        " AND (f.id IS NULL OR f.state <> 'running' OR p.fence IS NULL OR f.fence <> p.fence"
        " OR (COALESCE(f.permit_key, '') <> p.permit_key AND COALESCE(f.limit_key, '') <> p.permit_key))"
        # What has ended, or is due, within that time may be what a node has just left (`leaving.leave`).
        f" AND NOT (COALESCE(f.finished_at, 0) > ? - {LEFT_FOR} AND COALESCE(f.finished_at, 0) <= ? + {_STALE})"
        f" AND NOT (COALESCE(f.state, '') = 'due' AND f.run_at > ? AND f.run_at <= ? + {_STALE})",
        "cnnnn",
    ),
    (
        UNHELD,
        "f.id, f.permit_key, 0, f.fence FROM qsched_firings f LEFT JOIN qsched_permits p ON p.cluster = f.cluster"
        " AND p.permit_key = f.permit_key AND p.firing_id = f.id AND p.fence = f.fence WHERE f.cluster = ?"
        " AND f.state = 'running' AND f.permit_key IS NOT NULL AND p.firing_id IS NULL",
        "c",
    ),
    (
        UNHELD_OF_GROUP,
        "f.id, f.limit_key, 0, f.fence FROM qsched_firings f LEFT JOIN qsched_permits p ON p.cluster = f.cluster"
        " AND p.permit_key = f.limit_key AND p.firing_id = f.id AND p.fence = f.fence WHERE f.cluster = ?"
        " AND f.state = 'running' AND f.limit_key IS NOT NULL AND p.firing_id IS NULL"
        " AND EXISTS (SELECT 1 FROM qsched_permits g WHERE g.cluster = f.cluster AND g.permit_key = f.limit_key"
        " AND g.n >= 0 AND g.firing_id IS NULL)",
        "c",
    ),
    (
        LEFT_OVER,
        "p.n, p.permit_key, p.n, 0 FROM qsched_permits p WHERE p.cluster = ? AND p.n < 0 AND p.firing_id IS NULL",
        "c",
    ),
    (
        NO_LIMIT,
        f"f.id, f.limit_key, 0, f.fence FROM {_DUE} LEFT JOIN qsched_permits p ON p.cluster = f.cluster"
        " AND p.permit_key = f.limit_key AND p.n >= 0 WHERE f.limit_key IS NOT NULL AND p.permit_key IS NULL",
        "cn",
    ),
    (
        NO_LIMIT_OF_CLOCK,
        "c.id, c.limit_key, 0, 0 FROM (SELECT id, cluster, limit_key FROM qsched_trigger_clocks WHERE cluster = ?"
        f" AND next_run_at <= ? LIMIT {_HEAD}) c LEFT JOIN qsched_permits p ON p.cluster = c.cluster"
        " AND p.permit_key = c.limit_key AND p.n >= 0 WHERE c.limit_key IS NOT NULL AND p.permit_key IS NULL",
        "cn",
    ),
    (
        MISSING_OF_JOB,
        "c.job_id, NULL, 0, 0 FROM (SELECT job_id, cluster, overlap FROM qsched_trigger_clocks WHERE cluster = ?"
        f" AND next_run_at <= ? LIMIT {_HEAD}) c LEFT JOIN qsched_permits p ON p.cluster = c.cluster"
        " AND p.job_id = c.job_id WHERE c.overlap <> 'allow' AND p.job_id IS NULL",
        "cn",
    ),
    (
        MISSING_OF_FIRING,
        f"f.id, f.permit_key, 0, f.fence FROM {_DUE} LEFT JOIN qsched_permits p ON p.cluster = f.cluster"
        " AND p.permit_key = f.permit_key AND p.n = 0 WHERE f.permit_key IS NOT NULL AND p.permit_key IS NULL",
        "cn",
    ),
    (CARRIED, f"f.id, NULL, 0, f.fence FROM {_DUE} WHERE f.incarnation IS NOT NULL", "cn"),
    (
        UNKNOWN_RETRY,
        f"f.trigger_id, NULL, 0, 0 FROM {_DUE} JOIN qsched_trigger_clocks c ON c.id = f.trigger_id"
        " WHERE f.attempt > 0 AND c.retrying = 0",
        "cn",
    ),
    (
        BEHIND,
        f"f.id, NULL, 0, f.fence FROM {_DUE} WHERE (f.attempt > 0 OR f.recoveries > 0 OR f.refires > 0)"
        " AND EXISTS (SELECT 1 FROM qsched_attempts a WHERE a.firing_id = f.id AND a.fence > f.fence)",
        "cn",
    ),
    (
        FAR_OFF,
        # A slot's own row is due at once when it is written; only a retry, or what somebody asked for later, is not. But a
        # database whose clock ran ahead for a while decided slots that are still to come: they wait for their time.
        "f.id, NULL, 0, f.fence FROM (SELECT id, fence, trigger_id, attempt, run_at, scheduled_at FROM qsched_firings"
        f" WHERE cluster = ? AND state = 'due' AND run_at > ? LIMIT {_HEAD}) f WHERE f.run_at <> f.scheduled_at"
        f" AND (f.run_at > f.scheduled_at + {2 * LONGEST_DELAY} OR (f.trigger_id IS NOT NULL AND f.attempt = 0))",
        "cf",
    ),
)
_LOOK = " UNION ALL ".join(f"SELECT '{kind}', {text}" for kind, text, _ in _LOOKS)


def look_for_wrong(tx: Tx, now: int) -> list[Wrong]:
    """What contradicts itself among firings and permits, in one statement; `now` may be a moment old."""
    given = {"c": tx.cluster, "n": now, "f": now + DAY}
    values = [given[mark] for _, _, marks in _LOOKS for mark in marks]
    return [Wrong._make(row) for row in tx.rows(_LOOK, *values)]


def put_right(tx: Tx, wrong: Sequence[Wrong]) -> int:
    """Mend what was found, all of one kind, where it is still so; answers how many rows that were."""
    return sum(_MENDS[each.kind](tx, each) for each in sorted(wrong))


def _free_permit(tx: Tx, wrong: Wrong) -> int:
    """A firing that does not run under a fence never will again: that is compared once more by firing and fence."""
    same, values = ("fence IS NULL", ()) if wrong.fence is None else ("fence = ?", (wrong.fence,))
    return tx.run(
        "UPDATE qsched_permits SET firing_id = NULL, fence = NULL"
        f" WHERE cluster = ? AND permit_key = ? AND n = ? AND firing_id = ? AND {same}",
        *(tx.cluster, wrong.key, wrong.n, wrong.id, *values),
    ).rowcount


def _hold_permit(tx: Tx, wrong: Wrong) -> int:
    """Give a running firing the permit it should have; locked first, so that its end comes before or after this."""
    row = tx.run(
        "SELECT job_id FROM qsched_firings WHERE id = ? AND fence = ? AND state = 'running' AND permit_key = ?"
        + tx.dialect.for_update,
        *(wrong.id, wrong.fence, wrong.key),
    ).first()
    if row is None:
        return 0
    _make_permit(tx, str(wrong.key), row[0])
    return tx.run(
        "UPDATE qsched_permits SET firing_id = ?, fence = ? WHERE cluster = ? AND permit_key = ? AND n = 0"
        " AND firing_id IS NULL",
        *(wrong.id, wrong.fence, tx.cluster, wrong.key),
    ).rowcount


def _hold_one_of_group(tx: Tx, wrong: Wrong) -> int:
    """The same for a limited group, where it has one that is free; else the limit is passed by one until this ends."""
    row = tx.run(
        "SELECT id FROM qsched_firings WHERE id = ? AND fence = ? AND state = 'running' AND limit_key = ?"
        + tx.dialect.for_update,
        *(wrong.id, wrong.fence, wrong.key),
    ).first()
    free = lock_limits(tx, {str(wrong.key): 1})[str(wrong.key)] if row is not None else []
    if free:
        hold_permits(tx, [(str(wrong.key), free[0], wrong.id, wrong.fence or 0)])
    return len(free)


def _drop_left_over(tx: Tx, wrong: Wrong) -> int:
    return tx.run(
        "DELETE FROM qsched_permits WHERE cluster = ? AND permit_key = ? AND n = ? AND n < 0 AND firing_id IS NULL",
        *(tx.cluster, wrong.key, wrong.n),
    ).rowcount


def _drop_limit(tx: Tx, wrong: Wrong) -> int:
    return tx.run(
        "UPDATE qsched_firings SET limit_key = NULL WHERE id = ? AND fence = ? AND state = 'due' AND limit_key = ?",
        *(wrong.id, wrong.fence, wrong.key),
    ).rowcount


def _drop_limit_of_clock(tx: Tx, wrong: Wrong) -> int:
    return tx.run(
        "UPDATE qsched_trigger_clocks SET limit_key = NULL, version = version + 1 WHERE id = ? AND limit_key = ?",
        *(wrong.id, wrong.key),
    ).rowcount


def _make_of_job(tx: Tx, wrong: Wrong) -> int:
    make_job_permits(tx, [wrong.id])
    tx.run(  # one that is there under its key, and says another job
        "UPDATE qsched_permits SET job_id = ? WHERE cluster = ? AND permit_key = ? AND n = 0",
        *(wrong.id, tx.cluster, permit_key(wrong.id)),
    )
    return 1


def _make_of_firing(tx: Tx, wrong: Wrong) -> int:
    job = tx.run("SELECT job_id FROM qsched_firings WHERE id = ?", wrong.id).scalar()
    if job is None:
        return 0
    _make_permit(tx, str(wrong.key), job)
    return 1


def _make_permit(tx: Tx, key: str, job_id: int) -> None:
    from .ledger_tables import permits

    of_job = job_id if key == permit_key(job_id) else None
    tx.insert_missing(permits, ("cluster", "permit_key", "n", "job_id"), [(tx.cluster, key, 0, of_job)])


def _drop_incarnation(tx: Tx, wrong: Wrong) -> int:
    return tx.run(
        "UPDATE qsched_firings SET incarnation = NULL WHERE id = ? AND fence = ? AND state = 'due'",
        *(wrong.id, wrong.fence),
    ).rowcount


def _know_retry(tx: Tx, wrong: Wrong) -> int:
    return tx.run(
        # Whose job it is of is not known here: the wider look is always right.
        f"UPDATE qsched_trigger_clocks SET retrying = {OF_ANOTHER_JOB}, version = version + 1"
        " WHERE id = ? AND retrying = 0",
        wrong.id,
    ).rowcount


def _pass_attempts(tx: Tx, wrong: Wrong) -> int:
    last = tx.run("SELECT MAX(fence) FROM qsched_attempts WHERE firing_id = ?", wrong.id).scalar()
    return tx.run(
        "UPDATE qsched_firings SET fence = ? WHERE id = ? AND fence = ? AND state = 'due'",
        *(last, wrong.id, wrong.fence),
    ).rowcount


def _bring_near(tx: Tx, wrong: Wrong) -> int:
    """Due now, and never before its slot."""
    return tx.run(
        "UPDATE qsched_firings SET run_at = CASE WHEN scheduled_at > ? THEN scheduled_at ELSE ? END"
        " WHERE id = ? AND fence = ? AND state = 'due'",
        *(tx.now(), tx.now(), wrong.id, wrong.fence),
    ).rowcount


_MENDS = {
    IDLE_PERMIT: _free_permit,
    UNHELD: _hold_permit,
    UNHELD_OF_GROUP: _hold_one_of_group,
    LEFT_OVER: _drop_left_over,
    NO_LIMIT: _drop_limit,
    NO_LIMIT_OF_CLOCK: _drop_limit_of_clock,
    MISSING_OF_JOB: _make_of_job,
    MISSING_OF_FIRING: _make_of_firing,
    CARRIED: _drop_incarnation,
    UNKNOWN_RETRY: _know_retry,
    BEHIND: _pass_attempts,
    FAR_OFF: _bring_near,
}


# -- triggers --------------------------------------------------------------------------------------------------------------

_SPAN = 2000
"""Ids of triggers that one look examines."""
_FAR = 400 * DAY
"""No sooner than this a next fire is looked at for being too late."""

_TRIGGERS = (
    "SELECT 0, MAX(id) FROM qsched_triggers UNION ALL SELECT 1, t.id FROM qsched_triggers t"
    " LEFT JOIN qsched_trigger_clocks c ON c.id = t.id"
    " LEFT JOIN qsched_paused_groups g ON g.cluster = t.cluster AND g.group_name = t.group_name"
    " WHERE t.cluster = ? AND t.id > ? AND t.id <= ? AND (c.id IS NULL OR c.cluster <> t.cluster OR c.job_id <> t.job_id"
    " OR t.state NOT IN ('waiting', 'done', 'error', 'retired')"
    " OR (t.state = 'waiting' AND t.paused_at IS NULL AND g.paused_at IS NULL AND c.next_run_at IS NULL"
    f" AND NOT {AWAITS_END})"
    " OR (c.next_run_at IS NOT NULL AND (t.state <> 'waiting' OR t.paused_at IS NOT NULL OR g.paused_at IS NOT NULL))"
    f" OR (t.state = 'waiting' AND ((c.next_fire_at IS NULL AND NOT {AWAITS_END}) OR c.next_fire_at <= c.watermark"
    " OR c.next_run_at < c.next_fire_at OR c.next_run_at > c.next_fire_at + COALESCE(c.jitter, 0)"
    " OR c.next_fire_at > ?)))"
)


def look_for_wrong_clocks(tx: Tx, after: int, now: int) -> tuple[set[int], int]:
    """(triggers whose clock seems to contradict them, where to go on) of a span of ids behind `after`."""
    rows = tx.rows(_TRIGGERS, tx.cluster, after, after + _SPAN, now + _FAR)
    last = next((row[1] for row in rows if row[0] == 0), None) or 0
    return {row[1] for row in rows if row[0] == 1}, 0 if after + _SPAN >= last else after + _SPAN


def misplaced_clocks(tx: Tx, ids: Collection[int]) -> dict[int, int]:
    """{trigger id: its job} of those whose clock names another cluster or job."""
    condition, values = tx.among("t.id", sorted(ids))
    rows = tx.rows(
        "SELECT t.id, t.job_id FROM qsched_triggers t JOIN qsched_trigger_clocks c ON c.id = t.id"
        f" WHERE {condition} AND (c.cluster <> t.cluster OR c.job_id <> t.job_id)",
        *values,
    )
    return {row[0]: row[1] for row in rows}


def last_decided(tx: Tx, trigger_id: int) -> int | None:
    """The last slot of a trigger that has its row in the ledger."""
    slot = tx.run("SELECT MAX(scheduled_at) FROM qsched_firings WHERE trigger_id = ?", trigger_id).scalar()
    return None if slot is None else int(slot)


def insert_clock(tx: Tx, values: tuple[int | str | None, ...]) -> None:
    """A clock where there is none: (id, job id, precedence, overlap, definition's hash, skip_after, next fire, next run,
    watermark, jitter, delay)."""
    from .tables import trigger_clocks

    columns = (
        *("cluster", "id", "job_id", "precedence", "overlap", "definition_hash", "skip_after"),
        *("next_fire_at", "next_run_at", "watermark", "jitter", "delay"),
        *("version", "fires", "misfires", "retrying"),
    )
    tx.insert_missing(trigger_clocks, columns, [(tx.cluster, *values, 1, 0, 0, 0)])


def place_clock(tx: Tx, trigger_id: int, job_id: int) -> None:
    """Give a (locked) clock the cluster and the job of its trigger."""
    tx.run(
        "UPDATE qsched_trigger_clocks SET cluster = ?, job_id = ?, version = version + 1 WHERE id = ?",
        *(tx.cluster, job_id, trigger_id),
    )


# -- nodes -----------------------------------------------------------------------------------------------------------------


def shorten_lease(tx: Tx, incarnation: int, lease_until: int, lease: int) -> bool:
    """End a lease that no node wrote so far ahead: a `lease` (µs) after the node's last check-in."""
    return (
        tx.run(
            "UPDATE qsched_nodes SET lease_until = checked_in_at + ? WHERE incarnation = ? AND lease_until = ?",
            *(lease, incarnation, lease_until),
        ).rowcount
        == 1
    )
