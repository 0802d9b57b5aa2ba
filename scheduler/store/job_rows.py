"""Job rows: what YAML or code declared, what a node found when it loaded the function, and what follows for its triggers."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ..firing import permit_key
from .ledger_tables import firings, permits
from .tables import jobs, trigger_clocks
from .tx import Tx

ACTIVE = "active"
RETIRED = "retired"


class JobHead(NamedTuple):
    """What says whether a job changed."""

    id: int
    name: str
    namespace: str
    state: str
    digest: str


class JobRow(NamedTuple):
    """A job with its definition; `spec` and `loaded` are JSON texts."""

    id: int
    name: str
    namespace: str
    state: str
    digest: str
    spec: str
    loaded: str | None


_HEAD = "id, name, namespace, state, definition_digest"
_WHEN = ("created_at", "updated_at")


def job_heads(tx: Tx, namespace: str, names: Collection[str]) -> dict[str, JobHead]:
    """The jobs of `namespace`, and those of any namespace that have one of `names`."""
    rows = tx.run(
        f"SELECT {_HEAD} FROM qsched_jobs WHERE cluster = ? AND namespace = ?", tx.cluster, namespace
    )
    found = {row[1]: JobHead(*row) for row in rows}
    for chunk in _chunks(sorted(set(names) - found.keys())):
        condition, values = tx.among("name", chunk)
        rows = tx.run(
            f"SELECT {_HEAD} FROM qsched_jobs WHERE cluster = ? AND {condition}", tx.cluster, *values
        )
        found.update((row[1], JobHead(*row)) for row in rows)
    return found


def read_jobs(tx: Tx, names: Collection[str], *, lock: bool = False) -> dict[str, JobRow]:
    """{name: row} of those that there are; locked until commit, ids ascending, when asked."""
    found: dict[str, JobRow] = {}
    for chunk in _chunks(sorted(set(names))):
        condition, values = tx.among("name", chunk)
        rows = tx.run(
            f"SELECT {_HEAD}, spec, loaded FROM qsched_jobs WHERE cluster = ? AND {condition} ORDER BY id"
            + (tx.dialect.for_update if lock else ""),
            *(tx.cluster, *values),
        )
        found.update((row[1], JobRow(*row)) for row in rows)
    return found


def all_jobs(tx: Tx, *, lock: bool = False) -> list[JobRow]:
    """Every active job of the cluster; for the rare change of what holds for all (the cluster's defaults)."""
    rows = tx.run(
        f"SELECT {_HEAD}, spec, loaded FROM qsched_jobs WHERE cluster = ? AND state = ? ORDER BY id"
        + (tx.dialect.for_update if lock else ""),
        *(tx.cluster, ACTIVE),
    )
    return [JobRow(*row) for row in rows]


def hold_job(tx: Tx, job_id: int) -> JobRow:
    """The job as it is now; who would change it waits until commit: what is asked for meanwhile has its policies."""
    rows = tx.run(
        f"SELECT {_HEAD}, spec, loaded FROM qsched_jobs WHERE id = ?" + tx.dialect.share_alive, job_id
    )
    return JobRow(*rows.one())


def read_job_by_id(tx: Tx, job_id: int) -> JobRow | None:
    """The job of that id."""
    row = tx.run(f"SELECT {_HEAD}, spec, loaded FROM qsched_jobs WHERE id = ?", job_id).one_or_none()
    return None if row is None else JobRow(*row)


def make_job(tx: Tx, row: tuple[str, str, str, str], loaded: str | None) -> JobRow:
    """A new job from (name, namespace, spec, digest), or the one that somebody else has made meanwhile; aborts nothing."""
    now = tx.now()
    columns = (*("cluster", "name", "namespace", "spec", "definition_digest", "loaded", "state"), *_WHEN)
    made = tx.insert_if_free(jobs, columns, (tx.cluster, *row, loaded, ACTIVE, now, now))
    name, namespace, spec, digest = row
    if made is not None:
        return JobRow(made, name, namespace, ACTIVE, digest, spec, loaded)
    # Locked, so that a caller's transaction sees what was committed behind its snapshot.
    rows = tx.run(
        f"SELECT {_HEAD}, spec, loaded FROM qsched_jobs WHERE cluster = ? AND name = ?"
        + tx.dialect.share_alive,
        *(tx.cluster, name),
    )
    return JobRow(*rows.one())


def revive_job(tx: Tx, job_id: int) -> None:
    """A job of the code lives again."""
    tx.run("UPDATE qsched_jobs SET state = ?, updated_at = ? WHERE id = ?", ACTIVE, tx.now(), job_id)


def active_names(tx: Tx) -> list[str]:
    """The names of the jobs that are not retired: what a mistyped one may have meant."""
    rows = tx.run("SELECT name FROM qsched_jobs WHERE cluster = ? AND state = ?", tx.cluster, ACTIVE)
    return [row[0] for row in rows]


def insert_jobs(tx: Tx, rows: Sequence[tuple[str, str, str, str]]) -> list[int]:
    """New jobs from (name, namespace, spec, digest); answers their ids in order."""
    columns = (
        "cluster",
        "name",
        "namespace",
        "state",
        "spec",
        "definition_digest",
        "created_at",
        "updated_at",
    )
    now = tx.now()
    return tx.insert_ids(
        jobs,
        columns,
        [
            (tx.cluster, name, namespace, ACTIVE, spec, digest, now, now)
            for name, namespace, spec, digest in rows
        ],
    )


def update_jobs(tx: Tx, rows: Sequence[tuple[int, str, str, str]]) -> None:
    """Give (locked) jobs a new definition: (id, namespace, spec, digest); a retired one lives again."""
    now = tx.now()
    tx.update(
        jobs,
        ("id",),
        ("namespace", "state", "spec", "definition_digest", "updated_at"),
        [(job_id, namespace, ACTIVE, spec, digest, now) for job_id, namespace, spec, digest in rows],
    )


def retire_jobs(tx: Tx, ids: Sequence[int]) -> None:
    """Retire (locked) jobs that nothing uses any more; their rows and histories stay."""
    now = tx.now()
    tx.update(jobs, ("id",), ("state", "updated_at"), [(job_id, RETIRED, now) for job_id in ids])


def triggers_using(tx: Tx, ids: Collection[int]) -> dict[int, set[int]]:
    """{job id: ids of the triggers that use it and are not retired}."""
    using: dict[int, set[int]] = {}
    for chunk in _chunks(sorted(ids)):
        condition, values = tx.among("job_id", chunk)
        rows = tx.run(
            f"SELECT job_id, id FROM qsched_triggers WHERE cluster = ? AND state <> 'retired' AND {condition}"
            " UNION SELECT after_job_id, id FROM qsched_triggers WHERE cluster = ? AND state <> 'retired'"
            f" AND {condition.replace('job_id', 'after_job_id')}",
            *(tx.cluster, *values, tx.cluster, *values),
        )
        for job_id, trigger_id in rows:
            using.setdefault(job_id, set()).add(trigger_id)
    return using


def set_overlap(tx: Tx, overlaps: Mapping[int, str]) -> int:
    """Give {(locked) job id: its effective overlap} to the clocks of its triggers and make its permit, where it differs.

    Answers how many clocks changed. Locks the clocks it changes, ids ascending.
    """
    make_job_permits(tx, [job_id for job_id, overlap in overlaps.items() if overlap != "allow"])
    stale: dict[int, tuple[int, str]] = {}
    for chunk in _chunks(sorted(overlaps)):
        condition, values = tx.among("t.job_id", chunk)
        rows = tx.run(
            "SELECT c.id, c.version, c.overlap, t.job_id FROM qsched_triggers t"
            f" JOIN qsched_trigger_clocks c ON c.id = t.id WHERE {condition}",
            *values,
        )
        stale.update((row[0], (row[3], row[2])) for row in rows if row[2] != overlaps[row[3]])
    for ids in _chunks(sorted(stale)):
        condition, values = tx.among("id", ids)
        locked = tx.run(
            f"SELECT id, version FROM qsched_trigger_clocks WHERE {condition} ORDER BY id{tx.dialect.for_update}",
            *values,
        ).all()
        tx.update(
            trigger_clocks,
            ("id", "version"),
            ("version", "overlap"),
            [(row[0], row[1], row[1] + 1, overlaps[stale[row[0]][0]]) for row in locked],
        )
    for job_id in sorted({job for job, before in stale.values() if before == "allow"}):
        _queue_what_waits(tx, job_id)
    _queue_what_was_enqueued(tx, [job_id for job_id, overlap in overlaps.items() if overlap != "allow"])
    return len(stale)


def _queue_what_waits(tx: Tx, job_id: int) -> None:
    """What was decided while the job allowed overlap takes turns from now on.

    What runs already has no permit to give back; a take sees that it runs (`permit_rows.lock_permits`).
    """
    tx.run(
        "UPDATE qsched_firings SET permit_key = ?"
        " WHERE job_id = ? AND state IN ('due', 'running') AND state = 'due'",
        permit_key(job_id),
        job_id,
    )


def _queue_what_was_enqueued(tx: Tx, job_ids: Sequence[int]) -> None:
    """Likewise what no trigger asked for: there is no clock that tells which overlap it was asked under."""
    for chunk in _chunks(sorted(job_ids)):
        condition, values = tx.among("job_id", chunk)
        found = tx.rows(
            f"SELECT id, job_id FROM qsched_firings WHERE {condition} AND state IN ('due', 'running') AND state = 'due'"
            " AND trigger_id IS NULL AND requested_trigger_id IS NULL AND permit_key IS NULL"
            f" ORDER BY id{tx.dialect.for_update}",
            *values,
        )
        tx.update(firings, ("id",), ("permit_key",), [(row[0], permit_key(row[1])) for row in found])


def complete_waiting(
    tx: Tx, job_id: int, request_recovery: bool, max_recoveries: int, timeout: int | None
) -> None:
    """Give what was asked for before any node knew the job's code, and has not begun, the policies of that code."""
    waiting = tx.rows(
        "SELECT id FROM qsched_firings WHERE job_id = ? AND state IN ('due', 'running') AND state = 'due'"
        f" AND attempt = 0 AND fence = 0 AND trigger_id IS NULL ORDER BY id{tx.dialect.for_update}",
        job_id,
    )
    if waiting:
        condition, values = tx.among("id", [row[0] for row in waiting])
        tx.run(
            f"UPDATE qsched_firings SET request_recovery = ?, max_recoveries = ?, timeout = ? WHERE {condition}",
            *(int(request_recovery), max_recoveries, timeout, *values),
        )


def make_job_permits(tx: Tx, job_ids: Sequence[int]) -> None:
    """The permit rows of no-overlap jobs, where they are missing."""
    rows = [(tx.cluster, permit_key(job_id), 0, job_id) for job_id in sorted(set(job_ids))]
    missing = set(job_ids)
    for chunk in _chunks(sorted(missing)):
        condition, values = tx.among("job_id", chunk)
        for row in tx.run(
            f"SELECT job_id FROM qsched_permits WHERE cluster = ? AND {condition}", tx.cluster, *values
        ):
            missing.discard(row[0])
    tx.insert_missing(
        permits, ("cluster", "permit_key", "n", "job_id"), [row for row in rows if row[3] in missing]
    )


def mark_followed(tx: Tx, job_id: int) -> None:
    """Have nodes look at how a (locked) job's firings end: triggers follow them. Those that know the job read it again."""
    tx.run(
        "UPDATE qsched_jobs SET followed = 1, updated_at = ? WHERE id = ? AND followed = 0", tx.now(), job_id
    )


def read_saved(tx: Tx, job_ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """{job id: what its runs saved}; of a text that cannot be read nothing, which the next run's settle replaces."""
    condition, values = tx.among("id", sorted(job_ids))
    rows = tx.rows(f"SELECT id, saved_data FROM qsched_jobs WHERE {condition}", *values)
    return {row[0]: _mapping(row[1]) for row in rows}


def clear_saved(tx: Tx, job_id: int) -> None:
    """Let a (locked) job keep nothing."""
    tx.run("UPDATE qsched_jobs SET saved_data = NULL WHERE id = ?", job_id)


def running_of(tx: Tx, job_id: int) -> int | None:
    """A firing of the job that runs now."""
    found: int | None = tx.run(
        "SELECT MIN(id) FROM qsched_firings WHERE job_id = ? AND state IN ('due', 'running') AND state = 'running'",
        job_id,
    ).scalar()
    return found


def _mapping(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def write_loaded(tx: Tx, job_id: int, loaded: str) -> None:
    """Remember what the code of a (locked) job says; nodes that know the job read it again."""
    tx.run("UPDATE qsched_jobs SET loaded = ?, updated_at = ? WHERE id = ?", loaded, tx.now(), job_id)


def _chunks(values: Sequence[Any], size: int = 500) -> list[Sequence[Any]]:
    return [values[start : start + size] for start in range(0, len(values), size)]
