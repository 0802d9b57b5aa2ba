"""A job row completed by the first node that loads the job's code, so that others can act without the code."""

from collections.abc import Mapping
from typing import Any

from ..triggers.errors import TriggerError
from .effective import job_policies, overlap_of
from .enqueue_order import said_by
from .firing import MAX_RECOVERIES
from .loaded_job import LoadedJob
from .store import definition_rows, job_rows
from .store.database import Store
from .store.tx import Tx


def publish_loaded(store: Store, name: str, job: LoadedJob) -> bool:
    """Say in the job's row what its decorator says, and give its triggers the overlap that follows.

    Written only where it differs; answers whether it was. YAML's policies are no part of it: they may change alone.
    """
    text = None if job.function is None else said_by(job.function)
    if text is None:
        return False
    if _is_said(store.read("loaded job", lambda tx: job_rows.read_jobs(tx, [name])).get(name), text):
        return False

    def write(tx: Tx) -> bool:
        row = job_rows.read_jobs(tx, [name], lock=True).get(name)
        if row is None or _is_said(row, text):
            return False
        job_rows.write_loaded(tx, row.id, text)
        defaults, _ = definition_rows.read_defaults(tx)
        job_rows.set_overlap(tx, {row.id: overlap_of(row.spec, text, defaults)})
        _complete_waiting(tx, row, text, defaults)
        return True

    return store.transaction("publish job", write)


def _complete_waiting(tx: Tx, row: job_rows.JobRow, text: str, defaults: Mapping[str, Any]) -> None:
    """A manual start that came first knows by now what a node's death means for it."""
    try:
        policies = job_policies(row.spec, text, defaults)
    except TriggerError:
        return  # whoever starts it says so
    most = MAX_RECOVERIES if policies.max_recoveries is None else policies.max_recoveries
    job_rows.complete_waiting(tx, row.id, bool(policies.request_recovery), most, policies.timeout)


def _is_said(row: job_rows.JobRow | None, text: str) -> bool:
    return row is None or (row.loaded or "{}") == text
