"""Continuations: triggers that follow the ends of a job; each final end that they wait for becomes one due firing of theirs.

Written in the transaction in which the followed firing ends, which can happen once: so is its continuation, whoever ended
it. What a paused follower would have run is a skipped row, as a slot would be.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from ...triggers.trigger import trigger_key
from ..effective import run_policies
from ..firing import DUE, FAILED, LOST, MAX_RECOVERIES, SKIPPED, SUCCEEDED, NewFiring, permit_key
from .firing_rows import insert_firings
from .take_rows import lock_clocks
from .tx import Tx

ANY = "any"
_FAILURES = (FAILED, LOST)


class End(NamedTuple):
    """A firing that has ended for good, after a run of its own."""

    firing_id: int
    job_id: int
    state: str


class _Follower(NamedTuple):
    """A trigger that follows, as its rows are under the lock of its clock."""

    id: int
    group_name: str
    name: str
    state: str
    paused_at: int | None
    group_paused_at: int | None
    after_job_id: int
    after_on: str
    job_id: int
    job_name: str
    job_spec: str
    job_loaded: str | None
    precedence: int
    overlap: str
    limit_key: str | None


def followers(tx: Tx, job_ids: Collection[int]) -> set[int]:
    """The triggers that follow these jobs: whoever is going to `follow` locks their clocks with all others, in order."""
    if not job_ids:
        return set()
    condition, values = tx.among("after_job_id", sorted(job_ids))
    rows = tx.rows(
        f"SELECT id FROM qsched_triggers WHERE {condition} AND after_job_id IS NOT NULL AND cluster = ?"
        " AND state <> 'retired'",
        *(*values, tx.cluster),
    )
    return {row[0] for row in rows}


def follow(tx: Tx, ends: Sequence[End], ids: Collection[int]) -> int:
    """Start what follows `ends`, of the triggers `ids`; answers how many firings that are."""
    if not ends or not ids:
        return 0
    condition, values = tx.among("t.id", sorted(ids))
    rows = tx.rows(
        "SELECT t.id, t.group_name, t.name, t.state, t.paused_at, g.paused_at, t.after_job_id, t.after_on, t.job_id,"
        " j.name, j.spec, j.loaded, c.precedence, c.overlap, c.limit_key FROM qsched_triggers t"
        " JOIN qsched_trigger_clocks c ON c.id = t.id JOIN qsched_jobs j ON j.id = t.job_id"
        " LEFT JOIN qsched_paused_groups g ON g.cluster = t.cluster AND g.group_name = t.group_name"
        f" WHERE {condition} AND t.after_job_id IS NOT NULL AND t.state <> 'retired' ORDER BY t.id",
        *values,
    )
    found = list(map(_Follower._make, rows))
    if not found:
        return 0
    defaults = tx.run("SELECT defaults FROM qsched_clusters WHERE id = ?", tx.cluster).scalar()
    fresh = [
        _firing(tx, end, follower, defaults)
        for end in sorted(ends)
        for follower in found
        if follower.after_job_id == end.job_id and _waits_for(follower.after_on, end.state)
    ]
    insert_firings(tx, fresh)
    ran = [firing.requested_trigger_id for firing in fresh if firing.state == DUE]
    for trigger_id in sorted(set(filter(None, ran))):
        tx.run(
            "UPDATE qsched_trigger_clocks SET fires = fires + ?, last_fire_at = ?, version = version + 1 WHERE id = ?",
            *(ran.count(trigger_id), tx.now(), trigger_id),
        )
    return len(fresh)


def follow_found(tx: Tx, ends: Sequence[End]) -> None:
    """`follow` for ends that are found behind the locks of firings, where nobody could lock with all other clocks.

    These come behind locks of higher ids: a deadlock would be the databases' to see, and repeated. But locked they must be: a
    trigger that is retired meanwhile would get a firing that nobody starts or cancels any more.
    """
    ids = followers(tx, {end.job_id for end in ends})
    lock_clocks(tx, ids)
    follow(tx, ends, ids)


def _waits_for(condition: str, state: str) -> bool:
    return condition == ANY or (state == SUCCEEDED if condition == SUCCEEDED else state in _FAILURES)


def _firing(tx: Tx, end: End, follower: _Follower, defaults: str | None) -> NewFiring:
    policies = run_policies(follower.job_spec, follower.job_loaded, defaults)
    stopped = _stopped(follower)
    now = tx.now()
    said: dict[str, Any] = {}
    if stopped is not None:
        said = {"state": SKIPPED, "reason": stopped[0], "finished_at": now, "misfire_decision": stopped[1]}
    return NewFiring(
        cluster=tx.cluster,
        trigger_id=None,
        requested_trigger_id=follower.id,
        job_id=follower.job_id,
        trigger_name=trigger_key(follower.group_name, follower.name),
        job_name=follower.job_name,
        scheduled_at=now,
        first_scheduled_at=now,
        covers=1,
        run_at=now,
        precedence=follower.precedence,
        noticed_at=now,
        request_recovery=int(bool(policies.request_recovery)),
        max_recoveries=MAX_RECOVERIES if policies.max_recoveries is None else policies.max_recoveries,
        permit_key=None if follower.overlap == "allow" else permit_key(follower.job_id),
        timeout=policies.timeout,
        request_key=f"after:{end.firing_id}:{follower.id}",
        of_firing=end.firing_id,
        limit_key=follower.limit_key,
        **{"state": DUE, "reason": "after", **said},
    )


def _stopped(follower: _Follower) -> tuple[str, str] | None:
    """(reason, decision) where the follower may not run now."""
    if follower.paused_at is not None or follower.group_paused_at is not None:
        return "paused", "skipped 1: the trigger was paused"
    if follower.state == "error":
        return "error", "skipped 1: the trigger was in error"
    return None
