"""How a locked trigger is stopped or goes on: what it owes becomes one skipped row, and its clock moves past it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict, TypeVar

from .firing import NewFiring
from .store import trigger_rows, waiting_rows
from .store.database import Store
from .store.firing_rows import insert_firings
from .store.trigger_rows import DONE, RETIRED, WAITING, ClockChange, TriggerRow
from .store.tx import Tx
from .stored import PAUSED, Span, Stored, closing_row, next_slot, span_owed, waits_for_end

CHUNK = 500
"""So many triggers are moved in one transaction; more are moved in several."""

T = TypeVar("T")


class PauseOptions(TypedDict, total=False):
    """Why, by whom, and until which instant (µs) a pause is; the end is kept by any node that lives then."""

    reason: str | None
    who: str | None
    until: int | None


@dataclass(frozen=True, slots=True)
class Bill:
    """What a pause or an error has cost a trigger: the slots that passed, and what comes next. Instants in µs."""

    key: str
    slots: int
    """Slots that were due and not decided."""
    first: int | None
    last: int | None
    held: int
    """Firings of earlier slots (retries, …) that wait."""
    next_fire_at: int | None
    """The first slot that is still to come."""


class Turns:
    """The moves of one transaction over locked triggers; `write` does them all."""

    def __init__(self, tx: Tx, known: dict[tuple[int, str], Stored]) -> None:
        self._tx = tx
        self._known = known
        self._closings: list[NewFiring] = []
        self._clocks: list[ClockChange] = []
        self._states: list[tuple[int, str]] = []
        self._next_of: dict[int, int | None] = {}
        self._job_ids: set[int] = set()
        self.now = tx.now()

    def stored(self, row: TriggerRow) -> Stored:
        """The row's definition; compiled before the transaction where it could be."""
        return self._known.get((row.id, row.spec)) or Stored.of(row)

    def stop(self, row: TriggerRow) -> None:
        """Nothing starts any more until `go_on`; what is owed so far is closed as paused."""
        stored = self.stored(row)
        if stored.schedule is None:
            self._clocks.append(ClockChange(row.id, row.version, row.next_fire_at, None, row.watermark))
        else:
            self._pass_on(row, stored, reason=PAUSED, held=True)

    def go_on(self, row: TriggerRow, *, reason: str, held: bool) -> None:
        """Go on with the first slot after now; what is owed is closed with `reason`. `held`: still paused otherwise."""
        stored = self.stored(row)
        if row.state != WAITING:
            return
        if stored.schedule is None:  # whoever decides it will find out what is wrong and say so
            self.catch_up(row, held=held)
            return
        self._pass_on(row, stored, reason=reason, held=held)

    def catch_up(self, row: TriggerRow, *, held: bool) -> None:
        """Go on with what is owed: the trigger's misfire rule has its say."""
        if row.state == WAITING:
            run_at = (
                None if held else row.next_fire_at
            )  # what is owed has waited long enough without its jitter
            self._clocks.append(ClockChange(row.id, row.version, row.next_fire_at, run_at, row.watermark))

    def restart(self, row: TriggerRow, stored: Stored, *, reason: str) -> None:
        """Begin anew from now, whatever the watermark says: the one way in which it may move back."""
        self._close(row, stored, reason)
        assert stored.schedule is not None
        slot = next_slot(stored.schedule, stored.max_fires, row, after=self.now)
        run_at = stored.run_time(slot, held=row.held)
        self._clocks.append(ClockChange(row.id, row.version, slot, run_at, self.now))
        done = slot is None and not waits_for_end(stored.schedule, row)
        self._states.append((row.id, DONE if done else WAITING))
        self._tell(row, slot)

    def retire(self, row: TriggerRow, *, reason: str) -> None:
        """Never again, until it is declared again; what is owed is closed, what runs ends by itself."""
        watermark = self._close(row, self.stored(row), reason)
        self._clocks.append(ClockChange(row.id, row.version, None, None, watermark))
        self._states.append((row.id, RETIRED))

    def write(self) -> None:
        """Write all moves, in the order of the house."""
        trigger_rows.write_clocks(self._tx, self._clocks)
        trigger_rows.write_states(self._tx, self._states)
        insert_firings(self._tx, self._closings)
        waiting_rows.rewrite_next(self._tx, self._next_of, self._job_ids)

    def _pass_on(self, row: TriggerRow, stored: Stored, *, reason: str, held: bool) -> None:
        assert stored.schedule is not None
        watermark = self._close(row, stored, reason)
        slot = row.next_fire_at
        if slot is None or slot <= self.now:
            slot = next_slot(stored.schedule, stored.max_fires, row, after=max(self.now, watermark or 0))
        self._clocks.append(
            ClockChange(row.id, row.version, slot, stored.run_time(slot, held=held), watermark)
        )
        if slot is None and not waits_for_end(stored.schedule, row):
            self._states.append((row.id, DONE))
        if slot != row.next_fire_at:
            self._tell(row, slot)

    def _close(self, row: TriggerRow, stored: Stored, reason: str) -> int | None:
        span = span_owed(row, stored, now=self.now)
        if span is None:
            return row.watermark
        self._closings.append(closing_row(row, span, now=self.now, reason=reason, cluster=self._tx.cluster))
        return span.last

    def _tell(self, row: TriggerRow, slot: int | None) -> None:
        self._next_of[row.id] = slot
        self._job_ids.add(row.job_id)


Move = Callable[[Tx, Turns, list[TriggerRow]], list[Bill]]


def move_triggers(
    store: Store, ids: Sequence[int], move: Move, first: Callable[[Tx], object] | None = None
) -> list[Bill]:
    """Do `move` to these triggers in one transaction; their definitions are compiled before it.

    `first` locks what comes before triggers in the order of the house.
    """
    before = store.read("read", lambda tx: trigger_rows.read_triggers(tx, ids))
    known = {(row.id, row.spec): Stored.of(row) for row in before.values()}

    def work(tx: Tx) -> list[Bill]:
        if first is not None:
            first(tx)
        rows = [row for _, row in sorted(trigger_rows.lock_triggers(tx, ids).items()) if row.state != RETIRED]
        return move(tx, Turns(tx, known), rows)

    return store.transaction("control", work)


def bill_of(row: TriggerRow, stored: Stored, *, now: int, held: int) -> Bill:
    """What the trigger owes at `now`, and where it would go on."""
    span = span_owed(row, stored, now=now) or Span(0, 0, 0)
    slot = row.next_fire_at
    if span.slots and stored.schedule is not None:
        slot = next_slot(stored.schedule, stored.max_fires, row, after=now)
    return Bill(row.key, span.slots, span.first or None, span.last or None, held, slot)


def chunks(values: Iterable[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    """`values` in pieces of `size`."""
    every = list(values)
    for start in range(0, len(every), size):
        yield every[start : start + size]
