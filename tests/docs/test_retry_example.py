"""The example of retries does what its words say: inside one attempt, or in several on record."""

from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.control import fire
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.firing_reports import firing
from qsched.scheduler.store.schema import open_store

from support.house import search_path
from support.nodes import Nodes
from support.tree import ROOT
from support.waiting import wait_until

EXAMPLES = ROOT / "examples"


def ended(store: Store, number: int) -> dict[str, Any]:
    """The firing with its attempts, once it has ended."""

    def shown() -> dict[str, Any] | None:
        item = firing(store, number)
        return item if item is not None and item["finished_at"] and item["state"] != "due" else None

    wait_until(shown, f"firing {number} to end", within=60)
    found = shown()
    assert found is not None
    return found


def test_a_retry_inside_leaves_one_attempt_and_its_twin_leaves_three(sqlite_url: str, tmp_path: Path) -> None:
    example = (EXAMPLES / "retries" / "qsched.yaml").read_text()
    seldom = tmp_path / "qsched.yaml"
    seldom.write_text(example.replace("*/5 * * * *", "0 0 29 2 *"))  # no slot of its own comes between
    assert example.count("*/5 * * * *") == 2
    with Nodes(tmp_path, sqlite_url) as nodes:
        node = nodes.start(
            "a",
            file=seldom,
            environment={"PYTHONPATH": f"{EXAMPLES}:{search_path()}"},
        )
        node.wait_ready()
        store = open_store(sqlite_url, create=False)
        inside, by_job = (
            ended(store, number) for number in [fire(store, name) for name in ("inside", "by_job")]
        )
        store.close()
        journal = (node.folder / "calls.txt").read_text().split("\n")
    assert (inside["state"], len(inside["attempts"])) == ("succeeded", 1)
    assert journal.count("inside") == 3
    assert (by_job["state"], by_job["attempt"]) == ("succeeded", 2)
    assert [attempt["outcome"] for attempt in by_job["attempts"]] == ["failed", "failed", "succeeded"]
    assert [attempt["note"].split(":")[0][:15] for attempt in by_job["attempts"][:2]] == [
        "retry 1 of 3 in",
        "retry 2 of 3 in",
    ]
    assert journal.count("by job") == 3


def test_the_inner_retry_hears_that_its_body_is_told_to_stop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its waits are `ctx.sleep`: a time-out or a shutdown ends it at once, and not after its last try."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import importlib

    jobs = importlib.import_module("retries.jobs")

    class Stopped(Exception):
        """What ctx.sleep raises then."""

    class Context:
        def sleep(self, seconds: float) -> None:
            raise Stopped

    with pytest.raises(Stopped):
        jobs.rates_inside(Context(), str(tmp_path / "calls.txt"), failures=9)
    assert (tmp_path / "calls.txt").read_text() == "inside\n"
