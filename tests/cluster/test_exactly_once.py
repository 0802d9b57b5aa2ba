"""Four nodes, one YAML of twenty one-second triggers: every slot runs once, none early, everybody works (B01)."""

from pathlib import Path

import pytest

from support.acceptance import Result, forked_workers, four_nodes, run_for, write_yaml
from support.nodes import Nodes

pytestmark = pytest.mark.alone


def check(result: Result, nodes: int, *, strict: bool) -> None:
    """The bars of the issue; a busy machine may be late, so lateness is judged in the long form only."""
    judged = result.judgement
    assert not judged.missing
    assert not judged.double
    assert not judged.strange
    assert judged.early == 0
    assert (result.rows_missing, result.rows_double, result.rows_other) == (0, 0, 0)
    assert result.troubles == []
    assert set(result.exit_codes) == {0}
    assert judged.late_at(0.99) <= (0.3 if strict else 20.0)
    if strict:
        assert len(judged.share) == nodes
        assert min(judged.share.values()) >= 0.1


def test_four_nodes_run_each_slot_once(store_url: str, tmp_path: Path, long_form: bool) -> None:
    file, keys = write_yaml(tmp_path)
    with Nodes(tmp_path, store_url) as nodes:
        four_nodes(nodes, file)
        check(run_for(nodes, keys, 60 if long_form else 4, 4), 4, strict=long_form)


@pytest.mark.parametrize("how", ["inside", "started"])
@pytest.mark.long
def test_four_forked_workers_run_each_slot_once_for_long(store_url: str, tmp_path: Path, how: str) -> None:
    _forked(store_url, tmp_path, how, 60, strict=True)


def test_four_forked_workers_of_a_file_run_each_slot_once(sqlite_url: str, tmp_path: Path) -> None:
    _forked(sqlite_url, tmp_path, "started", 3, strict=False)


@pytest.mark.long
def test_four_forked_workers_of_a_server_run_each_slot_once(postgresql_url: str, tmp_path: Path) -> None:
    _forked(postgresql_url, tmp_path, "inside", 3, strict=False)


def _forked(url: str, folder: Path, how: str, seconds: int, *, strict: bool) -> None:
    file, keys = write_yaml(folder)
    with Nodes(folder, url) as nodes:
        forked_workers(nodes, file, how)
        working = 5 if how == "started" else 4
        check(run_for(nodes, keys, seconds, working), working, strict=strict)
