"""Every line of the conformance corpora, each slot computed from the one before and nothing else."""

import ast
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from qsched.triggers.cron import Cron
from qsched.triggers.errors import CronError, QschedError
from qsched.triggers.instant import SECOND, to_instant

DATA = Path(__file__).parents[1] / "data"
FIELDS = (
    "second",
    "minute",
    "hour",
    "day-of-month",
    "month",
    "day-of-week",
    "year",
    "expression",
    "nickname",
)

VALUE = re.compile(r"'[^']*'")


def _lines(name: str) -> list[dict[str, Any]]:
    text = (DATA / f"corpus_{name}.train.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


VALID = {name: _lines(name) for name in ("unix", "quartz")}
INVALID = _lines("invalid")


def test_the_corpora_are_whole() -> None:
    assert (len(VALID["unix"]), len(VALID["quartz"]), len(INVALID)) == (462, 462, 209)


@pytest.mark.parametrize("name", ["unix", "quartz"])
def test_every_valid_line_is_right_and_stateless(name: str) -> None:
    wrong = []
    for line in VALID[name]:
        moment = datetime.fromisoformat(line["start"])
        for expected in line["next"]:
            # A new object for each value: nothing may be carried over from the one before.
            found = Cron(line["expr"], line["dialect"], line["tz"]).next_after(moment)
            if found is None or found.isoformat() != expected:
                wrong.append((line["expr"], line["tz"], str(moment), str(found), expected))
                break
            moment = datetime.fromisoformat(expected)
        else:
            ends = "no further fire" in line["note"]
            if ends and Cron(line["expr"], line["dialect"], line["tz"]).next_after(moment) is not None:
                wrong.append((line["expr"], line["tz"], str(moment), "more", "no further"))
    assert wrong == []


@pytest.mark.parametrize("name", ["unix", "quartz"])
def test_on_every_valid_line_walking_in_the_zone_agrees_with_the_integers(name: str) -> None:
    for line in VALID[name]:
        cron = Cron(line["expr"], line["dialect"], line["tz"])
        slots = [to_instant(datetime.fromisoformat(value)) for value in line["next"]]
        start = to_instant(datetime.fromisoformat(line["start"]))
        moment = cron.next_after(datetime.fromisoformat(line["start"]))
        before = start
        for slot in slots:
            assert moment is not None
            assert to_instant(moment) == slot, line
            assert cron.slot_after(before) == slot, line
            assert cron.latest_before(slot) == slot, line
            assert cron.latest_before(slot + SECOND // 2) == slot, line
            if before != start:
                assert cron.latest_before(slot - 1) == before, line
            moment = cron.next_after(moment)  # the result of the last call, in the trigger's own zone
            before = slot
        assert cron.count_between(start + 1, slots[-1]) == len(slots), line


def test_every_invalid_line_is_refused_with_its_field_its_value_and_a_hint() -> None:
    poor = []
    for line in INVALID:
        try:
            Cron(line["expr"], line["dialect"])
        except CronError as error:
            _, said = str(error).split('": ', 1)
            name, hint = said.partition(" ")[0], said.partition("; ")[2]
            value = ast.literal_eval(VALUE.search(said)[0])  # type: ignore[index]
            named = all(part in line["expr"] for part in value.split(" "))
            if name not in FIELDS or not hint or not named:
                poor.append((line["expr"], said))
        else:
            poor.append((line["expr"], "accepted"))
    assert poor == []


def test_a_refusal_is_a_value_error_and_one_of_ours() -> None:
    with pytest.raises(ValueError) as caught:
        Cron("60 * * * *")
    assert isinstance(caught.value, QschedError)
    assert str(caught.value) == """cron: "60 * * * *": minute '60' is outside 0-59; 60 is written 0"""
