"""Whatever a declaration accepts, stores and comes back as the same definition; whatever it refuses has a place."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from qsched.triggers.declaration import Declarations, load_text
from qsched.triggers.declaration_problem import CODES, DeclarationError, Problem
from qsched.triggers.job import JobDefinition
from qsched.triggers.trigger import TriggerDefinition

NOW = 1_735_689_600_000_000  # 2025-01-01T00:00:00Z

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=20)
DURATIONS = st.builds("{}{}".format, st.integers(1, 500), st.sampled_from(["s", "m", "h", "d", "ms"]))
DATES = st.datetimes().map(lambda moment: moment.replace(year=2000 + moment.year % 100, day=1, microsecond=0))
TIMES = st.one_of(
    DATES.map(str), DATES.map(lambda moment: f"{moment.isoformat()}Z"), DATES.map(lambda m: str(m.date()))
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
RETRIES = st.one_of(
    st.sampled_from(["none", "hangfire", "nightly", "order_mail", 0, 3]),
    st.fixed_dictionaries(
        {"max_retries": st.integers(0, 9)},
        optional={
            "delay": DURATIONS,
            "multiplier": st.floats(1, 9),
            "jitter": st.floats(0, 1),
            "retry_on": st.just(["OSError"]),
        },
    ),
    st.fixed_dictionaries({"delays": st.lists(DURATIONS, min_size=1, max_size=3)}),
)
MISFIRES = st.one_of(
    st.sampled_from(["fire_once", "skip", "fire_all"]),
    st.fixed_dictionaries({}, optional={"policy": st.just("fire_all"), "threshold": DURATIONS, "window": DURATIONS,
                                        "limit": st.integers(1, 99)}),
)  # fmt: skip
SCHEDULES = st.one_of(
    st.sampled_from(["15 2 * * *", "*/5 * * * 1-5", "0 0 13 * 5", "@daily", "H H * * *"]).map(
        lambda text: {"cron": text}
    ),
    st.sampled_from(["0 30 18 LW * ?", "0 0/5 9-17 ? * MON-FRI"]).map(lambda text: {"quartz": text}),
    st.fixed_dictionaries({"every": DURATIONS}, optional={"anchor": TIMES}),
    TIMES.map(lambda text: {"at": text}),
)
TRIGGERS = st.builds(
    lambda schedule, more: {**schedule, **more},
    SCHEDULES,
    st.fixed_dictionaries(
        {"command": st.sampled_from(["ls", ["ls", "-l"]])},
        optional={
            "time_zone": st.sampled_from(
                ["UTC", "Europe/Istanbul", "America/New_York", "Australia/Lord_Howe"]
            ),
            "start_at": TIMES,
            "end_at": TIMES,
            "max_fires": st.integers(1, 9),
            "misfire": MISFIRES,
            "retry": RETRIES,
            "data": st.dictionaries(st.text(max_size=5), JSON, max_size=3),
            "priority": st.integers(-9, 9),
            "paused": st.booleans(),
            "tags": st.lists(NAMES, max_size=3),
            "run_on": st.lists(NAMES, max_size=3),
            "group": NAMES,
            "description": st.text(max_size=20),
            "dst": st.just({"gap": "skip", "overlap": "twice"}),
            "timeout": DURATIONS,
            "env": st.dictionaries(NAMES, st.text(max_size=9), max_size=2),
        },
    ),
)


def read(text: str) -> tuple[Declarations | None, tuple[Problem, ...]]:
    """What a text declares, or its problems."""
    try:
        return load_text(text, now=NOW), ()
    except DeclarationError as error:
        return None, error.problems


@given(st.dictionaries(NAMES, TRIGGERS, min_size=1, max_size=3))
def test_what_is_accepted_comes_back_from_the_store_the_same(triggers: dict[str, Any]) -> None:
    text = json.dumps({"qsched": 1, "triggers": triggers}, ensure_ascii=True)
    found, problems = read(text)
    for problem in problems:
        assert problem.code in CODES
        assert problem.line >= 1
        assert problem.render()
    if found is None:
        return
    for trigger in found.triggers:
        stored = json.loads(json.dumps(trigger.to_spec()))
        assert TriggerDefinition.from_spec(trigger.group, trigger.name, stored) == trigger
        trigger.compile().slot_after(NOW)
    for job in found.jobs:
        assert JobDefinition.from_spec(job.name, json.loads(json.dumps(job.to_spec()))) == job
    assert load_text(text, now=NOW) == found


@given(st.text(max_size=60) | st.text(alphabet="aqsched:1trige \n\t-[]{},'\"&*!|>%@#?<", max_size=60))
def test_no_text_makes_the_reader_fail_in_another_way(text: str) -> None:
    for whole in (text, f"qsched: 1\ntriggers:\n  a:\n    {text}\n"):
        found, problems = read(whole)
        assert found is not None or problems
        assert all(problem.render() for problem in problems)
