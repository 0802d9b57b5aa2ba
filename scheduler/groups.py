"""Pausing and resuming all of a group: the group's row first, then its triggers, chunk by chunk."""

from collections import Counter
from collections.abc import Sequence
from typing import Unpack

from .store import definition_rows, trigger_lists, trigger_rows, waiting_rows
from .store.after_end import set_next
from .store.database import Store
from .store.definition_rows import GroupPause
from .store.trigger_rows import TriggerRow
from .store.tx import Tx
from .stored import PAUSED, Stored
from .turns import CHUNK, Bill, PauseOptions, Turns, bill_of, chunks, move_triggers

_TRIES = 3


def pause_group(store: Store, group: str, **options: Unpack[PauseOptions]) -> tuple[Bill, ...]:
    """Pause a group, with the triggers it has and those it will get. When this has returned nothing of it starts."""
    who = options.get("who")

    def begin(tx: Tx) -> list[int]:
        # Under the cluster's lock, which whoever adds triggers shares: they are listed below, or they see the pause.
        definition_rows.lock_cluster(tx)
        pause = GroupPause(tx.now(), who, options.get("until"), options.get("reason"))
        definition_rows.write_group_pause(tx, group, pause)
        detail = {name: value for name in ("reason", "until") if (value := options.get(name)) is not None}
        definition_rows.write_audit(tx, who, "pause group", [group], detail)
        return trigger_lists.group_trigger_ids(tx, group)

    def shared(tx: Tx) -> None:
        # Whoever resumes the group waits until these triggers are stopped, and finds them; or has ended the pause before.
        definition_rows.lock_cluster(tx, share=True)

    def stop(tx: Tx, turns: Turns, rows: list[TriggerRow]) -> list[Bill]:
        rows = [row for row in rows if row.group_paused_at is not None]
        running = [row for row in rows if row.next_run_at is not None]
        bills = [bill_of(row, turns.stored(row), now=turns.now, held=0) for row in running]
        for row in running:
            turns.stop(row)
        turns.write()
        waiting_rows.lock_waiting(tx, [row.id for row in rows])
        return bills

    done: list[Bill] = []
    for ids in chunks(store.transaction("pause group", begin)):
        done += move_triggers(store, ids, stop, shared)
    return tuple(done)


def group_bills(store: Store, group: str) -> tuple[Bill, ...]:
    """What `resume_group` would close, for whoever wants to see it first; reads only."""

    def read(tx: Tx, ids: Sequence[int]) -> list[Bill]:
        rows = trigger_rows.read_triggers(tx, ids)
        mine = [row for row in rows.values() if row.paused_at is None and row.group_paused_at is not None]
        held = waiting_rows.waiting_slots(tx, [row.id for row in mine])
        return [bill_of(row, Stored.of(row), now=tx.now(), held=held.get(row.id, 0)) for row in mine]

    found: list[Bill] = []
    for ids in chunks(store.read("group", lambda tx: trigger_lists.group_trigger_ids(tx, group))):
        found += store.read("bills", lambda tx, ids=ids: read(tx, ids))  # type: ignore[misc]
    return tuple(found)


def resume_group(
    store: Store, group: str, *, who: str | None = None, catch_up: bool = False
) -> tuple[Bill, ...]:
    """End a group's pause, by the rules of `resume`; a trigger that is paused by itself stays so."""
    return _resume(store, group, who, catch_up=catch_up, ended_only=False)


def _resume(
    store: Store, group: str, who: str | None, *, catch_up: bool, ended_only: bool
) -> tuple[Bill, ...]:
    """`ended_only`: only while the pause is at its end. Another may have resumed the group meanwhile, and somebody paused it
    anew or for longer: that is asked again under the cluster's lock, in each transaction."""

    def is_over(tx: Tx) -> bool:
        return not ended_only or group in trigger_lists.ended_group_pauses(tx)

    # One that nothing can get going (a definition that cannot be read) is not tried for ever; one that a sweep has stopped
    # again, while this took its time and the group was paused still, is.
    moved: Counter[int] = Counter()

    def stopped(tx: Tx) -> list[int] | None:
        """The triggers that the pause still holds; when there are none left it ends, and None is answered."""
        definition_rows.lock_cluster(tx)
        if not is_over(tx):
            return None
        found = trigger_lists.stopped_in_group(tx, group, CHUNK + len(moved))
        if ids := [trigger_id for trigger_id in found if moved[trigger_id] < _TRIES]:
            return ids[:CHUNK]
        if definition_rows.clear_group_pause(tx, group):
            definition_rows.write_audit(tx, who, "resume group", [group], {"catch_up": catch_up})
        return None

    def shared(tx: Tx) -> None:
        if ended_only:  # a new pause lists the triggers behind this, and stops them; or this sees it
            definition_rows.lock_cluster(tx, share=True)

    def go_on(tx: Tx, turns: Turns, rows: list[TriggerRow]) -> list[Bill]:
        return _set_going(tx, turns, rows, catch_up=catch_up) if is_over(tx) else []

    # The group's row goes last: whoever is interrupted can say it again.
    done: list[Bill] = []
    while ids := store.transaction("resume group", stopped):
        moved.update(ids)
        done += move_triggers(store, ids, go_on, shared)
    return tuple(done)


def _set_going(tx: Tx, turns: Turns, rows: list[TriggerRow], *, catch_up: bool) -> list[Bill]:
    """Those of these locked triggers that stand and are not paused by themselves."""
    mine = [row for row in rows if row.paused_at is None and row.next_run_at is None]
    ids = [row.id for row in mine]
    held = waiting_rows.waiting_slots(tx, ids)
    bills = [bill_of(row, turns.stored(row), now=turns.now, held=held.get(row.id, 0)) for row in mine]
    for row in mine:
        if catch_up:
            turns.catch_up(row, held=False)
        else:
            turns.go_on(row, reason=PAUSED, held=False)
    turns.write()
    if not catch_up:
        waiting_rows.skip_waiting(tx, ids, "its group was paused")
        set_next(tx, dict.fromkeys(ids, turns.now))
    return bills


def end_group_pauses(store: Store, groups: Sequence[str], *, who: str | None = None) -> None:
    """Resume those of `groups` whose pause has come to its end by now, and for as long as nobody pauses them anew."""
    for group in groups:
        _resume(store, group, who, catch_up=False, ended_only=True)
