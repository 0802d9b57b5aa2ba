"""Delay: the next slot of a trigger whose slots count from ends, set in the transaction that writes the end.

So whoever ends its firing (its node, a rescuer, a drain, a cancel of what waits) says when it is next; an end that was
written without that (of a firing that nobody could start) is followed when the sweep has seen it.
"""

from collections.abc import Collection, Mapping

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
        if row.next_fire_at is not None:
            continue  # it had its slots in another way when this firing began
        after = max(ends[trigger_id], row.watermark or 0)
        slot = next_slot(stored.schedule, stored.max_fires, row, after=after)
        moved.append(
            ClockChange(row.id, row.version, slot, stored.run_time(slot, held=row.held), row.watermark)
        )
        if slot is None:
            done.append((trigger_id, DONE))
    write_clocks(tx, moved)
    write_states(tx, done)


def delayed_triggers(tx: Tx, firing_ids: Collection[int]) -> set[int]:
    """Of the triggers of these firings, those whose slots count from ends: whoever ends them locks their clocks before."""
    if not firing_ids:
        return set()
    condition, values = tx.among("f.id", sorted(set(firing_ids)))
    rows = tx.rows(
        "SELECT c.id FROM qsched_firings f JOIN qsched_trigger_clocks c ON c.id = f.trigger_id"
        f" WHERE f.cluster = ? AND {condition} AND c.delay IS NOT NULL",
        tx.cluster,
        *values,
    )
    return {row[0] for row in rows}
