"""The events of a whole cluster, made by a reader out of the ledger: nobody writes them, so that they cost nodes nothing."""

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from .clock import Clock, SystemClock
from .events import Event, Fact
from .rare_events import RareEvents
from .store import event_rows
from .store.database import Store
from .store.event_rows import Moved, Of
from .store.trail_rows import ledger_rows, trails
from .store.tx import Tx

LATE: Final = 30.0
"""Seconds for which an id that was passed by may still come: it was given before its transaction was committed."""
_BEFORE: Final = 5000
"""So many ids before the newest are looked at again when one begins, when it is not known yet how fast they are given."""
_PAGE: Final = 1000

Key = tuple[Fact, int]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events: of one trigger (its id and key), of these facts; all by default."""

    trigger_id: int | None = None
    trigger: str | None = None
    facts: Collection[str] = ()

    def has(self, event: Event) -> bool:
        """Whether an event is among them. A paused group's is, where the trigger is of that group."""
        if self.facts and event.fact not in self.facts:
            return False
        if self.trigger is None or event.trigger == self.trigger:
            return True
        group = self.trigger.rpartition("/")[0] or "default"
        return event.trigger == f"{group}/*"


class EventStream:
    """What happened, then what happens: `begin`, `newest`, and `poll` again and again. Reads only.

    Each fact comes once, those of a poll in the order of their instants; one that was committed late comes late.
    """

    def __init__(self, store: Store, wanted: Wanted | None = None, clock: Clock | None = None) -> None:
        self._store = store
        self._wanted = wanted or Wanted()
        self._clock = clock or SystemClock()
        self._of = Of() if self._wanted.trigger_id is None else Of.trigger(self._wanted.trigger_id)
        self._rare = RareEvents()
        self._told: dict[int, set[Key]] = {}
        """Of the firings that are open: what was told of them."""
        self._seen: dict[int, Moved] = {}
        self._known: set[int] = set()
        """The ids beyond `_floor` that were read."""
        self._floor = 0
        self._answered: set[tuple[object, ...]] = set()
        self._passed: deque[tuple[float, int]] = deque()

    def begin(self) -> list[Event]:
        """Know all that is so now; answers what the firings that are open have behind them, oldest first."""
        return self._store.read("events", self._begin)

    def _begin(self, tx: Tx) -> list[Event]:
        self._told, self._seen = {}, {}
        self._rare.begin(tx)
        # The last id first: what is open and came later is found by the first poll.
        last = event_rows.last_firing(tx)
        self._floor = max(0, last - _BEFORE)
        ids = event_rows.ids_after(tx, self._floor, self._of)
        self._known = set(ids)
        self._passed = deque([(self._clock.monotonic(), last)])
        return self._in_order(self._read(tx, event_rows.open_now(tx, self._of)))

    def newest(self, most: int) -> list[Event]:
        """The newest `most` events of firings, oldest first: of those with the highest ids, and of open ones."""
        found = self._store.read("newest events", lambda tx: self._newest(tx, most))
        return self._shown(found[-most:])

    def since(self, instant: int) -> list[Event]:
        """Every event since an instant (µs), oldest first."""

        def work(tx: Tx) -> list[Event]:
            where = "(f.noticed_at >= ? OR f.finished_at >= ? OR f.state IN ('due', 'running'))"
            rows = ledger_rows(tx, f"{where} AND {self._of.where}", instant, instant, *self._of.values)
            events = [event for events in trails(tx, rows).values() for event in events]
            return self._in_order([*events, *self._rare.before(tx, instant)])

        return self._shown([event for event in self._store.read("events since", work) if event.at >= instant])

    def _shown(self, events: list[Event]) -> list[Event]:
        """What is so since `begin` would come again with the first poll."""
        self._answered = {_name_of(event) for event in events}
        return events

    def _newest(self, tx: Tx, most: int) -> list[Event]:
        found: list[Event] = []
        before = 1 << 62
        while len(found) < most:
            rows = ledger_rows(
                tx,
                f"f.id IN (SELECT id FROM (SELECT f.id FROM qsched_firings f WHERE f.cluster = ? AND f.id < ?"
                f" AND {self._of.where} ORDER BY f.id DESC LIMIT {_PAGE}) page)",
                *(tx.cluster, before, *self._of.values),
            )
            if not rows:
                break
            found += [
                event for events in trails(tx, rows).values() for event in events if self._wanted.has(event)
            ]
            before = rows[0].id
        oldest = min((event.at for event in found), default=0)
        found += [event for event in self._rare.before(tx, oldest) if self._wanted.has(event)]
        return self._in_order(found)

    def poll(self) -> list[Event]:
        """What became so since the last look, oldest first."""
        events = [
            event for event in self._store.read("events", self._poll) if _name_of(event) not in self._answered
        ]
        self._answered = set()
        return events

    def _poll(self, tx: Tx) -> list[Event]:
        now = self._clock.monotonic()
        rare = self._rare.poll(tx)
        ids = event_rows.ids_after(tx, self._floor, self._of)
        changed = {number for number in ids if number not in self._known}
        found = {each.id: each for each in event_rows.moved(tx, self._seen)} if self._seen else {}
        changed |= {number for number, each in found.items() if each != self._seen[number]}
        for number in self._seen.keys() - found.keys():  # pruned, or deleted by hand
            del self._seen[number], self._told[number]
        events = self._read(tx, changed)
        self._known.update(changed)
        self._pass_by(now, max([self._floor, *ids]))
        return self._in_order([*events, *rare])

    def _pass_by(self, now: float, last: int) -> None:
        """Ids that were the newest so long ago are not looked at again."""
        self._passed.append((now, last))
        while len(self._passed) > 1 and self._passed[0][0] < now - LATE:
            self._floor = max(self._floor, self._passed.popleft()[1])
        self._known = {number for number in self._known if number > self._floor}

    def _read(self, tx: Tx, ids: Iterable[int]) -> list[Event]:
        """What is new of these firings."""
        fresh: list[Event] = []
        wanted = sorted(ids)
        for start in range(0, len(wanted), _PAGE):
            condition, values = tx.among("f.id", wanted[start : start + _PAGE])
            rows = ledger_rows(tx, condition, *values)
            of = trails(tx, rows)
            for row in rows:
                told = self._told.setdefault(row.id, set())
                for event in of[row.id]:
                    key = (event.fact, 0 if event.fact is Fact.CANCEL_REQUESTED else event.fence)
                    if key not in told:
                        told.add(key)
                        fresh.append(event)
                if row.state in ("due", "running"):
                    self._seen[row.id] = Moved(
                        row.id, row.state, row.fence, row.policy, row.cancel_requested_at
                    )
                else:
                    self._seen.pop(row.id, None)
                    self._told.pop(row.id, None)
        return fresh

    def _in_order(self, events: list[Event]) -> list[Event]:
        """Those that are wanted; of one instant as the trails have them."""
        return sorted((event for event in events if self._wanted.has(event)), key=lambda event: event.at)


def _name_of(event: Event) -> tuple[object, ...]:
    """What makes two events the same one."""
    if event.firing is not None and event.fact is not Fact.OPERATED:
        return event.fact, event.firing, event.fence
    return event.fact, event.at, event.trigger, event.node, event.firing, event.reason
