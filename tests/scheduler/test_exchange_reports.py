"""Sources of real shape, each with the report that its import shall print (QSCHED_WRITE_GOLDEN=1 writes them anew)."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from qsched.scheduler.exchange.formats import FORMATS
from qsched.scheduler.exchange.importing import Imported, import_from, slots
from qsched.scheduler.exchange.reading import CHANGED, EXACT, LOST, Options
from qsched.triggers.declaration import load_text
from qsched.triggers.instant import to_instant

DATA = Path(__file__).parent.parent / "data" / "exchange"
NOW = to_instant(datetime(2026, 10, 24, 0, 0, 17, tzinfo=UTC))
"""The day before clocks go back in Europe: a week of fires shows what that does."""

GOLDEN = ".report.txt"
SOURCES = [
    each
    for folder in sorted(DATA.iterdir())
    for each in sorted(folder.iterdir())
    if not each.name.endswith((GOLDEN, ".service"))
]


def imported(source: Path) -> Imported:
    return import_from(source.parent.name, str(source), Options(now=NOW))


def ids(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@pytest.mark.parametrize("source", SOURCES, ids=ids)
def test_an_import_reports_what_is_checked_in(source: Path) -> None:
    made = imported(source)
    golden = source.with_name(source.name + GOLDEN)
    if os.environ.get("QSCHED_WRITE_GOLDEN"):
        golden.write_text(made.report.text())
    assert made.report.text() == golden.read_text()
    assert made.report.count(CHANGED) >= 1
    assert made.report.count(LOST) >= 1


@pytest.mark.parametrize("source", SOURCES, ids=ids)
def test_what_an_import_writes_is_a_declaration_whose_fires_are_the_reported_ones(source: Path) -> None:
    made = imported(source)
    triggers = {trigger.key: trigger for trigger in load_text(made.text, now=NOW).triggers}
    assert triggers.keys() == {trigger.name for trigger in made.report.entries} - lost(made)
    for entry in made.report.entries:
        if entry.name in triggers and entry.rows:
            definition = triggers[entry.name]
            ours = slots(definition, definition.compile(), NOW)
            assert ours == [row.ours for row in entry.rows if row.ours is not None]
            whole = [
                remark.level for remark in entry.remarks if remark.what.startswith(("schedule", "fires"))
            ]
            assert entry.agrees or CHANGED in whole
            assert entry.agrees == (not any(remark.what.startswith("fires,") for remark in entry.remarks))


def lost(made: Imported) -> set[str]:
    """The triggers that our own check refuses."""
    return {
        entry.name
        for entry in made.report.entries
        if any(remark.level == LOST and remark.what == "the trigger" for remark in entry.remarks)
    }


def test_every_format_has_three_sources_with_a_report() -> None:
    for name in FORMATS:
        assert len([each for each in SOURCES if each.parent.name == name]) >= 3, name


def test_the_same_time_there_and_here_is_said_to_be_exact() -> None:
    made = imported(DATA / "crontab" / "web.crontab")
    nightly = next(entry for entry in made.report.entries if entry.name == "backup-sh-1")
    assert nightly.agrees
    assert {remark.level for remark in nightly.remarks} == {EXACT}
