"""`Scheduler`: what an application writes comes out as the same rows that a file makes."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.client import Scheduler
from qsched.scheduler.errors import Conflict, Refused, StoreMissing, UnknownTrigger
from qsched.scheduler.jobs import job
from qsched.triggers.cron import Cron
from qsched.triggers.errors import CronError, DefinitionError
from qsched.triggers.instant import to_instant
from qsched.triggers.interval import Every
from qsched.triggers.once import At
from qsched.triggers.retry import RetryPolicy


@job
def report() -> None:
    """A job."""


@pytest.fixture
def scheduler(made_url: str) -> Iterator[Scheduler]:
    with Scheduler(made_url) as scheduler:
        yield scheduler


def query(scheduler: Scheduler, statement: str) -> list[tuple[Any, ...]]:
    store = scheduler._open(create=False)
    return store.read("look", lambda tx: [tuple(row) for row in tx.run(statement)])


FILE = """\
qsched: 1
namespace: shop
triggers:
  heartbeat: {every: 10s, command: "echo alive"}
"""


def test_a_file_is_applied_once_and_planned(scheduler: Scheduler, tmp_path: Path) -> None:
    path = tmp_path / "qsched.yaml"
    path.write_text(FILE)
    assert [each.key for each in scheduler.plan(path).items] == ["heartbeat", "heartbeat"]
    assert scheduler.apply(path).added == ("heartbeat",)
    assert scheduler.apply([path]).status == "up_to_date"
    assert not scheduler.plan(str(path)).has_changes
    assert [each["name"] for each in scheduler.triggers()] == ["heartbeat"]


def test_reading_never_makes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "qsched.yaml"
    path.write_text(FILE)
    with Scheduler(f"sqlite:///{tmp_path / 'none.db'}") as scheduler:
        assert scheduler.plan(path).has_changes
        with pytest.raises(StoreMissing):
            list(scheduler.triggers())
        with pytest.raises(StoreMissing):
            scheduler.next("heartbeat")
    assert not (tmp_path / "none.db").exists()


def test_a_trigger_is_added_once_however_often_it_is_said(scheduler: Scheduler) -> None:
    def say(expr: str) -> bool:
        schedule = Cron(expr, time_zone="Europe/Berlin")
        return scheduler.add("nightly", job=report, schedule=schedule, data={"a": 1}, misfire="skip")

    assert [say("15 2 * * *"), say("15 2 * * *"), say("15 3 * * *"), say("15 3 * * *")] == [
        True,
        False,
        True,
        False,
    ]
    found = query(scheduler, "SELECT name, namespace, spec FROM qsched_triggers")
    assert [row[:2] for row in found] == [("nightly", "code")]
    assert '"time_zone":"Europe/Berlin"' in found[0][2]
    jobs = query(scheduler, "SELECT name, namespace, spec FROM qsched_jobs")
    target = f"{__name__}:report"
    assert jobs == [(target, "code", f'{{"python":"{target}","v":1}}')]


def test_added_triggers_do_not_prune_each_other(scheduler: Scheduler) -> None:
    soon = datetime(2100, 1, 1, tzinfo=UTC)
    scheduler.add("a", job="report", every="10s")
    scheduler.add("g/b", job="report", schedule=Every("1h", anchor=soon), paused=True, tags=["x"])
    scheduler.add("c", job="report", schedule=At(soon), retry=RetryPolicy.fixed(3, "2s"))
    scheduler.add("d", job="report", quartz="0 0 12 ? * MON", end_at=soon)
    scheduler.add("e", job="report", every=timedelta(minutes=1), max_fires=2, start_at=soon)
    assert query(scheduler, "SELECT COUNT(*) FROM qsched_triggers WHERE state = 'waiting'") == [(5,)]
    assert scheduler.next("c", 3) == [soon]
    assert scheduler.next("g/b", 2) == [soon, soon + timedelta(hours=1)]
    assert scheduler.next("e", 3) == [soon, soon + timedelta(minutes=1)]


def test_what_a_file_owns_is_not_added_over(scheduler: Scheduler, tmp_path: Path) -> None:
    path = tmp_path / "qsched.yaml"
    path.write_text(FILE)
    scheduler.apply(path)
    with pytest.raises(Conflict, match="'heartbeat' belongs to namespace 'shop'"):
        scheduler.add("heartbeat", job=report, every="1s")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "exactly one of"),
        ({"cron": "* * * * *", "every": "1s"}, "exactly one of"),
        ({"crn": "* * * * *"}, "did you mean cron"),
        ({"schedule": "* * * * *"}, "is a Cron, an Every or an At"),
        ({"every": "1s", "data": {"x": object()}}, "JSON cannot carry"),
        ({"schedule": Cron("* * * * *"), "time_zone": "Europe/Berlin"}, "say it in one of them"),
        ({"schedule": Cron("H * * * *", key="other")}, "hashes H from 'other'"),
    ],
)
def test_what_cannot_work_is_refused_before_a_store_is_made(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with Scheduler(f"sqlite:///{tmp_path / 'none.db'}") as scheduler:
        with pytest.raises(DefinitionError, match=words):
            scheduler.add("a", job="report", **options)
        with pytest.raises(DefinitionError, match="not a trigger's key"):
            scheduler.add("a/b/c", job="report", every="1s")
        with pytest.raises(CronError):
            scheduler.add("a", job="report", cron="61 * * * *")
    assert not (tmp_path / "none.db").exists()


def test_the_verbs_reach_the_store(scheduler: Scheduler) -> None:
    scheduler.add("g/a", job="report", every="1h")
    scheduler.pause("g/a", reason="deploy", until=timedelta(hours=1))
    found = query(scheduler, "SELECT paused_by, paused_reason, paused_until - paused_at FROM qsched_triggers")
    assert found[0][:2] == ("python", "deploy")
    assert abs(found[0][2] - 3_600_000_000) < 60_000_000
    with pytest.raises(Refused):
        scheduler.fire("g/a")
    scheduler.resume("g/a")
    scheduler.pause_group("g", until=datetime(2100, 1, 1, tzinfo=UTC))
    assert query(scheduler, "SELECT paused_until FROM qsched_paused_groups") == [
        (to_instant(datetime(2100, 1, 1, tzinfo=UTC)),)
    ]
    scheduler.resume_group("g")
    assert scheduler.fire("g/a", request_key="x") == scheduler.fire("g/a", request_key="x")
    scheduler.reset("g/a")
    scheduler.delete("g/a")
    with pytest.raises(UnknownTrigger):
        scheduler.next("g/a")


# Python 3.12 and later warn of any thread beside the fork; here that is the test runner's.
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_uses_connections_of_its_own(scheduler: Scheduler) -> None:
    scheduler.add("a", job="report", every="1h")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            scheduler.add("b", job="report", every="1h")
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    scheduler.add("c", job="report", every="1h")
    assert [each["name"] for each in scheduler.triggers()] == ["a", "b", "c"]


def test_a_program_leaves_out_what_it_says_by_the_keys_that_yaml_has(scheduler: Scheduler) -> None:
    closed = {"weekly": ["sat", "sun"], "dates": [date(2027, 1, 1), "12-24..12-26"]}
    scheduler.add(
        "month_end",
        job=report,
        schedule=Cron("0 30 18 L * ?", "quartz", "Europe/Istanbul"),
        exclude={"closed": closed},
        on_excluded="previous",
        jitter="30s",
    )
    ((text,),) = query(scheduler, "SELECT spec FROM qsched_triggers")
    said = json.loads(text)
    assert said["calendars"] == {
        "closed": {
            "weekly": ["sat", "sun"],
            "dates": [["2027-01-01", "2027-01-01"]],
            "yearly": [["12-24", "12-26"]],
        }
    }
    assert (said["exclude"], said["on_excluded"], said["jitter"]) == (["closed"], "previous", 30_000_000)
    assert all(slot.weekday() < 5 for slot in scheduler.next("month_end", 24))


@pytest.mark.parametrize(
    ("calendar", "words"),
    [
        ({"weekly": ["someday"]}, "someday"),
        ({"week": ["sun"]}, "unknown key week"),
        ({"ics": "ops.ics"}, "is for files"),
        ({}, "leaves nothing out"),
        ({"holidays": "XX"}, "'XX' is not known"),
    ],
)
def test_a_calendar_that_cannot_be_meant_is_refused_by_name(
    scheduler: Scheduler, calendar: dict[str, Any], words: str
) -> None:
    with pytest.raises(DefinitionError, match="calendar 'closed'") as raised:
        scheduler.add("tick", job=report, every="10s", exclude={"closed": calendar})
    assert words in str(raised.value)
