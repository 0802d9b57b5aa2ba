"""What people do to single firings: cancel one, run one that has ended once more; each in one audited transaction."""

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict, Unpack

from ..triggers.job import canonical
from .asked import MANUAL, Asked, asked_firing, places_of, policies_now
from .enqueue_order import checked_key
from .errors import OVERLAP, Conflict, ConstraintHit, Refused, StoreUnavailable, UnknownFiring
from .firing import CANCELLED, DUE, FAILED, LARGEST_ID, LOST, RUNNING, SUCCEEDED
from .payload import checked_data
from .store import act_rows, definition_rows, job_rows
from .store.act_rows import Acted
from .store.after_end import delayed_triggers, set_next
from .store.database import Store
from .store.firing_rows import insert_firings
from .store.followers import End, follow, followers
from .store.take_rows import lock_clocks
from .store.tx import Tx

ASKED: Final = "asked"
"""Of a cancel: its body runs, and is told."""
_AGAIN: Final = (FAILED, LOST, CANCELLED)


class RetryOptions(TypedDict, total=False):
    """One firing once more: `data` over the old one's; `request_key` makes it once; `force` one that succeeded."""

    data: Mapping[str, Any] | None
    who: str | None
    request_key: str | None
    force: bool


def cancel(
    store: Store, ids: Sequence[int], *, who: str | None = None, reason: str | None = None
) -> dict[int, str]:
    """End what waits of these firings, and ask what runs to stop; answers `cancelled` or `asked` for each.

    All of them or, where one is not there or has ended, none: raises UnknownFiring or Refused.
    """
    by = who or "somebody"

    def work(tx: Tx) -> dict[int, str]:
        possible = _possible(ids)
        following = followers(tx, act_rows.jobs_of(tx, possible))
        delayed = delayed_triggers(tx, possible)
        lock_clocks(tx, following | delayed)  # before the firings, in the order of the house
        found = act_rows.lock_acted(tx, possible)
        for firing_id in ids:
            row = _known(found, firing_id)
            if row.state not in (DUE, RUNNING):
                raise Refused(f"firing {firing_id} has ended: it is {row.state}", hint=_hint_of(row))
        waiting = [row.id for row in found.values() if row.state == DUE]
        act_rows.cancel_due(tx, waiting, f"cancelled by {by}" + (f": {reason}" if reason else ""))
        # One that never ran has no end that others could follow.
        ends = [
            End(row.id, row.job_id, CANCELLED)
            for row in found.values()
            if row.state == DUE and row.first_started_at is not None
        ]
        set_next(tx, dict.fromkeys(delayed, tx.now()))
        follow(tx, ends, following)
        # The word of an overlap's cancel is not a name: what it asks for is told to the body as something else.
        asker = f"{by} (by hand)" if by == OVERLAP else by
        act_rows.ask_to_stop(tx, [row.id for row in found.values() if row.state == RUNNING], asker)
        detail = {} if reason is None else {"reason": reason}
        definition_rows.write_audit(tx, who, "cancel", [str(each) for each in sorted(found)], detail)
        return {row.id: CANCELLED if row.state == DUE else ASKED for row in found.values()}

    return store.transaction("cancel", work)


def retry(store: Store, firing_id: int, **options: Unpack[RetryOptions]) -> int:
    """`retry_all` for one firing; answers the new one."""
    return retry_all(store, [firing_id], **options)[firing_id]


def retry_all(store: Store, ids: Sequence[int], **options: Unpack[RetryOptions]) -> dict[int, int]:
    """Run the jobs of firings that have ended once more: new firings, for the same triggers and slots, that name the old ones.

    They begin with attempt 0 and idempotency keys of their own; answers {old: new}. Given the same `request_key` again it
    answers the same firing. All of them or, where one cannot be, none: raises UnknownFiring, Refused, or Conflict (the request
    key belongs to something else).
    """
    over = checked_data(options.get("data") or {}, of=f"the retry of firing {', '.join(map(str, ids))}")
    key = checked_key("request_key", options.get("request_key"))
    keys = {each: key or str(uuid.uuid4()) for each in ids}

    def work(tx: Tx) -> dict[int, int]:
        found = act_rows.lock_acted(tx, _possible(ids))
        return {each: _retry(tx, _known(found, each), over, keys[each], options) for each in keys}

    try:
        return store.transaction("retry", work)
    except ConstraintHit:
        pass  # the same request came in twice at once
    except StoreUnavailable as error:
        if not error.in_doubt:
            raise
    return store.transaction("retry", work)


def _retry(tx: Tx, row: Acted, over: Mapping[str, Any], request_key: str, options: RetryOptions) -> int:
    known = act_rows.find_retry(tx, request_key)
    if known is not None:
        if known[1] != row.id:
            raise Conflict(
                f"request key {request_key!r} belongs to firing {known[0]} of something else",
                hint="use another request key",
            )
        return known[0]
    _refuse(row, force=bool(options.get("force")))
    definition_rows.write_audit(tx, options.get("who"), "retry", [str(row.id)], {"request_key": request_key})
    return _once_more(tx, row, over, request_key)


def _possible(ids: Sequence[int]) -> list[int]:
    """Without numbers that no row can have, which the drivers refuse: they are not found."""
    return [each for each in ids if each <= LARGEST_ID]


def _known(found: Mapping[int, Acted], firing_id: int) -> Acted:
    if firing_id not in found:
        raise UnknownFiring(f"no firing {firing_id}", hint="`qsched firings list` shows all")
    return found[firing_id]


def _hint_of(row: Acted) -> str:
    return "what has ended stays as it is" + (
        "; `firings retry` runs it again" if row.state in _AGAIN else ""
    )


def _refuse(row: Acted, *, force: bool) -> None:
    if row.state in (DUE, RUNNING):
        raise Refused(f"firing {row.id} has not ended: it is {row.state}", hint="`firings cancel` ends it")
    if row.state == SUCCEEDED and not force:
        raise Refused(f"firing {row.id} has succeeded", hint="run it once more all the same with --force")
    if row.state not in (*_AGAIN, SUCCEEDED):
        fires = f"`triggers fire {row.trigger_name}`" if row.trigger_name else "`qsched enqueue`"
        raise Refused(f"firing {row.id} is {row.state}: it never ran", hint=f"{fires} runs its job now")


def _once_more(tx: Tx, row: Acted, over: Mapping[str, Any], request_key: str) -> int:
    job = job_rows.read_job_by_id(tx, row.job_id)
    if job is None or job.state != job_rows.ACTIVE:
        raise Refused(
            f"job {row.job_name!r} is {'gone' if job is None else 'retired'}",
            hint="declare it again and apply",
        )
    policies = policies_now(tx, job.name, job)
    places = places_of(tx, job, policies.overlap)
    data = {**_data_of(row), **over}
    asked = Asked(
        reason=MANUAL,
        job_id=job.id,
        job_name=job.name,
        request_key=request_key,
        scheduled_at=row.scheduled_at,  # the work is that slot's: a report of the night is not one of the morning
        run_at=tx.now(),
        precedence=row.precedence,
        trigger_id=row.trigger_id or row.requested_trigger_id,
        trigger_name=row.trigger_name,
        data=canonical(data) if data else None,
        of_firing=row.id,
    )
    return insert_firings(tx, [asked_firing(tx, asked, policies, places)])[0]


def _data_of(row: Acted) -> dict[str, Any]:
    try:
        data = json.loads(row.data) if row.data else {}
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise Refused(f"the data of firing {row.id} cannot be read", hint="enqueue its job with new data")
    return data
