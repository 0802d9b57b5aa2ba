"""Times as people read them: weekday names in English, another year said, durations in two units."""

from zoneinfo import ZoneInfo

import click
import pytest
from qsched.cli.times import DurationType, InstantType, SinceType, relative, span, when
from qsched.triggers.instant import DAY, HOUR, MINUTE, SECOND

UTC = ZoneInfo("UTC")
NOW = 1_576_713_600 * SECOND  # Thursday 2019-12-19T00:00:00Z


def test_an_instant_is_shown_with_its_weekday_in_the_zone_asked_for() -> None:
    sunday = NOW + 3 * DAY + 2 * HOUR
    assert when(sunday, UTC, NOW) == "Sun 22 Dec 02:00:00"
    assert when(sunday - 3 * HOUR, ZoneInfo("Europe/Berlin"), NOW) == "Sun 22 Dec 00:00:00"


def test_another_year_is_said() -> None:
    assert when(NOW + 365 * DAY, UTC, NOW) == "Fri 18 Dec 2020 00:00:00"


def test_never_is_a_dash() -> None:
    assert when(None, UTC, NOW) == relative(None, NOW) == span(None) == "-"


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0s"),
        (300_000, "0.3s"),
        (41 * SECOND, "41s"),
        (3 * MINUTE + 2 * SECOND, "3m02s"),
        (HOUR + 53 * MINUTE + SECOND, "1h53m"),
        (4 * DAY + 3 * HOUR, "4d03h"),
        (-90 * SECOND, "-1m30s"),
    ],
)
def test_a_duration_takes_two_units_at_most(duration: int, text: str) -> None:
    assert span(duration) == text


def test_relative_times_look_both_ways() -> None:
    assert relative(NOW + 9 * MINUTE, NOW) == "in 9m00s"
    assert relative(NOW - 20 * HOUR, NOW) == "20h00m ago"
    assert relative(NOW + 1, NOW) == "now"


def test_a_naive_instant_is_refused_with_what_to_add() -> None:
    with pytest.raises(click.BadParameter, match="has no zone: write 2026-12-23T10:00:00Z for UTC"):
        InstantType().convert("2026-12-23T10:00:00", None, None)


def test_what_a_date_alone_is_told_to_become_can_be_read() -> None:
    with pytest.raises(click.BadParameter) as told:
        SinceType().convert("2019-12-19", None, None)
    words = str(told.value).split()
    assert InstantType().convert(words[words.index("write") + 1], None, None) == NOW
    assert InstantType().convert(words[-1], None, None) == NOW - HOUR


@pytest.mark.parametrize(
    "text", ["2019-12-19T00:00:00Z", "2019-12-19T01:00:00+01:00", "2019-12-19 00:00:00+00:00"]
)
def test_an_instant_with_a_zone_is_read(text: str) -> None:
    assert InstantType().convert(text, None, None) == NOW


def test_since_is_a_duration_or_an_instant() -> None:
    assert SinceType().convert("2h", None, None) == ("duration", 2 * HOUR)
    assert SinceType().convert("2019-12-19T00:00:00Z", None, None) == ("instant", NOW)


@pytest.mark.parametrize("text", ["5", "0s", "-3s", "soon"])
def test_a_bare_number_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter):
        DurationType().convert(text, None, None)
