"""Why a trigger ran, or did not run, at an instant: each slot's fate, from the ledger's rows and from what holds now."""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..triggers.schedule import Bounded, Schedule
from .control import find
from .store import fate_rows, trigger_rows
from .store.database import Store
from .store.fate_rows import Covering
from .store.report_items import Item
from .store.trigger_rows import DONE, ERROR, RETIRED, TriggerRow
from .store.tx import Tx
from .stored import Stored
from .waiting_for import waiting_for

MOST = 1000
"""So many slots of a range are explained."""


class Fate(NamedTuple):
    """What became of an instant.

    `code` says it in one word: ran, failed, lost, cancelled, running, waiting; skipped, coalesced, overlapped, paused, edited,
    error; excluded, no_slot, before, ended, retired, changed, forgotten; upcoming, undecided. `facts` are what is known beside
    the `firing` that tells it; instants there are µs.
    """

    at: int
    code: str
    firing: Item | None = None
    facts: Mapping[str, Any] = {}


class Explained(NamedTuple):
    """The fates of a range, and whether there are more."""

    key: str
    fates: list[Fate]
    more: bool


def explain_at(store: Store, key: str, at: int) -> Fate:
    """The fate of one instant (µs). Raises UnknownTrigger."""
    return store.read("explain", lambda tx: _Explainer(tx, key, at, at).fate(at))


def explain_between(store: Store, key: str, first: int, last: int) -> Explained:
    """The fates of all slots of `first`..`last`, those that calendars leave out with them; at most 1000."""

    def read(tx: Tx) -> Explained:
        explainer = _Explainer(tx, key, first, last)
        slots = explainer.slots()
        return Explained(
            explainer.row.key, [explainer.fate(slot) for slot in slots[:MOST]], len(slots) > MOST
        )

    return store.read("explain", read)


class _Explainer:
    """For one read; rows of a range are read once."""

    def __init__(self, tx: Tx, key: str, first: int, last: int) -> None:
        self._tx = tx
        trigger_id = find(tx, [key], retired=True)[key]
        self.row: TriggerRow = trigger_rows.read_triggers(tx, [trigger_id])[trigger_id]
        self._stored = Stored.of(self.row)
        self._span = first, last
        self._made_at, self._changed_at, self._error_kind, self._error_at = fate_rows.made_and_changed(
            tx, trigger_id
        )
        self._rows = fate_rows.rows_covering(tx, trigger_id, first, last)
        self._ends = [each.last for each in self._rows]
        self._backfills = fate_rows.backfills(tx, trigger_id, first, last)
        self._waits: tuple[str, Mapping[str, Any]] | None = None

    def slots(self) -> list[int]:
        """The slots of the range, those that rows tell of, and those that calendars leave out."""
        first, last = self._span
        found = {each.last for each in self._rows if first <= each.last <= last} | set(self._backfills)
        schedule = self._stored.schedule
        slot = None if schedule is None else schedule.slot_after(first - 1)
        while schedule is not None and slot is not None and slot <= last and len(found) <= MOST:
            found.add(slot)
            slot = schedule.slot_after(slot)
        found |= {each.slot for each in left_out(schedule, first, last, MOST)}
        return sorted(found)

    def fate(self, at: int) -> Fate:
        """What became of this instant."""
        fate = self._of_slot(at) or self._of_no_slot(at)
        backfilled = self._backfills.get(at)
        return fate if backfilled is None else fate._replace(facts={**fate.facts, "backfill": backfilled})

    def _of_slot(self, at: int) -> Fate | None:
        covering = self._covering(at)
        if covering is not None and (covering.last == at or self._is_slot(at)):
            return _of_row(at, covering)
        return self._of_undecided(at) if self._is_slot(at) else None

    def _covering(self, at: int) -> Covering | None:
        place = bisect_left(self._ends, at)
        found = self._rows[place] if place < len(self._rows) else None
        return found if found is not None and found.first <= at else None

    def _is_slot(self, at: int) -> bool:
        schedule = self._stored.schedule
        return schedule is not None and schedule.slot_after(at - 1) == at

    # -- a slot without a row ------------------------------------------------------------------------------------------

    def _of_undecided(self, at: int) -> Fate:
        row, now = self.row, self._tx.now()
        if at < self._made_at:
            return Fate(at, "before", facts={"made_at": self._made_at})
        if row.state == RETIRED:
            return Fate(at, "retired", facts={"since": self._changed_at})
        if row.state == DONE:
            return Fate(at, "ended", facts=self._end())
        if row.next_fire_at is not None and at >= row.next_fire_at:
            return self._of_open(at, now)
        if at < self._changed_at:
            return Fate(at, "changed", facts={"changed_at": self._changed_at})
        return Fate(at, "forgotten", facts={"watermark": row.watermark})

    def _of_open(self, at: int, now: int) -> Fate:
        """A slot that nobody has decided: it is to come, or something is in its way."""
        if self._beyond_last(at):
            return Fate(at, "ended", facts=self._end())
        why, facts = self._why_waiting()
        if at > now and why not in ("paused", "group_paused", "error"):
            return Fate(at, "upcoming")
        return Fate(at, "undecided", facts={"why": why, "due": at <= now, **facts})

    def _beyond_last(self, at: int) -> bool:
        """Whether max_fires will be used up before it."""
        schedule, most, begin = self._stored.schedule, self._stored.max_fires, self.row.next_fire_at
        if schedule is None or most is None or begin is None:
            return False
        return schedule.count_between(begin, at) > most - self.row.fires

    def _why_waiting(self) -> tuple[str, Mapping[str, Any]]:
        if self._waits is None:
            self._waits = waiting_for(self._tx, self.row, self._stored, self._tx.now())
            if self._waits[0] == ERROR:
                facts = {**self._waits[1], "kind": self._error_kind, "since": self._error_at}
                self._waits = ERROR, facts
        return self._waits

    def _end(self) -> dict[str, Any]:
        definition = self._stored.definition
        most, end_at = (None, None) if definition is None else (definition.max_fires, definition.end_at)
        return {"max_fires": most, "fires": self.row.fires, "end_at": end_at}

    # -- an instant that is no slot --------------------------------------------------------------------------------------

    def _of_no_slot(self, at: int) -> Fate:
        schedule = self._stored.schedule
        if schedule is None:
            return Fate(
                at, "undecided", facts={"why": "broken", "due": True, "problem": self._stored.problem}
            )
        if at < self._made_at:
            return Fate(at, "before", facts={"made_at": self._made_at, **_around(schedule, at)})
        out = left_out(schedule, at, at, 1)
        if out:
            facts = {"calendars": list(out[0].calendars), "rolled_to": out[0].rolled_to}
            return Fate(at, "excluded", facts=facts | _around(schedule, at))
        definition = self._stored.definition
        end_at = None if definition is None else definition.end_at
        if end_at is not None and at > end_at:
            return Fate(at, "ended", facts={**self._end(), **_around(schedule, at)})
        if definition is not None and (definition.delay is not None or definition.after is not None):
            return Fate(at, "no_slot", facts={"counts_from_ends": True})
        return Fate(at, "no_slot", facts=_around(schedule, at))


def _of_row(at: int, covering: Covering) -> Fate:
    """The fate that a row tells: its own slot's, or that of one it stands for."""
    item = covering.item
    if item["state"] == "skipped":
        if item["reason"] in ("paused", "edited", "error"):
            return Fate(at, str(item["reason"]), item)
        overlapped = "the job was running" in str(item["decision"])
        return Fate(at, "overlapped" if overlapped else "skipped", item)
    if at != covering.last:
        return Fate(at, "coalesced", item)
    states = {"succeeded": "ran", "due": "waiting"}
    return Fate(at, states.get(item["state"], str(item["state"])), item)


def left_out(schedule: Schedule | None, first: int, last: int, limit: int) -> list[Any]:
    """The slots that calendars leave out there (`LeftOut` of triggers/calendars/excluding.py)."""
    while schedule is not None:
        if isinstance(schedule, Bounded):
            first = first if schedule.start_at is None else max(first, schedule.start_at)
            last = last if schedule.end_at is None else min(last, schedule.end_at)
        found = getattr(schedule, "left_out", None)
        if callable(found):
            return list(found(first, last, limit)) if first <= last else []
        schedule = getattr(schedule, "inner", None)
    return []


def _around(schedule: Schedule, at: int) -> dict[str, Any]:
    return {"before": schedule.latest_before(at), "after": schedule.slot_after(at)}
