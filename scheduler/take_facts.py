"""The facts of a take that was committed, for whoever listens on its node."""

from collections.abc import Iterator

from .context import RunRequest
from .events import Event, Fact
from .firing import FAILED, RUNNING, NewFiring
from .taken import Taken
from .trail import FiringRow, trail


def facts_of_take(taken: Taken, node: str) -> Iterator[Event]:
    """What was planned, skipped, misfired and started, and what can never run, in that order."""
    ids, rows = taken.new
    for number, row in zip(ids, rows, strict=True):
        yield from trail(_as_read(number, row, node), ())
    new = set(ids)
    for request in taken.requests:
        if request.firing_id not in new:
            yield _started(request)
    for firing, reason in taken.failed.items():
        yield Event(fact=Fact.FAILED, at=taken.now, firing=firing, state=FAILED, reason=reason)
    for trigger, reason in taken.poisoned.items():
        yield Event(fact=Fact.TRIGGER_ERROR, at=taken.now, reason=f"trigger {trigger}: {reason}")


def _started(request: RunRequest) -> Event:
    return Event(
        fact=Fact.STARTED,
        at=request.fired_at,
        trigger=request.trigger,
        job=request.job.name,
        firing=request.firing_id,
        fence=request.fence,
        attempt=request.attempt,
        state=RUNNING,
        node=request.node,
    )


def _as_read(number: int, row: NewFiring, node: str) -> FiringRow:
    """The row as a trail is made of it."""
    return FiringRow(
        id=number,
        trigger=row.trigger_name,
        job=row.job_name,
        scheduled_at=row.scheduled_at,
        covers=row.covers,
        noticed_at=row.noticed_at,
        reason=row.reason,
        state=row.state,
        outcome=None,
        attempt=row.attempt,
        fence=row.fence,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error=None,
        note=row.note,
        retry_dropped=None,
        cause=row.misfire_cause,
        policy=row.misfire_policy,
        decision=row.misfire_decision,
        cancel_requested_at=None,
        cancel_requested_by=None,
        of_firing=row.of_firing,
        node=node if row.incarnation is not None else None,
    )
