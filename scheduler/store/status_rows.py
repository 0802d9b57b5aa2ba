"""A job's status that outlives its history: what the ledger still says, and what pruned rows left behind.

Invariant of a row of qsched_job_status: `failures` are the pruned firings that failed later than its `last_success_at`. What is
there is true of the job for ever; the ledger's later success alone makes `failures` void.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..firing import FAILED, LOST, SUCCEEDED
from .prune_rows import HEAVY, Gone
from .tables import job_status
from .tx import Tx

_TRIGGERS = 500
_NEWEST = 100
"""Successes of a trigger among which the one that ended last is looked for: bodies may overlap, but not so far."""

_LOOKS = 10

_ENQUEUED = "job_id = ? AND trigger_id IS NULL AND requested_trigger_id IS NULL"
_VALUES = ("last_success_at", "last_failure_at", "failures", "successes")


@dataclass(slots=True)
class JobStatus:
    """What became of a job's firings; instants in µs."""

    last_success_at: int | None = None
    last_failure_at: int | None = None
    failures: int = 0
    """Since the last success: failed and lost firings, by the time they ended."""
    successes: dict[int, int] = field(default_factory=dict)
    """{attempt: firings that succeeded with it}; 0 is the first run."""


# -- folding ---------------------------------------------------------------------------------------------------------------


def failing_jobs(rows: Sequence[tuple[int, str]]) -> set[int]:
    """Of rows (job, state), the jobs with a failure."""
    return {job_id for job_id, state in rows if state in HEAVY}


def last_success(tx: Tx, job_id: int, triggers: Sequence[int], *, enqueued: bool) -> int:
    """When the last success of a job in the ledger ended, looked for among the newest of each of these triggers (and of what was
    enqueued); 0 where there is none."""
    lines = [("trigger_id = ?", "scheduled_at", each) for each in triggers]
    lines += [("requested_trigger_id = ?", "id + 0", each) for each in triggers]
    lines += [(_ENQUEUED, "id", job_id)] if enqueued else []
    ends = [
        tx.run(
            "SELECT MAX(ended) FROM (SELECT COALESCE(finished_at, noticed_at) AS ended FROM qsched_firings"
            f" WHERE {line} AND job_id = ? AND state = 'succeeded' ORDER BY {place} DESC LIMIT {_NEWEST}) newest",
            *(value, job_id),
        ).scalar()
        for line, place, value in lines
    ]
    return max((int(end) for end in ends if end is not None), default=0)


def fold(tx: Tx, gone: Sequence[Gone], last_success: Mapping[int, int]) -> None:
    """Put deleted rows into their jobs' status; `last_success` ({job: instant}) is in the ledger, of the jobs that failed.

    In the transaction that deletes them: they are counted in the ledger or here, never twice and never nowhere.
    """
    told: dict[int, list[Gone]] = {}
    for row in gone:
        if row.state in (SUCCEEDED, FAILED, LOST):
            told.setdefault(row.job_id, []).append(row)
    if not told:
        return
    new = [(job_id, tx.cluster, 0, "{}") for job_id in sorted(told)]
    tx.insert_missing(job_status, ("job_id", "cluster", "failures", "successes"), new)
    known = _pruned(tx, told, lock=tx.dialect.for_update)
    changed = [
        (job_id, _folded(known[job_id], told[job_id], last_success.get(job_id))) for job_id in sorted(told)
    ]
    rows = [
        (job_id, each.last_success_at, each.last_failure_at, each.failures, _written(each.successes))
        for job_id, each in changed
    ]
    tx.update(job_status, ("job_id",), _VALUES, rows)


def _folded(known: JobStatus, gone: Sequence[Gone], last_success: int | None) -> JobStatus:
    successes = Counter(known.successes)
    successes.update(row.attempt for row in gone if row.state == SUCCEEDED)
    failed = [row.ended_at for row in gone if row.state in HEAVY]
    succeeded = [row.ended_at for row in gone if row.state == SUCCEEDED]
    after = _latest(known.last_success_at, last_success, *succeeded)
    return JobStatus(
        after,
        _latest(known.last_failure_at, *failed),
        _still(known, after) + sum(after is None or end > after for end in failed),
        dict(successes),
    )


def _still(known: JobStatus, last_success: int | None) -> int:
    """The pruned failures that no success has made void: one that is known now, and was not when they were counted."""
    void = (
        last_success is not None
        and last_success != known.last_success_at
        and last_success >= (known.last_failure_at or 0)
    )
    return 0 if void else known.failures


def _latest(*instants: int | None) -> int | None:
    return max((each for each in instants if each is not None), default=None)


def _written(successes: Mapping[int, int]) -> str:
    return json.dumps({str(attempt): successes[attempt] for attempt in sorted(successes)})


def _pruned(tx: Tx, job_ids: Collection[int], lock: str = "") -> dict[int, JobStatus]:
    condition, values = tx.among("job_id", sorted(job_ids))
    text = (
        f"SELECT job_id, {', '.join(_VALUES)} FROM qsched_job_status WHERE {condition} ORDER BY job_id{lock}"
    )
    return {row[0]: JobStatus(row[1], row[2], row[3], _read(row[4])) for row in tx.rows(text, *values)}


def _read(text: str) -> dict[int, int]:
    try:
        return {int(attempt): int(count) for attempt, count in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        return {}  # broken by a hand: counted anew


# -- reading ---------------------------------------------------------------------------------------------------------------


def job_status_of(tx: Tx, job_id: int) -> JobStatus:
    """The status of a job: what was pruned and what the ledger holds. Reads all rows of the job's triggers."""
    before = _pruned(tx, [job_id]).get(job_id)
    for _ in range(_LOOKS):
        status = _with_ledger(tx, job_id, before or JobStatus())
        seen, before = before, _pruned(tx, [job_id]).get(job_id)
        if seen == before:
            break
        # A prune came between the two: what it folded would be counted twice, or not at all.
    return status


def _with_ledger(tx: Tx, job_id: int, pruned: JobStatus) -> JobStatus:
    successes = Counter(pruned.successes)
    success, failure = pruned.last_success_at, pruned.last_failure_at
    lines = list(_lines(tx, job_id))
    for line, values in lines:
        for state, attempt, count, ended in tx.rows(
            "SELECT state, attempt, COUNT(*), MAX(COALESCE(finished_at, noticed_at)) FROM qsched_firings"
            f" WHERE {line} AND job_id = ? AND state IN ('succeeded', 'failed', 'lost') GROUP BY state, attempt",
            *(*values, job_id),
        ):
            if state == SUCCEEDED:
                success = _latest(success, ended)
                successes[attempt] += count
            else:
                failure = _latest(failure, ended)
    failures = _still(pruned, success)
    if failure is not None and (success is None or failure > success):
        for line, values in lines:
            failures += tx.run(
                f"SELECT COUNT(*) FROM qsched_firings WHERE {line} AND job_id = ? AND state IN ('failed', 'lost')"
                " AND COALESCE(finished_at, noticed_at) > ?",
                *(*values, job_id, -1 if success is None else success),
            ).scalar_one()
    return JobStatus(success, failure, failures, dict(sorted(successes.items())))


def _lines(tx: Tx, job_id: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """(condition, values) of each part of the ledger that holds rows of the job."""
    triggers = triggers_of(tx, job_id)
    for start in range(0, len(triggers), _TRIGGERS):
        chunk = triggers[start : start + _TRIGGERS]
        for column in ("trigger_id", "requested_trigger_id"):
            yield tx.among(column, chunk)
    yield _ENQUEUED, (job_id,)


def triggers_of(tx: Tx, job_id: int) -> list[int]:
    """The triggers that a job has, retired ones too."""
    return [row[0] for row in tx.rows("SELECT id FROM qsched_triggers WHERE job_id = ? ORDER BY id", job_id)]
