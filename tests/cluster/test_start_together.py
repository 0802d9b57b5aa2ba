"""Eight nodes start at once on an empty database with the same file: one copy of everything, no error (B68)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from qsched.scheduler.store.schema import HEAD, VERSION_TABLE, open_store

from support.declared import rows
from support.nodes import Nodes

TRIGGERS = 200


def write_file(folder: Path) -> Path:
    lines = ["qsched: 1", "jobs:", "  nothing: {command: 'true'}", "triggers:"]
    lines += [f"  t{number:03}: {{job: nothing, cron: '0 0 1 1 *'}}" for number in range(TRIGGERS)]
    file = folder / "qsched.yaml"
    file.write_text("\n".join(lines) + "\n")
    return file


def check(url: str) -> None:
    store = open_store(url, create=False)
    try:
        assert rows(store, "SELECT COUNT(*), COUNT(DISTINCT name) FROM qsched_triggers") == [(TRIGGERS,) * 2]
        assert rows(store, "SELECT COUNT(*), COUNT(DISTINCT id) FROM qsched_trigger_clocks") == [
            (TRIGGERS,) * 2
        ]
        assert rows(store, "SELECT state, COUNT(*) FROM qsched_triggers GROUP BY state") == [
            ("waiting", TRIGGERS)
        ]
        assert rows(store, "SELECT COUNT(*) FROM qsched_jobs") == [(1,)]
        assert rows(store, "SELECT COUNT(*) FROM qsched_clusters") == [(1,)]
        assert rows(store, "SELECT revision, state FROM qsched_declarations") == [(1, "applied")]
        assert rows(store, "SELECT COUNT(*) FROM qsched_revisions") == [(1,)]
        assert rows(store, "SELECT COUNT(*) FROM qsched_firings") == [(0,)]
        assert rows(store, f"SELECT version_num FROM {VERSION_TABLE}") == [(HEAD,)]
        nodes = rows(store, "SELECT name, state FROM qsched_nodes ORDER BY name")
        assert nodes == [(f"node{number}", "up") for number in range(8)]
    finally:
        store.close()


def start_eight(url: str, folder: Path) -> None:
    """Start eight nodes at once, look at what they made, and stop them."""
    folder.mkdir(exist_ok=True)
    file = write_file(folder)
    with Nodes(folder, url) as nodes:
        for number in range(8):
            nodes.start(f"node{number}", "--allow", "command", file=file)
        for node in nodes.all:
            node.wait_ready()
        check(url)
        assert set(nodes.stop()) == {0}
        assert nodes.troubles() == []


def test_eight_nodes_that_start_at_once_make_one_copy_of_everything(store_url: str, tmp_path: Path) -> None:
    start_eight(store_url, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_eight_nodes_start_at_once_nineteen_times_more(
    request: pytest.FixtureRequest, store_url: str, tmp_path: Path
) -> None:
    for number in range(19):
        with fresh(request, store_url, tmp_path / f"store{number}.db") as url:
            start_eight(url, tmp_path / f"run{number}")


@contextmanager
def fresh(request: pytest.FixtureRequest, like: str, file: Path) -> Iterator[str]:
    """Another empty store on the same database as `like`."""
    if like.startswith("sqlite"):
        yield f"sqlite:///{file}"
    else:
        server = request.getfixturevalue("postgres" if like.startswith("postgresql") else "mariadb")
        with server.lease() as url:
            yield url
