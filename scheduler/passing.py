"""A trigger that stands before slots which have their rows already goes on behind them; nothing is decided twice."""

from .definitions import CompiledTrigger
from .store.late_firings import slot_has_row
from .store.trigger_rows import WAITING, ClockChange, lock_triggers, write_clocks
from .store.tx import Tx

_MOST = 1000


def pass_decided(tx: Tx, trigger: CompiledTrigger | None) -> int:
    """Move the watermark past slots that were decided before; answers how many. Only an audited reset leads here."""
    if trigger is None:
        return 0
    row = lock_triggers(tx, [trigger.id]).get(trigger.id)
    if row is None or row.state != WAITING:
        return 0
    slot, passed, watermark = row.next_fire_at, 0, row.watermark
    while slot is not None and passed < _MOST and slot_has_row(tx, trigger.id, slot):
        watermark, passed = slot, passed + 1
        slot = trigger.schedule.slot_after(slot)
    if passed:
        write_clocks(tx, [ClockChange(row.id, row.version, slot, None if row.held else slot, watermark)])
    return passed
