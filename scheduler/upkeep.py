"""Upkeep, once a second on every node: pauses that end, troubles that become errors, errors that clear themselves.

What a node cannot decide or load is first a fact about that node. It becomes the trigger's `error` only when every live
node says so (undecidable: at once, or after 60 s where there is but one; unloadable: after 10 minutes).
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence

from ..triggers.decide import Due, decide
from ..triggers.instant import MINUTE, SECOND
from ..triggers.trigger import SPEC_VERSION
from .definitions import KnownJob
from .errors import SchedulerError, StoreUnavailable
from .loaded_job import LoadedJob
from .parts import Parts
from .store.definition_reads import definition_hashes, job_versions, read_cluster
from .store.error_rows import clearable, lock_waiting, set_error, waiting_for_jobs
from .store.firing_rows import insert_firings
from .store.node_rows import Peer, live_nodes
from .store.trigger_lists import ended_group_pauses, ended_pauses
from .store.trigger_rows import (
    DONE,
    WAITING,
    ClockChange,
    TriggerRow,
    lock_triggers,
    write_clocks,
    write_states,
)
from .store.tx import Tx
from .stored import ERROR, Stored, closing_row, next_slot, span_owed, waits_for_end
from .zone_update import update_zones

ALONE = MINUTE
"""How long the only live node must find a trigger undecidable before it is in error."""
UNLOADABLE = 10 * MINUTE
"""How long no live node can load a job before its due triggers are in error."""
_CLEAR_EVERY = 60.0
_ZONES_EVERY = 600.0

log = logging.getLogger("qsched.upkeep")


class Upkeep:
    """One per node. `end_pauses(group keys, trigger keys)` resumes what was paused until now; `loaded` hears of jobs
    that could be loaded here for the first time."""

    def __init__(
        self,
        parts: Parts,
        end_pauses: Callable[[Sequence[str], Sequence[str]], None],
        tzdata: str | None = None,
        loaded: Callable[[list[tuple[KnownJob, LoadedJob]]], None] | None = None,
    ) -> None:
        self._parts = parts
        self._end_pauses = end_pauses
        self._tzdata = tzdata
        self._loaded = loaded
        self._zones_at = 0.0
        self._clear_at = 0.0

    def step(self) -> float:
        """Do what is due; answers the seconds after which to come again."""
        parts = self._parts
        _, defaults = parts.store.read("cluster", read_cluster)
        parts.definitions.set_defaults(defaults)
        groups, keys = parts.store.read(
            "ended pauses", lambda tx: (ended_group_pauses(tx), ended_pauses(tx, 100))
        )
        if groups or keys:
            self._end_pauses(groups, keys)
        if parts.definitions.undecidable() or parts.definitions.unloadable_jobs():
            self._forget_repaired()
            parts.store.transaction("errors", self._write_errors)
        try:
            self._do_seldom()
        except StoreUnavailable:
            self._zones_at = self._clear_at = 0.0  # not in ten minutes, but when the database answers
            raise
        return 1.0

    def _do_seldom(self) -> None:
        now = self._parts.clock.monotonic()
        if now >= self._zones_at:
            self._zones_at = now + _ZONES_EVERY
            update_zones(self._parts, self._tzdata)
        if now >= self._clear_at:
            self._clear_at = now + _CLEAR_EVERY
            self.clear_errors()

    def _forget_repaired(self) -> None:
        known = self._parts.definitions
        triggers, jobs = known.undecidable().keys(), known.unloadable_jobs().keys()
        known.forget_repaired(
            *self._parts.store.read(
                "versions", lambda tx: (definition_hashes(tx, triggers), job_versions(tx, jobs))
            )
        )

    # -- into error ----------------------------------------------------------------------------------------------------

    def _write_errors(self, tx: Tx) -> None:
        peers = live_nodes(tx)
        others = [peer for peer in peers if peer.incarnation != self._parts.who.incarnation]
        for trigger_id, reason in self._undecidable_everywhere(tx, others).items():
            log.error("trigger.error trigger_id=%s kind=undecidable reason=%s", trigger_id, reason)
            set_error(tx, trigger_id, "undecidable", reason)
        reasons = self._unloadable_everywhere(tx, others)
        for job_id, reason in reasons.items():
            for trigger_id in waiting_for_jobs(tx, [job_id]):
                log.error("trigger.error trigger_id=%s kind=unloadable reason=%s", trigger_id, reason)
                set_error(tx, trigger_id, "unloadable", reason)

    def _undecidable_everywhere(self, tx: Tx, others: list[Peer]) -> dict[int, str]:
        mine = self._parts.definitions.undecidable()
        said = [_said(peer.undecidable) for peer in others]
        found = {
            trigger_id: trouble
            for trigger_id, trouble in mine.items()
            if all(str(trigger_id) in each for each in said) and (others or tx.now() - trouble.since >= ALONE)
        }
        if not found:
            return {}
        # A clock that has moved since was repaired, or decided by somebody: its trouble is another's, or over.
        return {
            trigger_id: found[trigger_id].reason
            for trigger_id, version in lock_waiting(tx, found).items()
            if found[trigger_id].version in (None, version)
        }

    def _unloadable_everywhere(self, tx: Tx, others: list[Peer]) -> dict[int, str]:
        mine = self._parts.definitions.unloadable_jobs()
        said = [_said(peer.unloadable) for peer in others]
        return {
            job_id: reason
            for job_id, (since, reason) in mine.items()
            if tx.now() - since >= UNLOADABLE
            and all(tx.now() - _since(each.get(str(job_id))) >= UNLOADABLE for each in said)
        }

    # -- out of error ----------------------------------------------------------------------------------------------------

    def clear_errors(self) -> None:
        """Bring back triggers whose error this node does not share: it can decide them, and load their job."""
        parts = self._parts
        troubled = parts.store.read("clearable", clearable)
        if not troubled:
            return
        jobs, now = parts.store.read(
            "jobs", lambda tx: (parts.definitions.jobs(tx, {each.job_id for each in troubled}), tx.now())
        )
        unknown = [job_id for job_id, job in jobs.items() if parts.definitions.loaded(job) is None]
        fresh = parts.definitions.load(unknown, now)
        if fresh and self._loaded is not None:
            self._loaded(fresh)
        able = {job_id for job_id, job in jobs.items() if parts.definitions.loaded(job) is not None}
        for each in troubled:
            if each.job_id in able:
                try:
                    parts.store.transaction("clear error", lambda tx, i=each.id: self._clear(tx, i))  # type: ignore[misc]
                except SchedulerError as error:
                    log.warning("trigger.error_stays trigger_id=%s reason=%s", each.id, error)

    def _clear(self, tx: Tx, trigger_id: int) -> None:
        row = lock_triggers(tx, [trigger_id]).get(trigger_id)
        if row is None or row.state != "error":
            return
        stored = Stored.of(row)
        if stored.schedule is None or not self._can_decide(row, stored):
            return
        close_and_go_on(tx, row, stored)
        log.info("trigger.error_cleared trigger=%s", row.key)

    def _can_decide(self, row: TriggerRow, stored: Stored) -> bool:
        """Whether this node would not just find the same trouble again."""
        if row.id in self._parts.definitions.undecidable() or row.spec_version > SPEC_VERSION:
            return False
        assert stored.definition is not None
        assert stored.schedule is not None
        try:
            due = Due(
                stored.schedule,
                stored.definition.misfire,
                "allow",
                row.next_fire_at or 0,
                row.next_fire_at or 0,
            )
            decide(due, busy=False, capacity=1, now=row.next_fire_at or 0)
        except Exception:
            return False
        return True


def close_and_go_on(tx: Tx, row: TriggerRow, stored: Stored) -> None:
    """Leave `error`: one skipped row for what fell into it, and on with the first slot after now. The row is locked."""
    assert stored.schedule is not None
    now = tx.now()
    span = span_owed(row, stored, now=now)
    watermark = row.watermark
    if span is not None:
        insert_firings(tx, [closing_row(row, span, now=now, reason=ERROR, cluster=tx.cluster)])
        watermark = span.last
    following = next_slot(stored.schedule, stored.max_fires, row, after=max(now, watermark or now))
    write_clocks(
        tx,
        [ClockChange(row.id, row.version, following, stored.run_time(following, held=row.held), watermark)],
    )
    done = following is None and not waits_for_end(stored.schedule, row)
    write_states(tx, [(row.id, DONE if done else WAITING)])


def _said(text: str | None) -> Mapping[str, list[object]]:
    try:
        said = json.loads(text) if text else {}
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _since(entry: object) -> int:
    """Database time (µs) from which a peer has said so; the far future where it has not."""
    if isinstance(entry, list) and entry and isinstance(entry[0], int):
        return entry[0] * SECOND
    return 1 << 62
