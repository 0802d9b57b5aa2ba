"""New rules for a time zone: next fires that were computed with older zone data are computed again, never the reverse.

A next fire lies up to months ahead; left as it is, it would be an hour off after its zone's rules have changed.
"""

import logging

from ..triggers.errors import QschedError
from .parts import Parts
from .store import trigger_lists, trigger_rows
from .store.definition_reads import claim_tzdata, oldest_tzdata
from .store.trigger_rows import WAITING, ClockChange
from .store.tx import Tx
from .stored import Stored, next_slot

_CHUNK = 200

log = logging.getLogger("qsched.zones")


def version_key(version: str | None) -> tuple[int, ...]:
    """`2026.10` is newer than `2026.9`; what is not a version is older than all."""
    parts = (version or "").split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()


def update_zones(parts: Parts, mine: str | None) -> int:
    """Compute next fires again if this node's zone data are newer than those of the cluster; how many changed.

    While a node with older data lives, it is done again each time: that node computes with the old rules when it fires.
    """
    if not version_key(mine) or mine is None:
        return 0
    known, oldest_live = parts.store.read("zone data", lambda tx: oldest_tzdata(tx, version_key))
    if known is None:
        parts.store.transaction("zone data", lambda tx: claim_tzdata(tx, mine))
        return 0
    newer = version_key(mine) > version_key(known)
    if version_key(mine) < version_key(known) or not (newer or version_key(oldest_live) < version_key(mine)):
        return 0
    changed = _compute_again(parts)
    if newer:
        parts.store.transaction("zone data", lambda tx: claim_tzdata(tx, mine))
        log.info("zones.updated from=%s to=%s next_fires_changed=%s", known, mine, changed)
    return changed


def _compute_again(parts: Parts) -> int:
    changed, last = 0, 0
    while ids := parts.store.read(
        "zoned triggers",
        lambda tx, after=last: trigger_lists.waiting_ids(tx, after, _CHUNK),  # type: ignore[misc]
    ):
        changed += parts.store.transaction("zone update", lambda tx, chunk=ids: _chunk(tx, chunk))  # type: ignore[misc]
        last = ids[-1]
    return changed


def _chunk(tx: Tx, ids: list[int]) -> int:
    now, changes = tx.now(), []
    for row in trigger_rows.lock_triggers(tx, ids).values():
        if row.state != WAITING or row.next_fire_at is None or row.next_fire_at <= now:
            continue  # what is due is decided by what was computed: a slot is never taken back
        stored = Stored.of(row)
        if (
            stored.definition is None
            or stored.schedule is None
            or (stored.definition.time_zone == "UTC" and not stored.definition.exclude)
        ):
            continue
        if stored.definition.delay is not None:
            continue  # it counts from an end, which no zone moves
        try:
            following = next_slot(
                stored.schedule, stored.max_fires, row, after=max(now, row.watermark or now)
            )
        except QschedError:
            continue
        if following is not None and following != row.next_fire_at:
            changes.append(
                ClockChange(
                    row.id, row.version, following, stored.run_time(following, held=row.held), row.watermark
                )
            )
    trigger_rows.write_clocks(tx, changes)
    return len(changes)
