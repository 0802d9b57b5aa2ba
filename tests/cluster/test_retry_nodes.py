"""The article's retry on real nodes: 2, 4 and 8 s after the failure before, four attempts on record, also when a node dies."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.control import fire
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.firing_reports import firing
from qsched.scheduler.store.schema import open_store
from qsched.triggers.instant import SECOND

from support.ledger import Ledger
from support.nodes import Nodes
from support.waiting import wait_until

_LATEST = SECOND // 2
_FILE = """
qsched: 1
jobs:
  stumble:
    python: support.ledger_jobs:stumble
    data: {{ledger: {ledger}}}
    retry: {{max_retries: 3, delay: {delay}, multiplier: 2}}
triggers:
  once_a_year: {{job: stumble, cron: "@yearly"}}
"""

_IN_THE_LONG_FORM = pytest.mark.long
_CASES = [
    pytest.param("sqlite", True, id="sqlite-killed"),
    pytest.param("postgresql", True, id="postgresql-killed"),
    pytest.param("mariadb", True, id="mariadb-killed", marks=_IN_THE_LONG_FORM),
    *(
        pytest.param(database, False, id=f"{database}-undisturbed", marks=_IN_THE_LONG_FORM)
        for database in ("sqlite", "postgresql", "mariadb")
    ),
]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def file(tmp_path: Path, ledger: Ledger, long_form: bool) -> Path:
    """What the nodes apply: the article's delays in the long form, a quarter of them else."""
    file = tmp_path / "qsched.yaml"
    file.write_text(_FILE.format(ledger=ledger.path, delay="2s" if long_form else "500ms"))
    return file


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """An empty database of the kind that the test's case names."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def nodes(tmp_path: Path, url: str, file: Path) -> Iterator[Nodes]:
    """Two nodes at work."""
    with Nodes(tmp_path / "nodes", url) as nodes:
        for name in ("a", "b"):
            nodes.start(name, file=file)
        for node in nodes.all:
            node.wait_ready()
        yield nodes


@pytest.fixture
def store(nodes: Nodes, url: str) -> Iterator[Store]:
    store = open_store(url, create=False)
    yield store
    store.close()


@pytest.mark.alone
@pytest.mark.parametrize(("url", "killed"), _CASES, indirect=["url"])
def test_each_run_starts_its_delay_after_the_failure_before_it_whoever_runs_it(
    nodes: Nodes, store: Store, ledger: Ledger, long_form: bool, killed: bool
) -> None:
    """B2, B6: never early, at most half a second late, four attempts; a node that dies in between takes no attempt with it."""
    number = fire(store, "once_a_year")

    def shown() -> dict[str, Any]:
        item = firing(store, number)
        assert item is not None
        return item

    dead = None
    if killed:
        wait_until(
            lambda: len(shown()["attempts"]) == 2 and shown()["state"] == "due",
            "retry 1 to have failed",
            within=60,
        )
        dead = ledger.lines("began")[1]["node"]
        next(node for node in nodes.all if node.folder.name == dead).kill()
    wait_until(lambda: shown()["state"] == "failed", "the last retry to have failed", within=60)

    item = shown()
    attempts = item["attempts"]
    assert [attempt["attempt"] for attempt in attempts] == [0, 1, 2, 3]
    assert [attempt["outcome"] for attempt in attempts] == ["failed"] * 4
    assert item["note"] == "retries exhausted after 3: ValueError: boom"
    began = ledger.lines("began")
    assert [run["attempt"] for run in began] == [0, 1, 2, 3]
    assert [run["node"] for run in began] == [attempt["node"] for attempt in attempts]
    if killed:
        assert dead not in [run["node"] for run in began[2:]]
    first = 2 * SECOND if long_form else SECOND // 2
    delays = [first, 2 * first, 4 * first]
    rows = store.read("attempts", lambda tx: tx.rows(
        "SELECT started_at, finished_at FROM qsched_attempts WHERE firing_id = ? UNION ALL"
        " SELECT started_at, finished_at FROM qsched_firings WHERE id = ? ORDER BY 1", number, number))  # fmt: skip
    waited = [later[0] - sooner[1] for sooner, later in pairwise(rows)]
    assert all(0 <= wait - delay <= _LATEST for wait, delay in zip(waited, delays, strict=True)), waited
    seen = [later["at"] - sooner["at"] for sooner, later in pairwise(began)]
    assert all(0 <= wait - delay <= _LATEST for wait, delay in zip(seen, delays, strict=True)), seen
