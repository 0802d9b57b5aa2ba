"""Enqueueing: one firing that no trigger asks for, written once however often, and by however many, it is asked for."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, NamedTuple

from ..triggers.job import canonical
from .asked import Asked, asked_firing, places_of, policies_now
from .desired import CODE, in_code
from .enqueue_order import Enqueued, EnqueueOrder
from .errors import Conflict, Refused, StoreUnavailable, UnknownJob
from .firing import precedence
from .store import enqueue_rows, job_rows
from .store.database import Store
from .store.dialects import SQLITE
from .store.enqueue_rows import Holder
from .store.job_rows import ACTIVE, JobRow
from .store.tx import Tx

ENQUEUE: Final = "enqueue"
_TRIES = 20
"""Each time round somebody else was faster; keys that change hands twenty times in one transaction are nobody's."""


def enqueue(
    store: Store, order: EnqueueOrder, connection: Any = None, wake: Callable[[], None] | None = None
) -> Enqueued:
    """Carry an order out, in a transaction of its own or in that of a caller's `connection` (or Session).

    `wake` is called once there is something to take: after this transaction, or after the commit of a Session. Raises
    UnknownJob, Refused (a retired job), Conflict (the request key belongs to something else), or StoreError.
    """
    named = order if order.request_key is not None else replace(order, request_key=str(uuid.uuid4()))
    if connection is None:
        done = _in_own_transaction(store, named)
        if done.created and wake is not None:
            wake()
        return done
    from .store.callers import callers_tx, when_committed

    with callers_tx(store, connection) as tx:
        done = enqueue_in(tx, named, None if store.dialect is SQLITE else partial(store.read, "look"))
    if done.created and wake is not None:
        when_committed(connection, wake)
    return done


def _in_own_transaction(store: Store, order: EnqueueOrder) -> Enqueued:
    made: list[int | None] = [None]

    def work(tx: Tx) -> Enqueued:
        done = enqueue_in(tx, order)
        if done.created:
            made[0] = done.id
        return done

    try:
        return store.transaction(ENQUEUE, work)
    except StoreUnavailable as error:
        if not error.in_doubt:
            raise
    before = made[0]
    done = store.transaction(
        ENQUEUE, work
    )  # by its request key it is the same firing, whether it landed or not
    return done._replace(created=done.created or (before is not None and done.id == before))


Beside = Callable[[Callable[[Tx], "_Seen"]], "_Seen"]


def enqueue_in(tx: Tx, order: EnqueueOrder, beside: Beside | None = None) -> Enqueued:
    """Write the order's firing where it is not there; never aborts the transaction.

    A caller's transaction may see the database as it was when it began, and holds for as long as it likes whatever it
    locks: so what others have committed is looked at `beside` it, and only a race meets a key that is taken (which MariaDB
    answers with a lock on the gap where everybody's next firings go).
    """
    for _ in range(_TRIES):
        seen = [_look(tx, order), *([] if beside is None else [beside(lambda other: _look(other, order))])]
        found = next((each.found for each in seen if each.found is not None), None)
        if found is not None:
            return found
        for each in seen:
            if each.over is not None:
                enqueue_rows.give_up(tx, each.over, str(order.unique_key))
        job = next((each.job for each in seen if each.job is not None), None)
        made = _insert(tx, order, _job(tx, order, job, hold=beside is None))
        if made is not None:
            return Enqueued(made, True)
    return Enqueued(None, False)


class _Seen(NamedTuple):
    """What one look finds."""

    found: Enqueued | None
    over: Holder | None
    """Who has the unique key, and does not hold it any more."""
    job: JobRow | None


def _look(tx: Tx, order: EnqueueOrder) -> _Seen:
    assert order.request_key is not None
    known = enqueue_rows.find_request(tx, order.request_key)
    if known is not None:
        if (known.reason, known.job_name) != (ENQUEUE, order.job):
            raise Conflict(
                f"request key {order.request_key!r} belongs to firing {known.id} of something else",
                hint="use another request key",
            )
        return _Seen(Enqueued(known.id, False), None, None)
    holder = None if order.unique_key is None else enqueue_rows.find_holder(tx, order.unique_key)
    if holder is not None and holder.holds(tx.now()):
        return _Seen(Enqueued(holder.id, False), None, None)
    return _Seen(None, holder, job_rows.read_jobs(tx, [order.job]).get(order.job))


def _insert(tx: Tx, order: EnqueueOrder, job: JobRow) -> int | None:
    policies = policies_now(tx, job.name, job)
    places = places_of(tx, job, policies.overlap)
    now = tx.now()
    run_at = max(now, order.at) if order.at is not None else now + (order.delay or 0)
    asked = Asked(
        reason=ENQUEUE,
        job_id=job.id,
        job_name=job.name,
        request_key=str(order.request_key),
        scheduled_at=run_at,
        run_at=run_at,
        precedence=precedence(order.priority),
        data=canonical(dict(order.data)) if order.data else None,
    )
    until = None if order.unique_key is None or order.unique_for is None else now + order.unique_for
    firing = asked_firing(tx, asked, policies, places)
    return enqueue_rows.insert_enqueued(tx, firing, order.unique_key, until)


def _job(tx: Tx, order: EnqueueOrder, row: JobRow | None, *, hold: bool) -> JobRow:
    """The order's job, made where it is code that no row knows yet; `hold` it as it is until commit."""
    is_code = ":" in order.job
    if row is None:
        if not is_code:
            raise unknown_job(tx, order.job)
        wanted = in_code(order.job)
        row = job_rows.make_job(tx, (wanted.name, CODE, wanted.spec, wanted.digest), order.loaded)
    elif hold:
        row = job_rows.hold_job(tx, row.id)
    if row.state == ACTIVE:
        return row
    if not (is_code and row.namespace == CODE):
        raise Refused(f"job {order.job!r} is retired", hint="declare it again and apply")
    job_rows.revive_job(tx, row.id)  # no trigger needed it any more; now something does
    return row


def unknown_job(tx: Tx, name: str) -> UnknownJob:
    """The error for a name that no job has, with the nearest one that exists."""
    near = get_close_matches(name, job_rows.active_names(tx), 1)
    hint = f"did you mean {near[0]!r}?" if near else "`qsched jobs list` shows all; code is module:function"
    return UnknownJob(f"no job {name!r}", hint=hint)
