"""A firing that somebody asks for – by hand, enqueued, or once more – with the policies that its job has now."""

import json
from typing import Final, NamedTuple

from ..triggers.errors import TriggerError
from ..triggers.job import JobPolicies
from .effective import NO_OVERLAP_SAID, group_of, job_policies
from .errors import Refused
from .firing import DUE, MAX_RECOVERIES, NewFiring, limit_key, permit_key
from .store import definition_rows, job_rows, limit_rows
from .store.job_rows import JobRow
from .store.tx import Tx

MANUAL: Final = "manual"


class Places(NamedTuple):
    """The permits that a firing needs to run."""

    permit_key: str | None
    limit_key: str | None

    @classmethod
    def of(cls, job_id: int, overlap: str | None, limit: str | None) -> "Places":
        """Those of a job: one that does not allow overlap takes turns, and so does what is asked for."""
        return cls(None if overlap in (None, NO_OVERLAP_SAID) else permit_key(job_id), limit)


class Asked(NamedTuple):
    """What is asked for; instants in µs, `data` as JSON text."""

    reason: str
    job_id: int
    job_name: str
    request_key: str
    scheduled_at: int
    run_at: int
    precedence: int
    trigger_id: int | None = None
    """The trigger for which somebody asks; its slots are no matter of this firing."""
    trigger_name: str | None = None
    data: str | None = None
    of_firing: int | None = None


def policies_now(tx: Tx, name: str, job: JobRow | None) -> JobPolicies:
    """The job's effective policies; raises Refused for a row that cannot be read."""
    try:
        defaults, _ = definition_rows.read_defaults(tx)
        return JobPolicies() if job is None else job_policies(job.spec, job.loaded, defaults)
    except (TriggerError, json.JSONDecodeError) as error:
        raise Refused(f"job {name!r} cannot be read: {error}", hint="apply it again") from error


def places_of(tx: Tx, job: JobRow, overlap: str | None) -> Places:
    """What a requested firing of a job must have to run; its job's own permit is made where it is missing."""
    limit = limit_rows.read_limits(tx).get(group_of(job.spec))
    places = Places.of(job.id, overlap, None if limit is None else limit_key(limit.id))
    if places.permit_key is not None:
        job_rows.make_job_permits(tx, [job.id])
    return places


def asked_firing(tx: Tx, asked: Asked, policies: JobPolicies, places: Places) -> NewFiring:
    """The row to insert."""
    return NewFiring(
        cluster=tx.cluster,
        trigger_id=None,
        requested_trigger_id=asked.trigger_id,
        job_id=asked.job_id,
        trigger_name=asked.trigger_name,
        job_name=asked.job_name,
        scheduled_at=asked.scheduled_at,
        first_scheduled_at=asked.scheduled_at,
        covers=1,
        reason=asked.reason,
        state=DUE,
        run_at=asked.run_at,
        precedence=asked.precedence,
        noticed_at=tx.now(),
        request_recovery=int(bool(policies.request_recovery)),
        max_recoveries=MAX_RECOVERIES if policies.max_recoveries is None else policies.max_recoveries,
        permit_key=places.permit_key,
        limit_key=places.limit_key,
        timeout=policies.timeout,
        data=asked.data,
        request_key=asked.request_key,
        of_firing=asked.of_firing,
    )
