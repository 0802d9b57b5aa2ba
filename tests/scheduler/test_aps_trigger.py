"""APScheduler 3's triggers as schedules of ours: the same instants in UTC, and a clear word for what has none."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from hypothesis import given
from hypothesis import strategies as st
from qsched.scheduler.exchange.aps_job import Options, misfire_rule, overlap
from qsched.scheduler.exchange.aps_trigger import said_of, trigger_of, when_of
from qsched.triggers.errors import DefinitionError
from qsched.triggers.instant import from_instant, to_instant
from qsched.triggers.trigger import TriggerDefinition

START = datetime(2027, 2, 25, 22, 13, 7, tzinfo=UTC)


def ours(trigger: Any, count: int = 12) -> list[datetime]:
    when = when_of(said_of(trigger))
    schedule = TriggerDefinition(
        "t", "j", when.schedule, time_zone=when.time_zone, start_at=when.start_at, end_at=when.end_at
    ).compile()
    found: list[datetime] = []
    slot = to_instant(START) - 1
    while len(found) < count and (after := schedule.slot_after(slot)) is not None:
        slot = after
        found.append(from_instant(slot))
    return found


def theirs(trigger: Any, count: int = 12) -> list[datetime]:
    found: list[datetime] = []
    at = trigger.get_next_fire_time(None, START)
    while at is not None and len(found) < count:
        found.append(at.astimezone(UTC))
        if isinstance(trigger, AndTrigger):  # given the one before, it looks for the next for ever
            at = trigger.get_next_fire_time(None, at + timedelta(seconds=1))
        else:
            at = trigger.get_next_fire_time(at, at)
    return found


def field(low: int, high: int) -> st.SearchStrategy[str]:
    values = st.integers(low, high)
    ranges = st.tuples(values, values).map(lambda two: f"{min(two)}-{max(two)}")
    stepped = st.integers(1, (high - low) // 2).map(lambda step: f"*/{step}")
    return st.one_of(
        st.just("*"), stepped, ranges, values.map(str), st.lists(ranges, min_size=2, max_size=2).map(",".join)
    )


day = st.one_of(field(1, 28), st.sampled_from(["last", "2nd fri", "last sun", "1st 0"]))
weekday = st.one_of(field(0, 6), st.sampled_from(["mon-fri", "sun", "tue,sat"]))
whole = {"month": field(1, 12), "hour": field(0, 23), "minute": field(0, 59), "second": field(0, 59)}


@given(said=st.fixed_dictionaries({}, optional={**whole, "day": day}))
def test_cron_fields_with_days_of_the_month_name_the_same_instants(said: dict[str, str]) -> None:
    try:
        trigger = CronTrigger(timezone="UTC", **said)
    except ValueError:
        return  # not theirs either
    assert ours(trigger) == theirs(trigger)


@given(said=st.fixed_dictionaries({"day_of_week": weekday}, optional=whole))
def test_cron_fields_with_weekdays_name_the_same_instants(said: dict[str, str]) -> None:
    trigger = CronTrigger(timezone="UTC", **said)
    assert ours(trigger) == theirs(trigger)


@pytest.mark.parametrize(
    "trigger",
    [
        CronTrigger.from_crontab("*/5 1 * * 0", timezone="UTC"),
        CronTrigger(day="1-7", day_of_week="mon", hour=4, timezone="UTC"),
        CronTrigger(year="2028-2030", month=3, timezone="UTC"),
        CronTrigger(hour=4, start_date="2027-04-01", end_date="2027-04-05", timezone="UTC"),
        IntervalTrigger(minutes=7, start_date="2027-01-01 00:03:00", timezone="UTC"),
        DateTrigger("2027-05-01 10:00:00", timezone="UTC"),
        AndTrigger([CronTrigger(day="13", timezone="UTC"), CronTrigger(day_of_week="fri", timezone="UTC")]),
        OrTrigger([CronTrigger(hour=3, timezone="UTC"), CronTrigger(day=13, timezone="UTC")]),
        CalendarIntervalTrigger(weeks=2, hour=5, start_date="2027-03-01", timezone="UTC"),
    ],
    ids=str,
)
def test_every_kind_names_the_same_instants_and_comes_back_from_its_words(trigger: Any) -> None:
    assert ours(trigger, 6) == theirs(trigger, 6)
    assert said_of(trigger_of(said_of(trigger))) == said_of(trigger)


def test_an_interval_that_says_no_start_is_the_same_in_every_process() -> None:
    one, other = IntervalTrigger(hours=1), IntervalTrigger(hours=1)
    other.start_date += timedelta(minutes=17, microseconds=1)
    assert said_of(one) == said_of(other)
    assert ours(one, 1) == [datetime(2027, 2, 25, 23, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("trigger", "why"),
    [
        (CronTrigger(week=3, timezone="UTC"), "BYWEEKNO"),
        (CronTrigger(day="2nd fri,1", timezone="UTC"), "one trigger for each"),
        (CronTrigger(hour=1, timezone="UTC").fields[0], "not a trigger"),
    ],
)
def test_what_has_no_schedule_here_is_named(trigger: Any, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        when_of(said_of(trigger))


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (Options(), "skip"),
        (Options(misfire_grace_time=None), "fire_once"),
        (Options(coalesce=False, misfire_grace_time=None), "fire_all"),
        (Options(misfire_grace_time=300), "skip, threshold 5m"),
        (Options(coalesce=False, misfire_grace_time=300), "fire_all, window 5m"),
    ],
)
def test_grace_and_coalesce_are_a_misfire_rule(options: Options, rule: str) -> None:
    assert str(misfire_rule(options)) == rule
    assert overlap(options) == "skip"
    assert overlap(Options(max_instances=2)) == "allow"
