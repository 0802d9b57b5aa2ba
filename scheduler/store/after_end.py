"""Delay: the next slot of a trigger whose slots count from ends, set in the transaction that writes the end.

So whoever ends its firing (its node, a rescuer, a drain) says when it is next; and where an end was written without that
(a cancel of what waited), the sweep does.
"""

from collections.abc import Mapping

from ..stored import Stored, next_slot, waits_for_end
from .trigger_rows import DONE, WAITING, ClockChange, read_triggers, write_clocks, write_states
from .tx import Tx


def set_next(tx: Tx, ends: Mapping[int, int]) -> None:
    """`ends`: {trigger, its clock locked: when its firing ended}; those that have slots by themselves are left alone."""
    if not ends:
        return
    condition, values = tx.among("id", sorted(ends))
    delayed = tx.rows(
        f"SELECT id FROM qsched_trigger_clocks WHERE {condition} AND delay IS NOT NULL", *values
    )
    moved: list[ClockChange] = []
    done: list[tuple[int, str]] = []
    for trigger_id, row in sorted(read_triggers(tx, [each[0] for each in delayed]).items()):
        stored = Stored.of(row)
        if row.state != WAITING or stored.schedule is None or waits_for_end(stored.schedule, row):
            continue
        if row.next_fire_at is not None and row.next_fire_at <= tx.now():
            continue  # a slot that is due and undecided stays: the misfire rule has its say
        after = max(ends[trigger_id], row.watermark or 0)
        slot = next_slot(stored.schedule, stored.max_fires, row, after=after)
        moved.append(
            ClockChange(row.id, row.version, slot, stored.run_time(slot, held=row.held), row.watermark)
        )
        if slot is None:
            done.append((trigger_id, DONE))
    write_clocks(tx, moved)
    write_states(tx, done)
