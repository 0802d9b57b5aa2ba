"""One job, as an answer: what it is, what triggers it, what runs of it now, and what became of its firings; only reads."""

from typing import Any

from ...triggers.trigger_text import trigger_key
from .database import Store
from .job_rows import read_saved
from .report_items import Item, instant
from .reports import job
from .status_rows import JobStatus, job_status_of
from .tx import Tx

_MOST = 1000

_TRIGGERS = (
    "SELECT group_name, name FROM qsched_triggers WHERE job_id = ? AND state <> 'retired'"
    f" ORDER BY group_name, name LIMIT {_MOST}"
)
_RUNNING = (
    "SELECT f.id, f.trigger_name, f.started_at, f.attempt, n.name FROM qsched_firings f"
    " LEFT JOIN qsched_nodes n ON n.incarnation = f.incarnation"
    f" WHERE f.job_id = ? AND f.state IN ('due', 'running') AND f.state = 'running' ORDER BY f.id LIMIT {_MOST}"
)


def job_status(store: Store, name: str) -> Item | None:
    """What became of a job's firings, pruned ones with them; None where no job has the name."""
    found = store.read("job status", lambda tx: _status(tx, name))
    return None if found is None else status_item(found[1])


def job_shown(store: Store, name: str) -> Item | None:
    """A job with its triggers (their keys), its running firings, its status and what it keeps from run to run.

    None where no job has the name.
    """
    item = job(store, name)
    if item is None:
        return None

    def work(tx: Tx) -> Item | None:
        found = _status(tx, name)
        if found is None:
            return None
        triggers = [trigger_key(*row) for row in tx.rows(_TRIGGERS, found[0])]
        running = [_running_item(row) for row in tx.rows(_RUNNING, found[0])]
        saved = read_saved(tx, [found[0]])[found[0]]
        own = {"trigger_names": triggers, "running_firings": running, "saved": saved}
        return {**item, **status_item(found[1]), **own}

    return store.read("show job", work)


def status_item(status: JobStatus) -> Item:
    """A status with its instants in RFC 3339."""
    return {
        "last_success_at": instant(status.last_success_at),
        "last_failure_at": instant(status.last_failure_at),
        "consecutive_failures": status.failures,
        "success_by_attempt": {str(attempt): count for attempt, count in sorted(status.successes.items())},
    }


def _status(tx: Tx, name: str) -> tuple[int, JobStatus] | None:
    job_id = tx.run("SELECT id FROM qsched_jobs WHERE cluster = ? AND name = ?", tx.cluster, name).scalar()
    return None if job_id is None else (int(job_id), job_status_of(tx, int(job_id)))


def _running_item(row: Any) -> Item:
    return {
        "id": row[0],
        "trigger": row[1],
        "started_at": instant(row[2]),
        "attempt": row[3],
        "node": row[4],
    }
