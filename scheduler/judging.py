"""From a body that ended to the end of its firing: what its row says, which policy holds, and what follows from both."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..triggers.retry import RetryPolicy
from .context import RunRequest
from .firing import DUE
from .outcome import CANCELLED, LOST, SUCCEEDED, Outcome
from .parts import Parts
from .store.finish import Ending
from .store.firing_rows import OpenFiring, open_firings
from .store.tx import Tx
from .verdict import EndedAttempt, Verdict, judge


class Ended(NamedTuple):
    """A body that ended (`outcome`), or that was not begun (None); `at` is monotonic."""

    request: RunRequest
    incarnation: int
    outcome: Outcome | None
    at: float


def rows_of(tx: Tx, ended: Sequence[Ended]) -> dict[int, OpenFiring]:
    """What the rows say of those that need more than a happy end."""
    wanted = [
        each.request.firing_id
        for each in ended
        if each.request.exclusive
        or each.request.followed
        or each.request.delayed
        or (each.outcome is not None and each.outcome.kind != SUCCEEDED)
    ]
    return open_firings(tx, wanted)


class Judging:
    """One per node; reads definitions under the settling transaction, writes nothing."""

    def __init__(self, parts: Parts, random: Callable[[], float]) -> None:
        self._definitions = parts.definitions
        self._random = random

    def ending(self, tx: Tx, each: Ended, row: OpenFiring | None, at: int) -> Ending:
        """How the firing ends, or when it is due again; `at` is when its body ended (µs), `row` None for a happy end."""
        request, outcome = each.request, each.outcome
        assert outcome is not None
        if row is not None and row.cancel_requested_at is not None and outcome.kind != SUCCEEDED:
            outcome = replace(outcome, kind=CANCELLED)  # however it ended: it is not to begin anew elsewhere
        if row is None:  # success and no permit: nothing else of the row matters
            who = (request.firing_id, each.incarnation, request.fence)
            return Ending(
                *who, None, None, SUCCEEDED, SUCCEEDED, at, note=outcome.result, output=outcome.output
            )
        verdict, recovers = self._verdict(tx, request, row, outcome, at)
        return Ending(
            request.firing_id,
            each.incarnation,
            request.fence,
            row.stops_with,
            row.permit_key,
            verdict.state,
            outcome.kind,
            at,
            error=_error_text(outcome),
            note=outcome.result if verdict.state == SUCCEEDED else verdict.why,
            retry_dropped=verdict.dropped,
            pause_trigger=verdict.pause_trigger,
            run_at=verdict.run_at,
            attempt=row.attempt,
            next_attempt=row.attempt + int(verdict.retry),
            refires=row.refires + int(verdict.refire),
            recoveries=row.recoveries + int(recovers),
            recovering=row.recoveries > 0,
            started_at=row.started_at,
            next_at=row.next_at,
            limit_key=row.limit_key,
            job_id=row.job_id,
            followed=request.followed,
            delayed=request.delayed,
            saved=outcome.saved,
            output=outcome.output,
        )

    def _verdict(
        self, tx: Tx, request: RunRequest, row: OpenFiring, outcome: Outcome, at: int
    ) -> tuple[Verdict, bool]:
        """The judgement, and whether it is a recovery: an attempt that was lost and is due again, so many times at most."""
        verdict = judge(
            outcome,
            EndedAttempt(
                attempt=row.attempt,
                failed_at=at,
                refires=row.refires,
                next_at=row.next_at,
                retry_until=row.retry_until,
                first_started_at=row.first_started_at,
                request_recovery=bool(row.request_recovery),
            ),
            policy=self._policy(tx, request, row) if outcome.kind != SUCCEEDED else None,
            random=self._random,
        )
        recovers = outcome.kind == LOST and verdict.state == DUE
        if recovers and row.recoveries >= row.max_recoveries:
            return Verdict("lost", f"{verdict.why}; recovered {row.recoveries} times already"), False
        return verdict, recovers

    def _policy(self, tx: Tx, request: RunRequest, row: OpenFiring) -> RetryPolicy | None:
        """Looked up at failure time: trigger, job, cluster; `none` (no retries) stops the search."""
        definitions = self._definitions
        trigger_id = row.trigger_id or row.requested_trigger_id
        trigger = None if trigger_id is None else definitions.trigger(tx, trigger_id)
        if trigger is not None and trigger.definition.retry is not None:
            return trigger.definition.retry
        job = definitions.jobs(tx, [row.job_id]).get(row.job_id)
        return (
            request.job.policies.retry if job is None else job.policies.retry
        )  # the cluster's default is in there


def _error_text(outcome: Outcome) -> str | None:
    if outcome.error_type is None and outcome.error_message is None:
        return None
    said = {"type": outcome.error_type, "message": outcome.error_message, "traceback": outcome.traceback}
    return json.dumps({name: text for name, text in said.items() if text is not None}, ensure_ascii=False)
