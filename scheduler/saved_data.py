"""What a job keeps from run to run, as people see it and take it away."""

from .errors import Refused, UnknownJob
from .store import definition_rows, job_rows
from .store.database import Store
from .store.tx import Tx


def forget_saved(store: Store, name: str, *, who: str | None = None) -> bool:
    """Have a job begin with nothing kept; False where it keeps nothing. Audited.

    Raises UnknownJob, or Refused while it runs: the end of that run would write it anew.
    """

    def work(tx: Tx) -> bool:
        row = job_rows.read_jobs(tx, [name], lock=True).get(name)
        if row is None:
            raise UnknownJob(f"no job {name!r}", hint="`qsched jobs list` shows all")
        kept = job_rows.read_saved(tx, [row.id])[row.id]
        running = job_rows.running_of(tx, row.id)
        if running is not None:
            hint = "wait for its end, or cancel it with `qsched firings cancel`"
            raise Refused(
                f"job {name!r} runs as firing {running}, whose end would write its data anew", hint=hint
            )
        job_rows.clear_saved(tx, row.id)
        definition_rows.write_audit(tx, who, "reset", [f"job {name}"], {})
        return bool(kept)

    return store.transaction("reset job", work)
