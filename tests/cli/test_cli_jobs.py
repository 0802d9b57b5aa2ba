"""`qsched jobs show`: a job's policies, triggers and running firings, and a status that outlives its history."""

from pathlib import Path

import pytest
from qsched.scheduler.errors import UnknownJob
from qsched.triggers.instant import DAY, HOUR, SECOND

from qsched import Scheduler
from support.command_line import NOW, SHOP, Command, Filled


def lived(filled: Filled) -> None:
    """A job that failed, succeeded at its second and at its first attempt, failed twice and runs."""
    filled.declare(SHOP)
    for n, (state, attempt) in enumerate(
        [("failed", 3), ("succeeded", 1), ("succeeded", 0), ("failed", 3), ("lost", 0)]
    ):
        at = NOW - DAY + n * HOUR
        filled.firing("nightly", scheduled_at=at, state=state, attempt=attempt, finished_at=at + SECOND)
    filled.firing("nightly", state="running", started_at=NOW - SECOND)


def test_a_job_shows_what_became_of_its_firings(qsched: Command, filled: Filled) -> None:
    lived(filled)
    said = qsched("jobs", "show", "j", "--tz", "UTC")
    assert said.code == 0
    lines = dict(line.split("  ", 1) for line in said.out.splitlines())
    found = {name: value.strip() for name, value in lines.items()}
    assert found["Runs"] == "command: true"
    assert found["Triggers"] == "nightly"
    assert found["Running"].startswith("firing 6 on -, begun ")
    assert found["Last success"].startswith("Wed 18 Dec 2019 02:00:01, ")
    assert found["Last failure"].startswith("Wed 18 Dec 2019 04:00:01, ")
    assert found["Failures in a row"] == "2"
    assert found["Succeeded"] == "1 of 2 at the first attempt, 1 at retry 1"


def test_the_same_as_json_has_the_fields_of_the_list_and_its_own(qsched: Command, filled: Filled) -> None:
    lived(filled)
    (item,) = qsched("jobs", "show", "j", "-o", "json").items
    listed = next(each for each in qsched("jobs", "list", "-o", "json").items if each["name"] == "j")
    own = {name: item.pop(name) for name in list(item) if name not in listed}
    assert item == listed
    assert own.pop("running_firings")[0]["trigger"] == "nightly"
    assert own == {
        "last_success_at": "2019-12-18T02:00:01Z",
        "last_failure_at": "2019-12-18T04:00:01Z",
        "consecutive_failures": 2,
        "saved": {},
        "success_by_attempt": {"0": 1, "1": 1},
        "trigger_names": ["nightly"],
    }


def test_a_job_that_never_ran_says_so(qsched: Command, filled: Filled) -> None:
    filled.declare(SHOP)
    said = qsched("jobs", "show", "r")
    assert said.code == 0
    assert "none known" in said.out


def test_an_unknown_job_is_not_found_and_the_nearest_is_named(qsched: Command, filled: Filled) -> None:
    filled.declare(SHOP.replace("j:", "export:").replace("job: j", "job: export"))
    said = qsched("jobs", "show", "exprt")
    assert said.code == 4
    assert "did you mean 'export'?" in said.err


def test_an_application_asks_for_a_jobs_status(filled: Filled, sqlite_url: str, tmp_path: Path) -> None:
    lived(filled)
    with Scheduler(sqlite_url) as scheduler:
        assert scheduler.job_status("j")["consecutive_failures"] == 2
        with pytest.raises(UnknownJob):
            scheduler.job_status("k")
