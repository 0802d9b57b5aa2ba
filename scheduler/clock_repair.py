"""Trigger clocks that contradict their trigger, put right from its definition, its watermark and the ledger."""

from collections.abc import Collection

from ..triggers.instant import DAY
from ..triggers.trigger import SPEC_VERSION
from .effective import overlap_of, skip_after
from .firing import precedence
from .store import definition_reads, definition_rows
from .store.error_rows import set_error
from .store.sweep_rows import insert_clock, last_decided, misplaced_clocks, place_clock
from .store.trigger_rows import (
    DONE,
    ERROR,
    RETIRED,
    WAITING,
    ClockChange,
    TriggerRow,
    definition_hash,
    lock_triggers,
    write_clocks,
    write_states,
)
from .store.tx import Tx
from .stored import Stored, next_slot, waits_for_end
from .turns import Turns

FAR = 400 * DAY
"""A next fire that is later than this is compared with what the schedule names."""


def repair_clocks(
    tx: Tx, ids: Collection[int], known: dict[tuple[int, str], Stored], seen_before: Collection[int]
) -> int:
    """Put right those of these triggers that are wrong; answers how many were.

    `known` are definitions that were compiled before the transaction. `seen_before`: also wrong when they were last looked
    at, so that the pause of a group, which takes several transactions, is not in the middle of it.
    """
    misplaced = misplaced_clocks(tx, ids)
    rows = lock_triggers(tx, ids)
    turns = Turns(tx, known)
    mended = 0
    for trigger_id, row in sorted(rows.items()):
        if (job_id := misplaced.get(trigger_id)) is not None:
            place_clock(tx, trigger_id, job_id)
            mended += 1
        elif row.held and row.next_run_at is not None and row.state == WAITING:
            if row.paused_at is not None or trigger_id in seen_before:
                turns.stop(row)
                mended += 1
        else:
            mended += _repair(tx, row, turns.stored(row))
    turns.write()
    return mended + _make_clocks(tx, set(ids) - rows.keys())


def _repair(tx: Tx, row: TriggerRow, stored: Stored) -> bool:
    if row.state in (RETIRED, ERROR):
        if row.next_run_at is None:
            return False
        next_fire_at = None if row.state == RETIRED else row.next_fire_at
        write_clocks(tx, [ClockChange(row.id, row.version, next_fire_at, None, row.watermark)])
        return True
    if row.state == DONE and row.next_run_at is None:
        return False
    if stored.schedule is None:
        if row.spec_version > SPEC_VERSION:
            return False  # a newer version's: it knows
        set_error(tx, row.id, "poison", stored.problem or "its definition cannot be read")
        return True
    slot, run_at = _rightly(row, stored, tx.now())
    state = DONE if slot is None and not waits_for_end(stored.schedule, row) else WAITING
    if (slot, run_at, state) == (row.next_fire_at, row.next_run_at, row.state):
        return False
    write_clocks(tx, [ClockChange(row.id, row.version, slot, run_at, row.watermark)])
    if state != row.state:
        write_states(tx, [(row.id, state)])
    return True


def _rightly(row: TriggerRow, stored: Stored, now: int) -> tuple[int | None, int | None]:
    """(next fire, next run) as they should be. What was due and is not decided stays due: the misfire rule has its say."""
    assert stored.schedule is not None
    slot, watermark = row.next_fire_at, row.watermark
    if slot is None or (watermark is not None and slot <= watermark):
        slot = next_slot(
            stored.schedule, stored.max_fires, row, after=now if watermark is None else watermark
        )
    elif slot > now + FAR:
        slot = next_slot(stored.schedule, stored.max_fires, row, after=max(now, watermark or now))
    if slot is None or row.held:
        return slot, None
    # A jittered one runs before the slot after.
    run_at, rightly = row.next_run_at, stored.run_time(slot)
    assert rightly is not None
    if run_at is None or slot != row.next_fire_at or not slot <= run_at <= rightly:
        return slot, rightly
    return slot, run_at


def _make_clocks(tx: Tx, ids: Collection[int]) -> int:
    """Clocks that are gone are made again, stopped: the next look sets them going, from the last slot in the ledger."""
    triggers = definition_reads.read_triggers(tx, sorted(ids))
    jobs = {row.id: row for row in definition_reads.read_jobs(tx, {row.job_id for row in triggers})}
    defaults = definition_rows.read_defaults(tx)[0] if triggers else {}
    made = 0
    for row in triggers:
        job = jobs.get(row.job_id)
        stored = Stored.of_definition(row.group_name, row.name, row.spec)
        if stored.definition is None or job is None:
            set_error(tx, row.id, "poison", stored.problem or "its job's row is missing")
            continue
        insert_clock(
            tx,
            (
                *(row.id, row.job_id, precedence(stored.definition.priority)),
                overlap_of(job.spec, job.loaded, defaults),
                *(definition_hash(row.definition_digest), skip_after(stored.definition)),
                *(None, None, last_decided(tx, row.id) or tx.now()),
                *(stored.definition.jitter, stored.definition.delay),
            ),
        )
        made += 1
    return made
