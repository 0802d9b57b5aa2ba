"""Backfill: slots of a schedule that passed become firings of their own, each once however often it is asked for."""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple, TypedDict

from ..triggers.errors import DefinitionError
from ..triggers.instant import rfc3339
from ..triggers.job import JobPolicies
from ..triggers.schedule import COUNT_LIMIT, Schedule
from .asked import Asked, Places, asked_firing, policies_now
from .control import find, refuse_stopped
from .errors import ConstraintHit, Refused, StoreUnavailable
from .firing import BACKFILL, DUE, RUNNING, SUCCEEDED, NewFiring, serial_key
from .store import definition_rows, job_rows, permit_rows, trigger_rows
from .store.backfill_rows import Decided, decided_between
from .store.database import Store
from .store.firing_rows import insert_firings
from .store.trigger_rows import TriggerRow
from .store.tx import Tx
from .stored import Stored

QUEUE: Final = "queue"
ALLOW: Final = "allow"
BATCH: Final = 500
"""So many firings a transaction writes, at most: its trigger's clock is locked for as long."""


class BackfillOptions(TypedDict, total=False):
    """How it runs; see BackfillOrder."""

    overlap: str
    again: bool
    force: bool


class BackfillOrder(NamedTuple):
    """Which slots (`first`..`last`, both included, µs) of which trigger, and how they run.

    `overlap`: `queue` runs them one at a time, oldest first; `allow` as many at once as there are places. A job that does
    not allow overlap takes turns in any case.
    """

    key: str
    first: int
    last: int
    overlap: str = QUEUE
    again: bool = False
    """Also slots that ran, or that were backfilled, before."""
    force: bool = False
    """Although the trigger is paused, in error or retired."""
    batch: int = BATCH
    who: str | None = None


class BackfillBill(NamedTuple):
    """What a backfill does, or would do: counts of slots, instants in µs."""

    key: str
    slots: int
    """Slots of the schedule in the range that are the trigger's no more."""
    to_start: int
    first: int | None
    last: int | None
    """The oldest and the newest of those that start."""
    ran: int
    """Left out: they succeeded as the schedule's or a misfire's firing."""
    open: int
    """Left out: their firing waits or runs now."""
    backfilled: int
    """Left out: they have a backfill's firing that has ended already."""
    undecided: int
    """Left out: the trigger has not decided them yet and will."""

    def __add__(self, other: object) -> "BackfillBill":
        assert isinstance(other, BackfillBill)
        counts = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        first = other.first if self.first is None else self.first
        last = self.last if other.last is None else other.last
        return self._replace(**counts, first=first, last=last)


_COUNTS = ("slots", "to_start", "ran", "open", "backfilled", "undecided")


class BackfillStep(NamedTuple):
    """One transaction of a backfill: what it did, and where to go on (a slot, µs; None: that was the last)."""

    bill: BackfillBill
    firings: list[int]
    following: int | None


def backfill_bill(store: Store, order: BackfillOrder) -> BackfillBill:
    """What `backfill` would do now; reads only. Raises what it raises."""

    def read(tx: Tx) -> BackfillBill:
        row = _row(tx, order, lock=False)
        stored = _checked(row, order)
        total = _empty(row.key)
        for slots in _chunks(stored, order, BATCH):
            total += _sorted_out(tx, row, order, slots)[0]
        return total

    return store.read("backfill bill", read)


def backfill(store: Store, order: BackfillOrder) -> Iterator[BackfillStep]:
    """Have the range's slots run, oldest first; each step is one committed transaction of at most `batch` slots.

    To stop between steps leaves nothing half done, and to begin again starts nothing twice. Raises UnknownTrigger, Refused
    (a trigger that is stopped, without `force`; one without slots of its own; more than 100,000 slots), StoreError.
    """
    following: int | None = order.first
    began = True
    while following is not None:
        step = _step(store, order._replace(first=following), audit=began)
        yield step
        following, began = step.following, False


def backfill_all(store: Store, order: BackfillOrder) -> BackfillBill:
    """All steps of a backfill at once, and what they did together."""
    total = _empty(order.key)
    for step in backfill(store, order):
        total += step.bill
    return total


def _step(store: Store, order: BackfillOrder, *, audit: bool) -> BackfillStep:
    def work(tx: Tx) -> BackfillStep:
        row = _row(tx, order, lock=True)
        stored = _checked(row, order)
        slots = next(_chunks(stored, order, order.batch), [])
        if not slots:
            return BackfillStep(_empty(row.key), [], None)
        bill, keys = _sorted_out(tx, row, order, slots)
        if audit:
            span = {"from": rfc3339(order.first), "to": rfc3339(order.last), "overlap": order.overlap}
            definition_rows.write_audit(tx, order.who, "backfill", [row.key], span)
        firings = insert_firings(tx, _firings(tx, row, order, keys)) if keys else []
        assert stored.schedule is not None
        following = stored.schedule.slot_after(slots[-1])
        return BackfillStep(bill, firings, None if following is None or following > order.last else following)

    try:
        return store.transaction("backfill", work)
    except ConstraintHit:
        pass  # somebody's request has one of the keys since a moment ago
    except StoreUnavailable as error:
        if not error.in_doubt:
            raise
    # By their request keys they are the same firings, whether they landed or not.
    return store.transaction("backfill", work)


def _row(tx: Tx, order: BackfillOrder, *, lock: bool) -> TriggerRow:
    trigger_id = find(tx, [order.key], retired=True)[order.key]
    read = trigger_rows.lock_triggers if lock else trigger_rows.read_triggers
    return read(tx, [trigger_id])[trigger_id]


def _checked(row: TriggerRow, order: BackfillOrder) -> Stored:
    if order.overlap not in (QUEUE, ALLOW):
        raise DefinitionError(f"a backfill's overlap is queue or allow, not {order.overlap!r}")
    if not order.force:
        refuse_stopped(row, hint="backfill it all the same with --force")
    stored = Stored.of(row)
    if stored.schedule is None or stored.definition is None:
        raise Refused(f"trigger {row.key!r} cannot be read: {stored.problem}", hint="apply it again")
    if stored.definition.delay is not None or stored.definition.after is not None:
        raise Refused(
            f"trigger {row.key!r} has no slots that could be filled: it counts from the ends of runs",
            hint=f"`qsched triggers fire {row.key}` starts it now",
        )
    if stored.schedule.count_between(order.first, order.last) > COUNT_LIMIT:
        raise Refused(
            f"trigger {row.key!r} has more than {COUNT_LIMIT:,} slots there", hint="backfill it in parts"
        )
    return stored


def _chunks(stored: Stored, order: BackfillOrder, size: int) -> Iterator[list[int]]:
    assert stored.schedule is not None
    slots = _slots(stored.schedule, order.first, order.last)
    while chunk := list(islice(slots, size)):
        yield chunk


def _slots(schedule: Schedule, first: int, last: int) -> Iterator[int]:
    slot = schedule.slot_after(first - 1)
    while slot is not None and slot <= last:
        yield slot
        slot = schedule.slot_after(slot)


def _sorted_out(
    tx: Tx, row: TriggerRow, order: BackfillOrder, slots: list[int]
) -> tuple[BackfillBill, dict[int, str]]:
    """What becomes of each of `slots`: their bill, and {slot: request key} of those that start."""
    last: dict[int, list[Decided]] = {}
    for each in decided_between(tx, row.id, slots[0], slots[-1]):
        last.setdefault(each.scheduled_at, []).append(each)
    counts = dict.fromkeys(_COUNTS, 0)
    keys: dict[int, str] = {}
    for slot in slots:
        fate = _fate(row, slot, last.get(slot, []), now=tx.now())
        counts["slots"] += 1
        if fate in ("to_start", "ran", "backfilled") and (fate == "to_start" or order.again):
            keys[slot] = _request_key(row.id, slot, last.get(slot, []))
            fate = "to_start"
        counts[fate] += 1
    began, ended = (min(keys), max(keys)) if keys else (None, None)
    return BackfillBill(row.key, first=began, last=ended, **counts), keys


def _fate(row: TriggerRow, slot: int, known: list[Decided], *, now: int) -> str:
    """Whether a slot may start, or why it is left out."""
    if slot > now or (row.next_run_at is not None and slot >= (row.next_fire_at or 0)):
        return "undecided"
    if any(each.state in (DUE, RUNNING) for each in known):
        return "open"
    if any(each.reason != BACKFILL and each.state == SUCCEEDED for each in known):
        return "ran"
    return "backfilled" if any(each.reason == BACKFILL for each in known) else "to_start"


def _request_key(trigger_id: int, slot: int, known: list[Decided]) -> str:
    """The same for whoever asks again; one that is asked for *once more* names the firing that it comes after."""
    key = f"{BACKFILL}:{trigger_id}:{slot}"
    return f"{key}:{known[-1].id}" if any(each.request_key == key for each in known) else key


def _firings(tx: Tx, row: TriggerRow, order: BackfillOrder, keys: dict[int, str]) -> list[NewFiring]:
    policies = policies_now(tx, row.job_name, job_rows.read_jobs(tx, [row.job_name]).get(row.job_name))
    places = _places(tx, row, order)
    return [_firing(tx, row, (slot, key), policies, places) for slot, key in sorted(keys.items())]


def _places(tx: Tx, row: TriggerRow, order: BackfillOrder) -> Places:
    places = Places.of(row.job_id, row.overlap, row.limit_key)
    if places.permit_key is not None or order.overlap == ALLOW:
        return places
    key = serial_key(row.id)
    permit_rows.make_permits(tx, {key})
    return places._replace(permit_key=key)


def _firing(
    tx: Tx, row: TriggerRow, what: tuple[int, str], policies: JobPolicies, places: Places
) -> NewFiring:
    slot, request_key = what
    asked = Asked(
        reason=BACKFILL,
        job_id=row.job_id,
        job_name=row.job_name,
        request_key=request_key,
        scheduled_at=slot,
        run_at=tx.now(),  # not the slot's: then the whole past would stand before what is on time
        precedence=row.precedence,
        trigger_id=row.id,
        trigger_name=row.key,
    )
    return asked_firing(tx, asked, policies, places)


def _empty(key: str) -> BackfillBill:
    return BackfillBill(key, first=None, last=None, **dict.fromkeys(_COUNTS, 0))
