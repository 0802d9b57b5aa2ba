"""How expressions are read: dialects, weekday numbers, wraps, steps, hashes, and what is refused with which hint."""

import random
import re
import string
from datetime import UTC, datetime, timedelta

import pytest
from qsched.triggers import cron as cron_module
from qsched.triggers.cron import Cron, Dialect
from qsched.triggers.cron_dates import dates_of
from qsched.triggers.errors import CronError

THURSDAY = datetime(2019, 12, 19, tzinfo=UTC)


def upcoming(expr: str, start: datetime, count: int = 1, dialect: Dialect = "unix") -> list[str]:
    """The next `count` slots in UTC, as `2019-12-22T02:00`."""
    cron, found = Cron(expr, dialect), []
    moment: datetime | None = start
    for _ in range(count):
        assert moment is not None
        moment = cron.next_after(moment)
        found.append("None" if moment is None else moment.isoformat().removesuffix(":00+00:00"))
    return found


def refusal(expr: str, dialect: Dialect = "unix", key: str | None = None) -> str:
    with pytest.raises(CronError) as caught:
        Cron(expr, dialect, key=key)
    return str(caught.value)


@pytest.mark.parametrize("expr", ["0 2 * * 0", "0 2 * * 7", "0 2 * * SUN", "0 2 * * sun"])
def test_sunday_is_0_and_7_in_unix(expr: str) -> None:
    assert upcoming(expr, THURSDAY) == ["2019-12-22T02:00"]
    assert "Sunday" in Cron(expr).words()


@pytest.mark.parametrize(("expr", "day"), [("0 0 2 ? * 1", "Sunday"), ("0 0 2 ? * 7", "Saturday")])
def test_sunday_is_1_in_quartz(expr: str, day: str) -> None:
    found = Cron(expr, "quartz").next_after(THURSDAY)
    assert found is not None
    assert found.strftime("%A") == day
    assert day in Cron(expr, "quartz").words()


def test_thursday_is_4_in_unix_and_0_is_no_day_in_quartz() -> None:
    assert upcoming("30 7 * * 4", THURSDAY) == ["2019-12-19T07:30"]
    assert "Sunday is 1" in refusal("0 0 2 ? * 0", "quartz")


def test_six_fields_under_cron_suggest_quartz() -> None:
    assert 'quartz: "*/30 * * * * ?"' in refusal("*/30 * * * * *")
    assert 'quartz: "0 0 2 ? * MON"' in refusal("0 0 2 * * MON")
    assert 'quartz: "* * * * * ?"' in refusal("* * * * * *")
    assert "has 4 fields, not 5" in refusal("* * * *")
    assert "has 8 fields, not 6 or 7" in refusal("0 0 0 ? * * * *", "quartz")
    assert "five fields are Unix" in refusal("0 2 * * *", "quartz")


def test_the_number_of_fields_never_chooses_the_dialect() -> None:
    assert upcoming("0 2 * * *", THURSDAY, 2) == ["2019-12-19T02:00", "2019-12-20T02:00"]
    assert upcoming("*/30 * * * * ?", THURSDAY, 2, "quartz") == [
        "2019-12-19T00:00:30+00:00",
        "2019-12-19T00:01",
    ]
    year = Cron("0 0 0 1 * ? 2026", "quartz")
    assert year.next_after(datetime(2026, 12, 1, tzinfo=UTC)) is None
    assert upcoming("0 0 0 1 * ? 2026", THURSDAY, 1, "quartz") == ["2026-01-01T00:00"]


@pytest.mark.parametrize(
    ("weekdays", "days"),
    [
        ("SAT-SUN", {5, 6}),
        ("MON-SUN", set(range(7))),
        ("1-7", set(range(7))),
        ("WED-SUN", {2, 3, 4, 5, 6}),
        ("fri-sun", {4, 5, 6}),
        ("Sun-Sun", {6}),
        ("0,7", {6}),
        ("mon-sun/2", {0, 2, 4, 6}),
        ("7/1", {6}),
        ("1/2", {0, 2, 4}),
    ],
)
def test_a_unix_range_may_end_on_sunday(weekdays: str, days: set[int]) -> None:
    cron, moment, seen = Cron(f"0 0 * * {weekdays}"), THURSDAY, []
    for _ in range(len(days)):
        found = cron.next_after(moment)
        assert found is not None
        moment = found
        seen.append(moment.weekday())
    assert sorted(seen) == sorted(days)
    assert moment - THURSDAY <= timedelta(days=7)


@pytest.mark.parametrize(
    ("expr", "hint"),
    [
        ("0 0 * * FRI-MON", "write 5-6,0-1"),
        ("0 0 * * 5-1", "write 5-6,0-1"),
        ("0 22-2 * * *", "write 22-23,0-2"),
        ("0 0 31-1 * *", "write 31,1"),
    ],
)
def test_a_unix_range_that_wraps_is_refused_with_the_range_to_write(expr: str, hint: str) -> None:
    assert hint in refusal(expr)
    fields = expr.split()
    at = next(index for index, text in enumerate(fields) if "-" in text)
    fields[at] = hint.removeprefix("write ")
    Cron(" ".join(fields))


def test_a_quartz_range_wraps_and_keeps_its_step() -> None:
    monday = datetime(2024, 1, 1, tzinfo=UTC)
    assert upcoming("0 0 0 ? * FRI-MON/2", monday, 4, "quartz") == [
        "2024-01-05T00:00",
        "2024-01-07T00:00",
        "2024-01-12T00:00",
        "2024-01-14T00:00",
    ]
    assert upcoming("0 0 0 ? * MON-FRI/2", monday, 3, "quartz") == [
        "2024-01-03T00:00",
        "2024-01-05T00:00",
        "2024-01-08T00:00",
    ]
    months = [slot[5:7] for slot in upcoming("0 0 0 1 OCT-MAR/2 ?", monday, 3, "quartz")]
    assert months == ["02", "10", "12"]


def test_a_single_value_with_a_step_runs_to_the_end_of_its_field() -> None:
    hour = datetime(2024, 1, 1, 5, 30, tzinfo=UTC)
    assert [slot[14:] for slot in upcoming("5/15 * * * *", hour, 4)] == ["35", "50", "05", "20"]
    assert [slot[14:] for slot in upcoming("59/15 * * * *", hour, 2)] == ["59", "59"]
    assert "read as 5-59/15" in Cron("5/15 * * * *").remarks[0]
    assert Cron("5-59/15 * * * *").remarks == ()


@pytest.mark.parametrize(
    "expr", ["*/60 * * * *", "0 */24 * * *", "0 0 */32 * *", "0 0 1 */13 *", "0 0 * * */8"]
)
def test_a_step_wider_than_its_field_is_refused(expr: str) -> None:
    assert "steps further than the field reaches" in refusal(expr)


@pytest.mark.parametrize("expr", ["5-5/0 * * * *", "*/00 * * * *", "1/00 * * * *", "*/0 * * * *"])
def test_a_step_of_zero_is_refused(expr: str) -> None:
    assert "whole number above 0" in refusal(expr)


@pytest.mark.parametrize(
    ("expr", "hint"),
    [
        ("0 0 15W * *", 'quartz: "0 0 0 15W * ?"'),
        ("0 0 L-3 * *", 'quartz: "0 0 0 L-3 * ?"'),
        ("0 0 LW * *", 'quartz: "0 0 0 LW * ?"'),
        ("0 0 ? * MON", "write *"),
        ("0 0 1 * ?", "write *"),
    ],
)
def test_what_belongs_to_quartz_is_refused_in_unix_with_that_hint(expr: str, hint: str) -> None:
    assert hint in refusal(expr)
    assert "quartz" in refusal(expr)


@pytest.mark.parametrize("name", ["@daily", "@Daily", "@DAILY", " @midnight "])
def test_nicknames_know_no_case(name: str) -> None:
    assert upcoming(name, THURSDAY) == ["2019-12-20T00:00"]


def test_a_nickname_says_what_to_write_instead() -> None:
    assert "every: 5m" in refusal("@every 5m")
    assert "names no time" in refusal("@reboot")
    assert "nicknames belong to cron:" in refusal("@daily", "quartz")


def test_h_is_hashed_from_the_key_and_stays() -> None:
    assert "key" in refusal("H H * * *")
    one, two = Cron("H H * * *", key="nightly"), Cron("H H * * *", key="weekly")
    first, other = one.next_after(THURSDAY), two.next_after(THURSDAY)
    assert first is not None
    assert other is not None
    assert first != other
    # The hash is part of the promise: a new version, node or machine must choose the same minute.
    assert first.strftime("%H:%M") == "05:15"


@pytest.mark.parametrize("key", ["a", "b", "billing/nightly", "Ünïcode"])
def test_h_keeps_to_its_range_and_step(key: str) -> None:
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    cron = Cron("H(10-20) H(1-3) H * *", key=key)
    quarter = Cron("H/15 * * * *", key=key)
    minutes = []
    for _ in range(8):
        found, step = cron.next_after(moment), quarter.next_after(moment)
        assert found is not None
        assert step is not None
        assert 10 <= found.minute <= 20
        assert 1 <= found.hour <= 3
        assert found.day <= 28
        minutes.append(step.minute)
        moment = step
    assert len(set(minutes)) == 4
    assert {minute % 15 for minute in minutes} == {minutes[0] % 15}


def test_h_is_spread_over_the_hour() -> None:
    minutes = set()
    for number in range(400):
        found = Cron("H * * * *", key=f"t{number}").next_after(THURSDAY)
        assert found is not None
        minutes.add(found.minute)
    assert len(minutes) > 50


def test_seconds_and_zeros_may_be_written_with_leading_zeros() -> None:
    assert upcoming("05 007 * * *", THURSDAY) == ["2019-12-19T07:05"]
    assert Cron("0 00/5 * * * ?", "quartz").is_interval


@pytest.mark.parametrize(
    ("expr", "dialect", "interval"),
    [
        ("*/5 2 * * *", "unix", True),
        ("0 */2 * * *", "unix", True),
        ("@hourly", "unix", True),
        ("0 0-23 * * *", "unix", False),
        ("0/5 2 * * *", "unix", False),
        ("30 2 * * *", "unix", False),
        ("0 0/5 2 * * ?", "quartz", True),
        ("0 /5 2 * * ?", "quartz", True),
        ("0 10/5 2 * * ?", "quartz", False),
        ("* 30 2 * * ?", "quartz", False),
        ("0 0-59 2 * * ?", "quartz", False),
    ],
)
def test_an_interval_is_known_by_its_first_character(expr: str, dialect: Dialect, interval: bool) -> None:
    assert Cron(expr, dialect).is_interval is interval


def test_a_refusal_names_the_token_as_it_was_written() -> None:
    assert "month 'january'" in refusal("0 0 1 january *")
    assert "did you mean JAN?" in refusal("0 0 1 january *")
    assert "hour '１２'" in refusal("0 0 １２ * * ?", "quartz")
    assert "remove the quotes" in refusal('"0 0 * * *"')
    assert "write */5" in refusal("*5 * * * *")


def test_a_monster_is_refused_quickly_and_a_long_list_is_read() -> None:
    assert "characters long" in refusal("1," * 5000 + "1 * * * *")
    assert Cron(",".join(map(str, range(60))) + " * * * *").words() == "Every minute"


@pytest.mark.parametrize("dialect", ["cron", "", "Unix"])
def test_a_dialect_is_never_guessed(dialect: str) -> None:
    with pytest.raises(CronError, match="use 'unix' or 'quartz'"):
        Cron("* * * * *", dialect)  # type: ignore[arg-type]


def test_noise_is_a_cron_error_and_nothing_else() -> None:
    seeds = random.Random(20240110)
    alphabet = string.digits * 3 + "*/-,?LW#H() \tabcJANSUN@²１\xa0\x00." + "* " * 8
    kinds: set[str] = set()
    for _ in range(6000):
        text = "".join(seeds.choice(alphabet) for _ in range(seeds.randrange(1, 24)))
        for dialect in ("unix", "quartz"):
            try:
                Cron(text, dialect)
            except CronError as error:
                kinds.add(re.sub("'.*'", "", str(error).rsplit('": ', 1)[1])[:24])
    assert len(kinds) > 30  # the noise reached the parser's corners, not only its front door


def test_what_is_remembered_is_bounded() -> None:
    for cache in (cron_module._compiled, cron_module._read, dates_of):
        assert (cache.cache_info().maxsize or 0) > 0


def test_equal_expressions_are_equal_and_say_themselves() -> None:
    assert Cron("0 2 * * *") == Cron("0 2 * * *")
    assert len({Cron("0 2 * * *"), Cron("0 2 * * *"), Cron("0 2 * * *", time_zone="Europe/Berlin")}) == 2
    assert str(Cron("0 2 * * MON")) == "0 2 * * MON"
    assert repr(Cron("0 2 * * *")) == "Cron('0 2 * * *', 'unix', 'UTC')"
