"""Every reading command says the same on each of the three databases."""

from collections.abc import Iterator

import pytest
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND

from support.command_line import NOW, Command, Filled

FILE = """
qsched: 1
namespace: shop
jobs: {j: {command: "true"}}
triggers:
  nightly: {job: j, cron: "0 2 * * 0", group: billing}
  late: {job: j, every: 10s}
  Late: {job: j, every: 10s}
"""


@pytest.fixture
def store(made_url: str) -> Iterator[Filled]:
    """A store on each database in turn, with a misfired trigger, a firing with two attempts, and a node."""
    opened = open_store(made_url, create=True, now=lambda: NOW)
    filled = Filled(made_url, opened)
    filled.declare(FILE)
    slot = NOW - 5 * SECOND
    told = {"misfire_cause": "overlap", "misfire_policy": "skip", "misfire_decision": "skipped 9"}
    filled.firing("late", scheduled_at=slot - 90 * SECOND, outcome="failed", state="failed")
    filled.firing(
        "late", scheduled_at=slot, covers=9, reason="misfire", state="skipped", noticed_at=NOW, **told
    )
    filled.clock("late", fires=1, misfires=9, last_fire_at=slot - 90 * SECOND, last_misfire_at=slot)
    number = filled.firing("nightly", attempt=1, fence=2, started_at=NOW, state="running")
    filled.sql(
        "INSERT INTO qsched_attempts (firing_id, fence, cluster, attempt, recovering, started_at, finished_at,"
        " outcome, error, note, next_run_at) VALUES (?, 1, ?, 0, 0, ?, ?, 'failed', '{', 'x', ?)",
        *(number, opened.cluster_id, NOW - SECOND, NOW, NOW),
    )
    filled.sql(
        "INSERT INTO qsched_nodes (cluster, name, host, pid, state, started_at, checked_in_at, lease_until, renew_seq,"
        " capacity, running, clock_offset, version, tags) VALUES (?, 'a', 'h', 7, 'up', ?, ?, ?, 1, 20, 0, 0, '0.1.0', ?)",
        *(opened.cluster_id, NOW, NOW, NOW, '["gpu"]'),
    )
    yield filled
    opened.close()


def test_the_lists_and_details(qsched: Command, store: Filled) -> None:
    def items(*arguments: str) -> list[dict[str, object]]:
        said = qsched(*arguments, "-o", "json", "--store", store.url)
        assert (said.code, said.err) == (0, "")
        return said.items

    triggers = {str(item["name"]): item for item in items("triggers", "list")}
    assert triggers.keys() == {"billing/nightly", "late", "Late"}
    assert triggers["late"]["last_outcome"] == "failed"
    assert triggers["late"]["last_misfire"] is not None
    assert triggers["Late"]["misfires"] == 0
    assert [item["name"] for item in items("triggers", "list", "--group", "billing")] == ["billing/nightly"]
    (late,) = items("triggers", "show", "late")
    assert late["words"] == "Every 10 seconds"
    assert len(items("triggers", "next", "Late")) == 5
    rows = items("firings", "list")
    assert [row["state"] for row in rows] == ["running", "skipped", "failed"]
    assert [row["id"] for row in items("firings", "list", "--trigger", "late")] == [
        row["id"] for row in rows[1:]
    ]
    (misfire,) = items("misfires", "list")
    assert misfire["misfire"] == {"cause": "overlap", "policy": "skip", "decision": "skipped 9"}
    (shown,) = items("firings", "show", str(rows[0]["id"]))
    assert isinstance(shown["attempts"], list)
    assert [attempt["error"] for attempt in shown["attempts"]] == [
        {"type": None, "message": "{", "traceback": None},
        None,
    ]
    (job,) = items("jobs", "list")
    assert (job["triggers"], job["running"]) == (3, 1)
    (node,) = items("nodes", "list")
    assert (node["name"], node["tags"]) == ("a", ["gpu"])
    assert qsched("db", "current", "--store", store.url).code == 0


def test_a_later_page_begins_where_the_last_one_ended(
    store: Filled, monkeypatch: pytest.MonkeyPatch, qsched: Command
) -> None:
    monkeypatch.setattr("qsched.scheduler.store.reports.PAGE", 2)
    monkeypatch.setattr("qsched.scheduler.store.firing_reports.PAGE", 2)
    names = qsched("triggers", "list", "-o", "name", "--store", store.url).out.splitlines()
    assert sorted(names) == ["Late", "billing/nightly", "late"]
    assert len(set(qsched("firings", "list", "-o", "name", "--store", store.url).out.splitlines())) == 3
