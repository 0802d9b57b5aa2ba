"""Jitter: how much later than its slot a firing may run; drawn anew for each slot, and never told to the schedule."""

from hashlib import blake2b

from .schedule import Schedule


def run_time(key: str, slot: int, jitter: int | None, schedule: Schedule) -> int:
    """When the slot of the trigger `key` may run: at `slot`, or up to `jitter` (µs) later.

    Before the slot that follows, and not after the trigger's end. What is drawn depends on key and slot alone, so that it
    is the same for every node, and for whoever repeats a transaction.
    """
    if jitter is None:
        return slot
    most = jitter
    following = schedule.slot_after(slot)
    if following is not None:
        most = min(most, following - slot - 1)
    end_at: int | None = getattr(schedule, "end_at", None)
    if end_at is not None:
        most = min(most, end_at - slot)
    if most <= 0:
        return slot
    drawn = int.from_bytes(blake2b(f"{key} {slot}".encode(), digest_size=8).digest(), "big")
    return slot + drawn % (most + 1)
