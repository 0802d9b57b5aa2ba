"""Combinations: the union and the intersection of schedules, in bounded work."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qsched.triggers.combined import AllOf, AnyOf
from qsched.triggers.compiling import Frame, compile_schedule
from qsched.triggers.cron import Cron
from qsched.triggers.daily_window import DailyWindow
from qsched.triggers.errors import DefinitionError, ScheduleError
from qsched.triggers.instant import DAY, HOUR, MINUTE, SECOND, from_instant, to_instant
from qsched.triggers.interval import Every
from qsched.triggers.once import At
from qsched.triggers.recurrence import Recurrence
from qsched.triggers.schedule import COUNT_LIMIT, Schedule, note_on

from support.wall_brute import keeps_the_laws, walk

T0 = to_instant(datetime(2026, 3, 27, tzinfo=UTC))


def times(schedule: Schedule, hours: int = 24) -> list[str]:
    return [f"{from_instant(slot):%H:%M}" for slot in walk(schedule, T0, T0 + hours * HOUR - 1)]


def test_any_has_the_slots_of_every_part_and_one_where_they_coincide() -> None:
    either = AnyOf([Cron("0 3,12 * * *"), Every("12h"), At(T0 + MINUTE)])
    assert times(either) == ["00:00", "00:01", "03:00", "12:00"]
    assert either.count_between(T0, T0 + DAY - 1) == 4


def test_all_has_only_the_slots_that_every_part_has() -> None:
    both = AllOf([Cron("0 * * * *"), Every("90m"), DailyWindow("30m", "02:00", "13:00")])
    assert times(both) == ["03:00", "06:00", "09:00", "12:00"]
    assert both.count_between(T0, T0 + DAY - 1) == 4


def test_intervals_that_meet_after_centuries_are_found_without_a_search() -> None:
    begun = time.process_time()
    both = AllOf([Every(86_399 * SECOND, 1), Every(86_401 * SECOND, 1)])
    assert both.slot_after(1) == 1 + 86_399 * 86_401 * SECOND
    assert time.process_time() - begun < 1


NEVER: list[list[Schedule]] = [
    [Every("2s"), Every("2s", SECOND)],
    [Every("6s"), Every("4s", SECOND), Cron("* * * * *")],
    [Cron("*/2 * * * *"), Cron("1-59/2 * * * *")],
    [At(T0), At(T0 + 1)],
    [Cron("0 0 * * 1"), Recurrence("FREQ=DAILY;BYHOUR=1")],
]


@pytest.mark.parametrize("parts", NEVER)
def test_schedules_that_never_coincide_are_refused_in_bounded_time(parts: list[Schedule]) -> None:
    begun = time.process_time()
    with pytest.raises(
        ScheduleError, match="never coincide, so it can never fire; correct one, or use `any`"
    ):
        AllOf(parts)
    assert time.process_time() - begun < 5


def test_a_backlog_is_counted_in_bounded_time() -> None:
    begun = time.process_time()
    seconds = Cron("* * * * * ?", "quartz")
    assert AnyOf([seconds, Every("7s")]).count_between(T0, T0 + 3652 * DAY) == COUNT_LIMIT + 1
    assert AllOf([seconds, Every("7s")]).count_between(T0, T0 + 3652 * DAY) == COUNT_LIMIT + 1
    assert AnyOf([Every("3s"), Every("4s")]).count_between(T0, T0 + 2 * DAY - 1) == 86_400
    assert time.process_time() - begun < 8


def test_a_note_says_what_clocks_do_to_the_part_that_has_the_slot() -> None:
    either = AnyOf([Cron("30 2 * * *", time_zone="Europe/Berlin"), Cron("0 12 * * *")])
    slot = to_instant(datetime(2026, 3, 29, 1, tzinfo=UTC))
    assert note_on(either, slot) == "02:30 does not exist on this day: runs when the gap ends"
    assert note_on(either, to_instant(datetime(2026, 3, 29, 12, tzinfo=UTC))) is None


def test_lists_nest_once_and_each_part_knows_zone_start_and_key() -> None:
    said = {"any": [{"cron": "H 3 * * *"}, {"all": [{"every": 2 * HOUR}, {"daily_window": {
        "every": HOUR, "from": "09:00", "to": "11:00"}}]}]}  # fmt: skip
    schedule = compile_schedule(said, Frame("nightly", "Europe/Berlin", start_at=T0))
    alone = compile_schedule({"cron": "H 3 * * *"}, Frame("nightly", "Europe/Berlin"))
    assert times(schedule) == [*times(alone), "08:00", "10:00"]
    with pytest.raises(ScheduleError, match="more than 2 lists within each other; write it flatter"):
        compile_schedule({"any": [said, said]}, Frame("k"))


def test_what_has_no_slots_of_its_own_cannot_be_combined() -> None:
    with pytest.raises(ScheduleError, match="any: `delay` has no slots to combine"):
        compile_schedule({"any": [{"delay": HOUR}, {"every": HOUR}]}, Frame("k"))
    with pytest.raises(ScheduleError, match="any: 1 schedules, and it takes 2 to 20"):
        compile_schedule({"any": [{"every": HOUR}]}, Frame("k"))
    with pytest.raises(DefinitionError, match="unknown schedule"):
        compile_schedule({"any": [{"moon": "full"}, {"every": HOUR}]}, Frame("k"))


def test_they_say_themselves_in_words() -> None:
    parts: list[Schedule] = [Cron("0 6 * * *"), Every("6h")]
    assert AnyOf(parts).words() == "At 06:00, every day; or Every 6 hours"
    assert AllOf(parts).words() == "Only when all of these coincide: At 06:00, every day; Every 6 hours"
    assert str(AnyOf(parts)) == "any of (0 6 * * *; every 6h)"


def _parts() -> st.SearchStrategy[Schedule]:
    minutes = st.sampled_from([2, 3, 5, 7, 10, 15, 30, 60])
    return st.one_of(
        st.builds(lambda every, late: Every(every * MINUTE, late * MINUTE), minutes, st.integers(0, 9)),
        st.builds(
            lambda expr, zone: Cron(expr, time_zone=zone),
            st.sampled_from(["*/5 * * * *", "0,30 2 * * *", "15 * * * *", "* 1-3 * * *"]),
            st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "UTC"]),
        ),
        st.builds(lambda every: DailyWindow(every * MINUTE, "01:00", "04:00", "Europe/Berlin"), minutes),
    )


@settings(max_examples=30, deadline=None)
@given(parts=st.lists(_parts(), min_size=2, max_size=4), day=st.integers(0, 6))
def test_they_equal_sets_of_slots(parts: list[Schedule], day: int) -> None:
    first = T0 + day * DAY
    last = first + 12 * HOUR
    sets = [set(walk(part, first, last)) for part in parts]
    either = AnyOf(parts)
    slots = sorted(set.union(*sets))
    assert walk(either, first, last) == slots
    keeps_the_laws(either, slots, first, last)
    try:
        both = AllOf(parts)
    except ScheduleError:
        assert not set.intersection(*sets)
        return
    common = sorted(set.intersection(*sets))
    assert walk(both, first, last) == common
    keeps_the_laws(both, common, first, last)
