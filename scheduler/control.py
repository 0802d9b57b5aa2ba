"""What people do to triggers: pause, resume, fire, reset and delete them; each in short, audited transactions."""

import uuid
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypedDict, Unpack

from ..triggers.errors import DefinitionError
from ..triggers.instant import rfc3339
from ..triggers.job import canonical
from ..triggers.trigger import split_key
from .asked import MANUAL, Asked, Places, asked_firing, policies_now
from .enqueue_order import checked_key
from .errors import Conflict, ConstraintHit, Refused, StoreUnavailable, UnknownTrigger
from .firing import NewFiring
from .groups import end_group_pauses, pause_group, resume_group
from .payload import checked_data
from .store import definition_rows, job_rows, trigger_lists, trigger_rows, waiting_rows
from .store.after_end import set_next
from .store.database import Store
from .store.firing_rows import insert_firings
from .store.trigger_rows import ERROR, RETIRED, TriggerRow
from .store.tx import Tx
from .stored import EDITED, PAUSED, Stored, reason_for
from .turns import Bill, Move, PauseOptions, Turns, bill_of, chunks, move_triggers

__all__ = [
    "bills",
    "delete",
    "end_group_pauses",
    "end_pauses",
    "fire",
    "next_slots",
    "pause",
    "pause_group",
    "reset",
    "resume",
    "resume_group",
]


class FireOptions(TypedDict, total=False):
    """A manual firing: `data` over the trigger's; `request_key` makes it once; `force` past pause, error, retirement."""

    data: Mapping[str, Any] | None
    who: str | None
    request_key: str | None
    force: bool


def pause(store: Store, keys: Sequence[str], **options: Unpack[PauseOptions]) -> tuple[Bill, ...]:
    """Pause triggers. When this has returned nothing of them starts, save what somebody fires by hand.

    Answers what each owed until now (closed, as paused). Raises UnknownTrigger, changing nothing, for a key that
    is not there.
    """
    who = options.get("who")

    def move(tx: Tx, turns: Turns, rows: list[TriggerRow]) -> list[Bill]:
        fresh = [row for row in rows if row.paused_at is None]
        running = [row for row in fresh if row.next_run_at is not None]
        bills = [bill_of(row, turns.stored(row), now=turns.now, held=0) for row in running]
        for row in running:
            turns.stop(row)
        why = (who, options.get("until"), options.get("reason"))
        trigger_rows.write_pauses(tx, [row.id for row in fresh], (turns.now, *why))
        for row in rows:
            if row.paused_at is not None:  # a pause that is said again keeps its beginning
                trigger_rows.write_pauses(tx, [row.id], (row.paused_at, *why))
        turns.write()
        waiting_rows.lock_waiting(tx, [row.id for row in fresh])
        detail = {name: value for name in ("reason", "until") if (value := options.get(name)) is not None}
        definition_rows.write_audit(tx, who, "pause", [row.key for row in rows], detail)
        return bills

    return _each(store, keys, move)


def resume(
    store: Store, keys: Sequence[str], *, who: str | None = None, catch_up: bool = False
) -> tuple[Bill, ...]:
    """End the pause of triggers and answer the bill: what passed meanwhile is one skipped row each, and nothing of it runs.

    With `catch_up` it is left to each trigger's misfire rule instead, and firings that were held go on.
    """
    return _each(store, keys, _resuming(who, catch_up=catch_up, only_ended=False))


def bills(store: Store, keys: Sequence[str]) -> tuple[Bill, ...]:
    """What `resume` would close of those that are paused, for whoever wants to see it first; reads only."""

    def read(tx: Tx) -> tuple[Bill, ...]:
        rows = trigger_rows.read_triggers(tx, find(tx, keys).values())
        held = waiting_rows.waiting_slots(tx, rows.keys())
        return tuple(
            bill_of(row, Stored.of(row), now=tx.now(), held=held.get(row.id, 0))
            for row in rows.values()
            if row.paused_at is not None
        )

    return store.read("bill", read)


def end_pauses(store: Store, keys: Sequence[str], *, who: str | None = None) -> tuple[Bill, ...]:
    """Resume those of `keys` whose pause has come to its end by now, by the rules of `resume`."""
    return _each(store, keys, _resuming(who, catch_up=False, only_ended=True))


def reset(store: Store, keys: Sequence[str], *, who: str | None = None) -> tuple[Bill, ...]:
    """Clear the error of triggers and begin anew from now; the one way in which a watermark may move back.

    Raises Refused for a definition that still cannot be read.
    """

    def move(tx: Tx, turns: Turns, rows: list[TriggerRow]) -> list[Bill]:
        bills = [bill_of(row, turns.stored(row), now=turns.now, held=0) for row in rows]
        for row in rows:
            stored = turns.stored(row)
            if stored.schedule is None:
                raise Refused(f"trigger {row.key!r} cannot be reset: {stored.problem}", hint="apply it again")
            turns.restart(row, stored, reason=reason_for(row))
        turns.write()
        definition_rows.write_audit(tx, who, "reset", [row.key for row in rows], {})
        return bills

    return _each(store, keys, move)


def delete(store: Store, keys: Sequence[str], *, who: str | None = None) -> tuple[Bill, ...]:
    """Delete triggers: what waits of them is cancelled, what runs ends, history, id and watermark stay for a return."""

    def move(tx: Tx, turns: Turns, rows: list[TriggerRow]) -> list[Bill]:
        bills = [bill_of(row, turns.stored(row), now=turns.now, held=0) for row in rows]
        for row in rows:
            reason = reason_for(row)
            turns.retire(row, reason=reason if reason in (PAUSED, ERROR) else EDITED)
        turns.write()
        ids = [row.id for row in rows]
        trigger_rows.write_pauses(tx, ids, None)
        waiting_rows.cancel_waiting(tx, ids, "the trigger was deleted")
        definition_rows.write_audit(tx, who, "delete", [row.key for row in rows], {})
        return bills

    return _each(store, keys, move)


def fire(store: Store, key: str, **options: Unpack[FireOptions]) -> int:
    """Have a trigger's job run now, beside its schedule; answers the firing's id.

    Given the same `request_key` again it answers the same firing. Raises UnknownTrigger, Refused (a paused, failed
    or retired trigger, without `force`), Conflict (the request key belongs to another trigger).
    """
    data = checked_data(options.get("data") or {}, of=f"the fire of {key!r}")
    request_key = checked_key("request_key", options.get("request_key")) or str(uuid.uuid4())

    def work(tx: Tx) -> int:
        trigger_id = find(tx, [key], retired=True)[key]
        known = tx.run(
            "SELECT id, requested_trigger_id FROM qsched_firings WHERE cluster = ? AND request_key = ?",
            *(tx.cluster, request_key),
        ).one_or_none()
        if known is not None:
            if known[1] != trigger_id:
                raise Conflict(
                    f"request key {request_key!r} belongs to firing {known[0]} of something else",
                    hint="use another request key",
                )
            return int(known[0])
        row = trigger_rows.lock_triggers(tx, [trigger_id])[trigger_id]
        if not options.get("force"):
            refuse_stopped(row, hint="fire it all the same with --force")
        definition_rows.write_audit(tx, options.get("who"), "fire", [row.key], {"request_key": request_key})
        firing = _manual(tx, row, request_key, canonical(data) if data else None)
        return insert_firings(tx, [firing])[0]

    try:
        return store.transaction("fire", work)
    except ConstraintHit:
        pass  # the same request came in twice at once
    except StoreUnavailable as error:
        if not error.in_doubt:
            raise
    # By its request key it is the same firing, whether it landed or not.
    return store.transaction("fire", work)


def next_slots(tx: Tx, key: str, count: int) -> list[int]:
    """The next `count` slots (µs) of a trigger, undecided ones first; fewer where there are no more.

    Raises DefinitionError for a definition that cannot be read.
    """
    trigger_id = find(tx, [key])[key]
    row = trigger_rows.read_triggers(tx, [trigger_id])[trigger_id]
    stored = Stored.of(row)
    if stored.schedule is None:
        raise DefinitionError(f"trigger {key!r} cannot be read: {stored.problem}")
    if stored.max_fires is not None:
        count = min(count, stored.max_fires - row.fires)
    slots: list[int] = []
    slot = row.next_fire_at
    while slot is not None and len(slots) < count:
        slots.append(slot)
        slot = stored.schedule.slot_after(slot)
    return slots


def find(tx: Tx, keys: Sequence[str], *, retired: bool = False) -> dict[str, int]:
    """{key: id}; raises UnknownTrigger for those that are not there (`retired` ones are found only if asked for)."""
    wanted = {key: split_key(key) for key in keys}
    found = trigger_rows.trigger_ids(tx, list(wanted.values()))
    answer: dict[str, int] = {}
    for key, pair in wanted.items():
        known = found.get(pair)
        if known is None or (known[1] == RETIRED and not retired):
            raise _unknown(tx, key, gone=known is not None)
        answer[key] = known[0]
    return answer


def _unknown(tx: Tx, key: str, *, gone: bool) -> UnknownTrigger:
    if gone:
        return UnknownTrigger(f"trigger {key!r} is retired", hint="declare it again and apply")
    close = get_close_matches(key, trigger_lists.trigger_keys(tx), 1)
    hint = f"did you mean {close[0]!r}?" if close else "`qsched triggers list` shows them all"
    return UnknownTrigger(f"no trigger {key!r}", hint=hint)


def _each(store: Store, keys: Sequence[str], move: Move) -> tuple[Bill, ...]:
    """Do `move` to all of `keys`, ids ascending, in as many transactions as it takes; all keys must be known first."""
    found = store.read("find", lambda tx: find(tx, list(dict.fromkeys(keys))))
    done: list[Bill] = []
    for ids in chunks(sorted(found.values())):
        done += move_triggers(store, ids, move)
    return tuple(done)


def _resuming(who: str | None, *, catch_up: bool, only_ended: bool) -> Move:
    def move(tx: Tx, turns: Turns, rows: list[TriggerRow]) -> list[Bill]:
        ended = [
            row
            for row in rows
            if row.paused_at is not None
            and (not only_ended or (row.paused_until is not None and row.paused_until <= turns.now))
        ]
        ids = [row.id for row in ended]
        held = waiting_rows.waiting_slots(tx, ids)
        bills = [bill_of(row, turns.stored(row), now=turns.now, held=held.get(row.id, 0)) for row in ended]
        for row in ended:
            still = row.group_paused_at is not None
            if catch_up:
                turns.catch_up(row, held=still)
            else:
                turns.go_on(row, reason=PAUSED, held=still)
        trigger_rows.write_pauses(tx, ids, None)
        turns.write()
        if not catch_up:
            waiting_rows.skip_waiting(tx, ids, "the trigger was paused")
            set_next(tx, dict.fromkeys(ids, turns.now))  # what was skipped had been waited for
        definition_rows.write_audit(tx, who, "resume", [row.key for row in ended], {"catch_up": catch_up})
        return bills

    return move


def refuse_stopped(row: TriggerRow, *, hint: str) -> None:
    """Raise Refused for a trigger that is retired, in error or paused; `hint` names the way past that."""
    if row.state == RETIRED:
        raise Refused(f"trigger {row.key!r} is retired", hint=hint)
    if row.state == ERROR:
        raise Refused(f"trigger {row.key!r} is in error: {row.error}", hint=hint)
    if row.paused_at is not None:
        by = f" by {row.paused_by}" if row.paused_by else ""
        raise Refused(f"trigger {row.key!r} is paused{by} since {rfc3339(row.paused_at)}", hint=hint)
    if row.group_paused_at is not None:
        raise Refused(f"group {row.group!r} is paused since {rfc3339(row.group_paused_at)}", hint=hint)


def _manual(tx: Tx, row: TriggerRow, request_key: str, data: str | None) -> NewFiring:
    policies = policies_now(tx, row.job_name, job_rows.read_jobs(tx, [row.job_name]).get(row.job_name))
    asked = Asked(
        reason=MANUAL,
        job_id=row.job_id,
        job_name=row.job_name,
        request_key=request_key,
        scheduled_at=tx.now(),
        run_at=tx.now(),
        precedence=row.precedence,
        trigger_id=row.id,
        trigger_name=row.key,
        data=data,
    )
    return asked_firing(tx, asked, policies, Places.of(row.job_id, row.overlap, row.limit_key))
