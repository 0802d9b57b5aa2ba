"""Schedules as a program adds them: objects and keywords make the definition that YAML makes."""

from datetime import UTC, datetime
from typing import Any

import pytest
from qsched.scheduler.added import AddOptions, added
from qsched.triggers.errors import TriggerError
from qsched.triggers.instant import HOUR, MINUTE, to_instant
from qsched.triggers.trigger import TriggerDefinition

from qsched import AllOf, AnyOf, At, CalendarInterval, Cron, DailyWindow, Every, Recurrence

START = datetime(2027, 1, 31, 9, 30, tzinfo=UTC)


def definition(**options: Any) -> TriggerDefinition:
    given: AddOptions = {**options}  # type: ignore[typeddict-item]
    return added("nightly", "bookstore.jobs:fetch", given).triggers[0]


def test_an_object_and_its_keyword_make_one_definition() -> None:
    interval = CalendarInterval("Europe/Berlin", START, months=1, day="last", at="9:00")
    window = DailyWindow("15m", "9:00", "17:00", "Europe/Berlin", days=["mon-fri"])
    rule = Recurrence("FREQ=WEEKLY;COUNT=3", "Europe/Berlin", START)
    zone = {"time_zone": "Europe/Berlin"}
    pairs: list[tuple[Any, dict[str, Any]]] = [
        (interval, {"calendar_interval": {"months": 1, "day": "last", "at": "09:00"}, "start_at": START}),
        (window, {"daily_window": {"every": "15m", "from": "09:00", "to": "17:00", "days": ["mon-fri"]}}),
        (rule, {"rrule": "FREQ=WEEKLY;COUNT=3", "start_at": START}),
        (AnyOf([interval, At(START)]), {"any": [interval, {"at": START}]}),
        (AllOf([window, Every("30m")]), {"all": [window, {"every": "30m"}]}),
    ]
    for schedule, written in pairs:
        by_object, by_keyword = definition(schedule=schedule), definition(**written, **zone)
        assert by_object == by_keyword
        assert by_object.compile().slot_after(0) == by_keyword.compile().slot_after(0) is not None


def test_parts_keep_zone_rule_and_start_of_the_trigger() -> None:
    either = AnyOf([Cron("0 9 * * *", time_zone="Asia/Tokyo"), AllOf([Every("2h"), Every("3h")])])
    made = definition(schedule=either)
    assert made.time_zone == "Asia/Tokyo"
    assert made.schedule == {
        "any": [{"cron": "0 9 * * *"}, {"all": [{"every": 2 * HOUR}, {"every": 3 * HOUR}]}]
    }
    assert definition(schedule=CalendarInterval(days=1, gap="skip")).dst_gap == "skip"
    assert definition(rrule="FREQ=DAILY", start_at=START).start_at == to_instant(START)
    assert definition(any=[{"every": "5m"}, Every("7m")]).schedule == {
        "any": [{"every": 5 * MINUTE}, {"every": 7 * MINUTE}]
    }


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"schedule": AnyOf([Cron("0 9 * * *", time_zone="Asia/Tokyo"), DailyWindow("1h", "09:00", "10:00")])},
        "the schedules of its any differ in time_zone: make them alike, or two triggers",
    ),
    (
        {"schedule": Recurrence("FREQ=DAILY"), "time_zone": "Asia/Tokyo"},
        "its Recurrence is in UTC and time_zone says Asia",
    ),
    (
        {"schedule": CalendarInterval("UTC", START, days=1), "start_at": datetime(2028, 1, 1, tzinfo=UTC)},
        "begin at two times",
    ),
    ({"schedule": "0 9 * * *"}, "schedule is a Cron, an Every"),
    ({"any": Every("5s")}, "any is a list of schedules"),
    (
        {"any": [{"cron": "0 9 * * *", "every": "5s"}, Every("5s")]},
        "each schedule of any is one of cron, quartz",
    ),
    ({"any": [{"delay": "5s"}, Every("5s")]}, "`delay` has no slots to combine"),
    ({"daily_window": {"every": "5m", "from": "09:00"}}, "'to' is missing"),
    ({"calendar_interval": {"weeks": 1, "days": 1}}, "weeks and days are given"),
    ({"rrule": "FREQ=DAILY;COUNT=3"}, "COUNT counts from a beginning"),
    ({"rrule": "FREQ=DAILY", "cron": "0 9 * * *"}, "needs exactly one of schedule, cron"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_what_does_not_agree_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TriggerError) as refused:
        definition(**options)
    assert message in str(refused.value)
