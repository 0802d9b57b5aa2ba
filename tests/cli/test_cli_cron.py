"""`qsched cron`: words, times with weekday names, notes, and where others read an expression differently."""

import pytest

from support.command_line import Command

FROM = ("--from", "2019-12-19T00:00:00Z")


@pytest.mark.parametrize(
    ("expression", "first"),
    [
        (("0 2 * * 0",), "2019-12-22T02:00:00Z"),
        (("0 2 * * 7",), "2019-12-22T02:00:00Z"),
        (("0 2 * * SUN",), "2019-12-22T02:00:00Z"),
        (("0 0 2 ? * 1", "--quartz"), "2019-12-22T02:00:00Z"),
        (("0 0 2 ? * 7", "--quartz"), "2019-12-21T02:00:00Z"),
    ],
)
def test_the_next_times_are_given(qsched: Command, expression: tuple[str, ...], first: str) -> None:
    (item,) = qsched("cron", *expression, *FROM, "-o", "json").items
    assert item["next"][0]["at"] == first
    assert len(item["next"]) == 5
    assert item["next"][0]["weekday"] == ("Sunday" if "22" in first else "Saturday")
    assert item["words"]


def test_times_go_to_standard_output_and_words_to_the_other(qsched: Command) -> None:
    said = qsched("cron", "30 7 * * 4", *FROM, "-n", "1", "--tz", "Europe/Istanbul")
    assert said.out.startswith("Thu 19 Dec 2019 07:30:00 +03")
    assert said.out.count("\n") == 1
    assert "Thursday" in said.err


def test_names_alone_are_instants(qsched: Command) -> None:
    assert qsched("cron", "30 7 * * 4", *FROM, "-n", "1", "-o", "name").out == "2019-12-19T07:30:00Z\n"


def test_a_change_of_clocks_is_marked(qsched: Command) -> None:
    said = qsched("cron", "30 2 * * *", "--from", "2027-03-27T12:00:00Z", "-n", "1", "--tz", "Europe/Berlin")
    assert "does not exist" in said.out


def test_a_difference_to_croniter_is_shown(qsched: Command) -> None:
    said = qsched(
        "cron",
        "30 2 * * *",
        "--from",
        "2027-03-27T12:00:00Z",
        "-n",
        "2",
        "--tz",
        "Europe/Berlin",
        "--compare",
    )
    assert said.code == 0
    assert "croniter: " in said.out
    assert "apscheduler: " in said.out


def test_the_same_reading_is_said_to_be_the_same(qsched: Command) -> None:
    assert "croniter: the same 5" in qsched("cron", "15 2 * * *", *FROM, "--compare").out


def test_comparing_as_json_gives_each_librarys_times(qsched: Command) -> None:
    (item,) = qsched("cron", "15 2 * * *", *FROM, "--compare", "-o", "json").items
    assert item["compare"]["croniter"] == [time["at"] for time in item["next"]]
    assert "apscheduler" in item["compare"]


@pytest.mark.parametrize("expression", ["61 * * * *", "* * * *", "0 0 30 2 *", "", "0 12 * * MO"])
def test_what_cannot_be_read_is_a_usage_error_on_one_line(qsched: Command, expression: str) -> None:
    said = qsched("cron", expression)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)


def test_six_fields_suggest_quartz(qsched: Command) -> None:
    assert "quartz" in qsched("cron", "0 0 2 ? * 1").err
