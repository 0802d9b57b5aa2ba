"""Whatever the trigger, the job, the capacity and the times of looking: no slot is lost or decided twice."""

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st
from qsched.triggers.decide import Decision, Due, Row, decide, is_misfired, owed, wants_cancel
from qsched.triggers.misfire import POLICIES, MisfireRule

from support.schedules import Listed

OVERLAPS = ("allow", "queue", "skip", "cancel")


@dataclass(frozen=True)
class Look:
    """One node's look at the trigger: when, and what it finds."""

    now: int
    busy: bool
    capacity: int

    def at(self, due: Due) -> Decision | None:
        return decide(due, busy=self.busy, capacity=self.capacity, now=self.now)


instants = st.integers(-50, 400)
looks = st.builds(Look, instants, st.booleans(), st.integers(0, 5))
rules = st.builds(
    MisfireRule, st.sampled_from(POLICIES), st.integers(0, 120), st.integers(1, 300), st.integers(1, 8)
)


@st.composite
def dues(draw: st.DrawFn, *, jitter: bool = True) -> Due:
    """A trigger with a few slots at short instants; its oldest undecided slot is any of them."""
    slots = tuple(sorted(draw(st.sets(st.integers(-50, 300), min_size=1, max_size=30))))
    at = draw(st.integers(0, len(slots) - 1))
    gap = slots[at + 1] - slots[at] if at + 1 < len(slots) else 20
    drawn = draw(st.integers(0, gap - 1)) if jitter else 0
    return Due(
        schedule=Listed(slots),
        rule=draw(rules),
        overlap=draw(st.sampled_from(OVERLAPS)),
        next_fire_at=slots[at],
        next_run_at=slots[at] + drawn,
        max_fires=draw(st.none() | st.integers(1, 12)),
        fires=draw(st.integers(0, 13)),
    )


def slots_of(due: Due, until: int) -> list[int]:
    """The undecided slots ≤ `until`, by the list itself."""
    assert isinstance(due.schedule, Listed)
    return [slot for slot in due.schedule.slots if due.next_fire_at <= slot <= until]


def covered(row: Row, slots: list[int]) -> list[int]:
    return [slot for slot in slots if row.first_scheduled_at <= slot <= row.scheduled_at]


def left(due: Due) -> int | None:
    return None if due.max_fires is None else max(due.max_fires - due.fires, 0)


def advanced(due: Due, decision: Decision) -> Due | None:
    """The trigger after the decision; None when it is done."""
    if decision.next_fire_at is None:
        return None
    slot = decision.next_fire_at
    return due._replace(next_fire_at=slot, next_run_at=slot, fires=due.fires + decision.fires)


@given(dues(), looks)
def test_every_slot_up_to_the_watermark_lies_in_exactly_one_row(due: Due, look: Look) -> None:
    decision = look.at(due)
    if decision is None:
        return
    slots = slots_of(due, look.now)
    accounted = [slot for row in decision.rows for slot in covered(row, slots)]
    assert accounted == [slot for slot in slots if slot <= decision.watermark]
    for row in decision.rows:
        assert row.covers == len(covered(row, slots))
        assert {row.first_scheduled_at, row.scheduled_at} <= set(slots)
        assert row.late >= 0


@given(dues(), looks)
def test_the_trigger_goes_on_after_its_watermark_or_is_done(due: Due, look: Look) -> None:
    decision = look.at(due)
    if decision is None:
        return
    assert isinstance(due.schedule, Listed)
    after = due.schedule.slot_after(decision.watermark)
    ended_by_fires = left(due) is not None and left(due) == decision.fires
    assert decision.next_fire_at == (None if ended_by_fires else after)
    assert decision.done is (decision.next_fire_at is None)
    if decision.next_fire_at is not None:
        assert decision.next_fire_at > decision.watermark
        if is_misfired(due, now=look.now):
            assert decision.next_fire_at > look.now


@given(dues(), looks)
def test_counts_agree_with_the_rows_and_bounds_are_kept(due: Due, look: Look) -> None:
    decision = look.at(due)
    if decision is None:
        return
    runs = [row for row in decision.rows if row.runs]
    assert decision.fires == len(runs)
    assert decision.misfires == sum(row.covers for row in decision.rows if row.reason == "misfire")
    assert left(due) is None or len(runs) <= (left(due) or 0)
    starting = [row for row in runs if not row.serial]
    assert len(starting) <= look.capacity
    assert not runs or look.capacity >= 1
    assert len(decision.rows) <= max(look.capacity, due.rule.limit) + 1
    if is_misfired(due, now=look.now):
        assert all(row.reason == "misfire" for row in decision.rows)
    else:
        assert all(row.reason == "schedule" for row in decision.rows)
    for row in decision.rows:
        assert row.runs or (row.policy is not None and row.decision is not None)


@given(dues(), looks)
def test_nothing_is_decided_only_where_something_would_start_that_may_not(due: Due, look: Look) -> None:
    if look.at(due) is not None:
        return
    held_by_job = look.busy and due.overlap in ("queue", "cancel")
    assert due.next_run_at > look.now or look.capacity == 0 or held_by_job
    ample = decide(due, busy=False, capacity=1, now=look.now)
    assert ample is None if due.next_run_at > look.now else ample is not None and ample.fires > 0


@given(dues(), looks)
def test_a_cancel_is_asked_for_exactly_where_it_lets_something_start(due: Due, look: Look) -> None:
    wanted = wants_cancel(due, busy=look.busy, now=look.now)
    held = look.at(due) is None and due.next_run_at <= look.now and look.busy
    assert wanted is (held and due.overlap == "cancel")


@given(dues(), st.lists(looks, min_size=1, max_size=12))
def test_any_series_of_looks_decides_each_slot_once(due: Due, series: list[Look]) -> None:
    now, trigger = -50, due
    rows: list[Row] = []
    watermark = due.next_fire_at - 1
    for look in series:
        now = max(now, look.now)
        decision = replace(look, now=now).at(trigger)
        if decision is None:
            continue
        rows += decision.rows
        watermark = decision.watermark
        going_on = advanced(trigger, decision)
        if going_on is None:
            break
        trigger = going_on
    slots = slots_of(due, now)
    assert [slot for row in rows for slot in covered(row, slots)] == [
        slot for slot in slots if slot <= watermark
    ]
    assert len({row.scheduled_at for row in rows}) == len(rows)
    assert due.max_fires is None or due.fires + sum(row.runs for row in rows) <= max(due.max_fires, due.fires)


@given(
    dues(jitter=False), st.lists(st.tuples(instants, st.integers(0, 5)), max_size=8), st.integers(300, 400)
)
def test_slots_on_time_run_each_alone_however_time_is_cut(
    due: Due, series: list[tuple[int, int]], end: int
) -> None:
    due = due._replace(rule=MisfireRule(threshold=1000), overlap="allow")
    cuts = [*sorted(series), (end, 100)]
    trigger: Due | None = due
    ran: list[int] = []
    for now, capacity in cuts:
        decision = None if trigger is None else decide(trigger, busy=True, capacity=capacity, now=now)
        if trigger is not None and decision is not None:
            ran += [row.scheduled_at for row in decision.rows if row.runs]
            trigger = advanced(trigger, decision)
    assert ran == slots_of(due, end)[: left(due)]


@given(dues(), st.integers(-50, 400))
def test_what_is_owed_is_what_is_due_and_undecided(due: Due, now: int) -> None:
    slots = [] if left(due) == 0 else slots_of(due, now)
    assert owed(due, now=now) == ((slots[0], slots[-1], len(slots)) if slots else None)
