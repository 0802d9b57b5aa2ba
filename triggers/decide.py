"""What becomes of a due trigger's undecided slots: pure and total, from trigger, job state and time.

On time (the oldest slot is not older than the threshold) every slot fires on its own. Misfired, all undecided
slots are one incident and the policy decides them together. Overlap is asked afterwards, only for what
would run.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from .errors import ScheduleError
from .misfire import FIRE_ALL, FIRE_ONCE, SKIP, MisfireRule
from .once import At
from .schedule import COUNT_LIMIT, Schedule

SCHEDULE: Final = "schedule"
MISFIRE: Final = "misfire"
OVERLAP: Final = "overlap"


class Due(NamedTuple):
    """What a decision needs to know of one due trigger; instants are microseconds."""

    schedule: Schedule
    rule: MisfireRule
    overlap: str
    """allow, queue, skip or cancel."""
    next_fire_at: int
    """The oldest undecided slot."""
    next_run_at: int
    """That slot and its jitter; equal to it without jitter."""
    max_fires: int | None = None
    fires: int = 0
    after_end: bool = False
    """Its next slot counts from the end of what runs now: while something of it runs there is none."""

    @property
    def run_at(self) -> int:
        return max(self.next_fire_at, self.next_run_at)


class Row(NamedTuple):
    """One row of the ledger to write: it stands for `covers` slots, first_scheduled_at to scheduled_at."""

    runs: bool
    """True: a firing that runs. False: a `skipped` row."""
    reason: str
    """schedule or misfire."""
    scheduled_at: int
    first_scheduled_at: int
    covers: int
    """How many slots; COUNT_LIMIT is a lower bound."""
    late: int
    """How long its first slot (with its jitter) had been due when this was decided."""
    cause: str | None = None
    """overlap where it is known here; None where it is to be found in the node rows, or nothing is wrong."""
    policy: str | None = None
    decision: str | None = None
    serial: bool = False
    """At most one firing of this trigger's serial rows runs at a time; only the first needs capacity now."""


class Decision(NamedTuple):
    """The rows to write, oldest first, and how the trigger's clock moves with them."""

    rows: tuple[Row, ...]
    next_fire_at: int | None
    """The oldest slot still undecided; None when there is none any more, or none until what runs has ended."""
    watermark: int
    """The last slot decided; always before next_fire_at."""
    fires: int
    """To add: rows that run."""
    misfires: int
    """To add: misfired slots."""
    done: bool


@dataclass(frozen=True, slots=True)
class _Span:
    """Undecided slots that are decided together, known by first, last and count."""

    first: int
    last: int
    count: int


def decide(due: Due, *, busy: bool, capacity: int, now: int) -> Decision | None:
    """The decision over the slots due at `now`; None when nothing can be decided now.

    That is: nothing is due; or it would start something and there is no capacity; or the job is busy and its
    overlap is queue or cancel (for cancel ask `wants_cancel`). Never raises where the schedule does not.
    """
    if (single := _one_on_time(due, capacity, now)) is not None:
        return single
    if due.run_at > now:
        return None
    schedule = due.schedule
    if due.after_end:  # what comes behind this slot depends on when its run ends
        due = due._replace(schedule=At(due.next_fire_at))
    if _fires_left(due) == 0:  # slots beyond max_fires do not exist
        return Decision((), None, due.next_fire_at - 1, fires=0, misfires=0, done=True)
    if not _starts(due, now):
        rows = _without_start(due, now)
    elif busy and due.overlap in ("queue", "cancel"):
        return None
    elif busy and due.overlap == "skip":
        rows = _while_running(due, now)
    elif capacity < 1:
        return None
    elif is_misfired(due, now=now):
        rows = _incident(due, now)
    else:
        rows = _on_time(due, now, capacity)
    return _advance(due._replace(schedule=schedule), rows, now)


def _one_on_time(due: Due, capacity: int, now: int) -> Decision | None:
    """The same decision for what nearly every look finds: one slot, on time, of a job that may run any number of times."""
    slot = due.next_fire_at
    late = now - slot
    if (
        not 0 <= late <= due.rule.threshold
        or due.overlap != "allow"
        or due.max_fires is not None
        or due.next_run_at > slot
        or due.after_end
        or capacity < 1
    ):
        return None
    following = due.schedule.slot_after(slot)
    if following is not None and following <= now:
        return None
    row = Row(True, SCHEDULE, slot, slot, 1, late)
    return Decision((row,), following, slot, 1, 0, following is None)


def is_misfired(due: Due, *, now: int) -> bool:
    """Whether the oldest undecided slot is older than the threshold."""
    return now - due.run_at > due.rule.threshold


def wants_cancel(due: Due, *, busy: bool, now: int) -> bool:
    """Whether what runs of the job now is to be cancelled, so that this trigger's slot can run."""
    return (
        busy and due.overlap == "cancel" and due.run_at <= now and _fires_left(due) != 0 and _starts(due, now)
    )


def owed(due: Due, *, now: int) -> tuple[int, int, int] | None:
    """(first, last, count) of the undecided slots ≤ now, which whoever stops or moves the trigger must close.

    Slots whose jitter has not come yet are among them. The count stops at COUNT_LIMIT.
    """
    if due.next_fire_at > now or _fires_left(due) == 0:
        return None
    span = _undecided(due, now)
    return span.first, span.last, span.count


def counted(slots: int) -> str:
    """A count of slots in words: `9`, or `at least 100000` where counting stopped."""
    return str(slots) if slots < COUNT_LIMIT else f"at least {COUNT_LIMIT}"


def _fires_left(due: Due) -> int:
    """How many rows may still run."""
    return COUNT_LIMIT if due.max_fires is None else max(due.max_fires - due.fires, 0)


def _starts(due: Due, now: int) -> bool:
    """Whether the decision would run something, overlap aside."""
    if not is_misfired(due, now=now):
        return True
    if due.rule.policy == FIRE_ALL:
        return _undecided(due, now).last >= now - due.rule.window
    return due.rule.policy == FIRE_ONCE


def _count(due: Due, first: int, last: int) -> int:
    """How many slots lie in first..last; `first` counts as one in any case. At most COUNT_LIMIT."""
    later = due.schedule.count_between(first + 1, last) if first < last else 0
    return min(1 + later, COUNT_LIMIT)


def _latest(due: Due, instant: int) -> int:
    """The last undecided slot ≤ `instant`, and never before the oldest one."""
    latest = due.schedule.latest_before(instant)
    return due.next_fire_at if latest is None else max(due.next_fire_at, latest)


def _undecided(due: Due, now: int) -> _Span:
    """All undecided slots ≤ now; the oldest counts even where the schedule does not name it any more."""
    first = due.next_fire_at
    last = _latest(due, now)
    return _Span(first, last, _count(due, first, last))


def _come(due: Due, now: int) -> _Span:
    """The undecided slots whose run time has come.

    With jitter the newest slot's is not drawn before the trigger advances to it, and jitter ends before the
    next slot: so all but the newest have come.
    """
    span = _undecided(due, now)
    if due.run_at == due.next_fire_at or span.count == 1:
        return span
    before = _latest(due, span.last - 1)
    return _Span(span.first, before, _count(due, span.first, before))


def _late(due: Due, first: int, now: int) -> int:
    return now - (due.run_at if first == due.next_fire_at else first)


def _skipped(due: Due, span: _Span, now: int, decision: str) -> Row:
    """A row for slots that the misfire rule does not run."""
    return Row(
        runs=False,
        reason=MISFIRE,
        scheduled_at=span.last,
        first_scheduled_at=span.first,
        covers=span.count,
        late=_late(due, span.first, now),
        policy=due.rule.policy,
        decision=decision,
    )


def _overlapped(due: Due, span: _Span, now: int, decision: str) -> Row:
    """A row for slots that do not run because the job was running."""
    return Row(
        runs=False,
        reason=MISFIRE if is_misfired(due, now=now) else SCHEDULE,
        scheduled_at=span.last,
        first_scheduled_at=span.first,
        covers=span.count,
        late=_late(due, span.first, now),
        cause=OVERLAP,
        policy=due.overlap,
        decision=decision,
    )


def _without_start(due: Due, now: int) -> list[Row]:
    """A misfire of which nothing runs: policy skip, or fire_all with every slot beyond its window."""
    span = _undecided(due, now)
    text = f"skipped {counted(span.count)}" if due.rule.policy == SKIP else "beyond window"
    return [_skipped(due, span, now, text)]


def _while_running(due: Due, now: int) -> list[Row]:
    """Overlap skip while the job is busy: what would run is skipped; what would not is as it would be."""
    older, span = _beyond(due, now) if is_misfired(due, now=now) else ([], _come(due, now))
    return [*older, _overlapped(due, span, now, f"skipped {counted(span.count)}: the job was running")]


def _beyond(due: Due, now: int) -> tuple[list[Row], _Span]:
    """Of an incident: the row for what fire_all leaves out (if it does), and the span of what would run."""
    span = _undecided(due, now)
    if due.rule.policy != FIRE_ALL:
        return [], span
    older, slots = _newest(due, now)
    return older, _Span(slots[0], slots[-1], len(slots))


def _incident(due: Due, now: int) -> list[Row]:
    """A misfire of which something runs: the last slot for all (fire_once), or the newest (fire_all)."""
    if due.rule.policy == FIRE_ALL:
        older, slots = _newest(due, now)
        slots = slots[: _fires_left(due)]
        decision = f"ran each of {counted(len(slots))}"
        return older + [_run(due, slot, now, decision=decision, serial=True) for slot in slots]
    span = _undecided(due, now)
    return [
        Row(
            runs=True,
            reason=MISFIRE,
            scheduled_at=span.last,
            first_scheduled_at=span.first,
            covers=span.count,
            late=_late(due, span.first, now),
            policy=due.rule.policy,
            decision=f"ran the last of {counted(span.count)}",
        )
    ]


def _newest(due: Due, now: int) -> tuple[list[Row], list[int]]:
    """fire_all's row for what it leaves out, and what it runs: the newest `limit` in `window`, in order."""
    span = _undecided(due, now)
    oldest = now - due.rule.window
    slots: list[int] = []
    slot: int | None = span.last
    while slot is not None and slot >= oldest and len(slots) < due.rule.limit:
        slots.append(slot)
        slot = _slot_before(due, slot)
    slots.reverse()
    if slot is None:
        return [], slots
    rest = _Span(span.first, slot, _count(due, span.first, slot))
    return [_skipped(due, rest, now, "beyond window" if slot < oldest else "beyond limit")], slots


def _slot_before(due: Due, slot: int) -> int | None:
    """The undecided slot before `slot`; None when it is the oldest."""
    return None if slot <= due.next_fire_at else _latest(due, slot - 1)


def _run(due: Due, slot: int, now: int, *, decision: str | None = None, serial: bool = False) -> Row:
    """A row for one slot that runs by itself; `decision` only where it misfired."""
    return Row(
        runs=True,
        reason=SCHEDULE if decision is None else MISFIRE,
        scheduled_at=slot,
        first_scheduled_at=slot,
        covers=1,
        late=_late(due, slot, now),
        policy=None if decision is None else due.rule.policy,
        decision=decision,
        serial=serial,
    )


def _on_time(due: Due, now: int, capacity: int) -> list[Row]:
    """Nothing misfired and the job may start: one run per slot, or what overlap leaves of several at once."""
    if due.overlap == "allow":  # the common case, and it needs no count
        last = now if due.run_at == due.next_fire_at else _come(due, now).last
        return [_run(due, slot, now) for slot in _first(due, last, capacity)]
    span = _come(due, now)
    if span.count == 1:
        return [_run(due, span.first, now)]
    if due.overlap == "skip":
        second = due.schedule.slot_after(span.first)
        if _fires_left(due) == 1 or second is None:
            return [_run(due, span.first, now)]
        rest = _Span(second, span.last, _count(due, second, span.last))
        text = f"skipped {counted(rest.count)}: the job was running"
        return [_run(due, span.first, now), _overlapped(due, rest, now, text)]
    if due.rule.policy == FIRE_ALL:
        return [_run(due, slot, now, serial=True) for slot in _first(due, span.last, due.rule.limit)]
    before = _latest(due, span.last - 1)
    earlier = _Span(span.first, before, _count(due, span.first, before))
    text = f"coalesced {counted(earlier.count)} into the last: the job was running"
    return [_overlapped(due, earlier, now, text), _run(due, span.last, now)]


def _first(due: Due, last: int, most: int) -> list[int]:
    """The first undecided slots ≤ `last`, at most `most` of them and no more than may still run."""
    most = min(most, _fires_left(due))
    slots: list[int] = []
    slot: int | None = due.next_fire_at
    while slot is not None and slot <= last and len(slots) < most:
        slots.append(slot)
        slot = due.schedule.slot_after(slot)
    return slots


def _advance(due: Due, rows: list[Row], now: int) -> Decision:
    """The decision that writes `rows`: the trigger goes on with the first slot after the last one decided."""
    watermark = rows[-1].scheduled_at
    fires = sum(row.runs for row in rows)
    exhausted = due.max_fires is not None and fires >= _fires_left(due)
    following = None
    waits = due.after_end and fires > 0 and not exhausted
    if not exhausted and not waits:
        following = due.schedule.slot_after(now if due.after_end else watermark)
        if following is not None and following <= watermark:
            # One that goes round in circles would fire for ever: whoever decides it says so, and it ends in error.
            raise ScheduleError(
                f"the slot after {watermark} would be {following}: this schedule does not advance"
            )
    return Decision(
        rows=tuple(rows),
        next_fire_at=following,
        watermark=watermark,
        fires=fires,
        misfires=sum(row.covers for row in rows if row.reason == MISFIRE),
        done=following is None and not waits,
    )
