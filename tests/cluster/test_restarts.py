"""The same file at five restarts changes no row and fires nothing; edits leave one row a trigger and fire nothing (B11, B21)."""

from pathlib import Path
from typing import Any

from qsched.scheduler.store.schema import open_store
from qsched.scheduler.store.tx import Tx

from qsched import Node

WEEKLY = """\
qsched: 1
jobs:
  mail: {command: 'true'}
triggers:
  weekly: {job: mail, cron: "0 9 * * 1"}
  minutely: {job: mail, cron: "30 4 1 1 *", time_zone: Europe/Berlin}
  held: {job: mail, every: 30d, paused: true}
"""
TABLES = ("triggers", "trigger_clocks", "jobs", "permits", "declarations", "revisions", "audit", "firings")


def _rows(tx: Tx, table: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in tx.run(f"SELECT * FROM qsched_{table}")), key=repr)


def contents(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of what a restart must leave alone."""
    store = open_store(url, create=False, read_only=True)
    try:
        return store.read("test", lambda tx: {table: _rows(tx, table) for table in TABLES})
    finally:
        store.close()


def restart(url: str, file: Path) -> None:
    """A node starts with the file, as `qsched node -f` does, takes work for a moment, and stops."""
    node = Node(url, files=[file], allow=["command"])
    node.start()
    assert node.wait_ready(30)
    assert node.stop() == 0


def test_five_restarts_with_the_same_file_change_no_row(store_url: str, tmp_path: Path) -> None:
    file = tmp_path / "qsched.yaml"
    file.write_text(WEEKLY)
    restart(store_url, file)
    before = contents(store_url)
    assert len(before["triggers"]) == 3
    assert before["firings"] == []
    for _ in range(5):
        restart(store_url, file)
        assert contents(store_url) == before


def test_quoting_and_order_change_no_trigger_and_edits_leave_one_row_each(
    store_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "qsched.yaml"
    file.write_text(WEEKLY)
    restart(store_url, file)
    before = contents(store_url)
    file.write_text(WEEKLY.replace('cron: "0 9 * * 1"', "cron: '0 9 * * 1'").replace("  held:", "  'held':"))
    restart(store_url, file)
    after = contents(store_url)
    assert (after["triggers"], after["trigger_clocks"]) == (before["triggers"], before["trigger_clocks"])
    for edit in ("10 9 * * 1", "10 9 * * MON", "* * * * *"):
        file.write_text(WEEKLY.replace("0 9 * * 1", edit).replace("Europe/Berlin", "Asia/Tokyo"))
        restart(store_url, file)
    edited = contents(store_url)
    assert len(edited["triggers"]) == len(edited["trigger_clocks"]) == 3
    # "* * * * *" is due within the minute at the earliest: an edit fires nothing at once, whatever it had have named.
    assert [row for row in edited["firings"] if "edited" not in row] == []
