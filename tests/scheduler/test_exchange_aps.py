"""APScheduler's jobs as they are found: a module's scheduler, rows of tables, and what is refused instead of opened."""

from pathlib import Path

import pytest
from qsched.scheduler.errors import SourceError
from qsched.scheduler.exchange.importing import import_from
from qsched.scheduler.exchange.reading import Options
from qsched.triggers.declaration import load_text

NOW = 1_780_000_000_000_000
APP = """\
from apscheduler.schedulers.background import BackgroundScheduler

def tick(): pass

mine = BackgroundScheduler(timezone="UTC")
mine.add_job(tick, "interval", id="tick", seconds=90)
jobs = mine.get_jobs()
"""


@pytest.mark.parametrize("variable", ["mine", "jobs"])
def test_a_scheduler_or_a_list_of_its_jobs_is_named_by_its_variable(tmp_path: Path, variable: str) -> None:
    (tmp_path / "app.py").write_text(APP)
    made = import_from("apscheduler3", f"{tmp_path / 'app.py'}:{variable}", Options(now=NOW))
    (trigger,) = load_text(made.text, now=NOW).triggers
    assert (trigger.key, trigger.schedule) == ("tick", {"every": 90_000_000})


@pytest.mark.parametrize("where", ["sqlite:///jobs.db", "jobs.sqlite"])
def test_a_store_of_pickles_is_refused_and_never_opened(where: str) -> None:
    with pytest.raises(SourceError, match="keeps pickles"):
        import_from("apscheduler3", where, Options(now=NOW))


def test_what_cannot_be_imported_says_why_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise RuntimeError('no database')\n")
    with pytest.raises(SourceError, match=r"app\.py:scheduler cannot be imported: no database") as raised:
        import_from("apscheduler3", str(tmp_path / "app.py"), Options(now=NOW))
    assert "module:variable" in str(raised.value.hint)


def test_rows_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("[]")
    with pytest.raises(SourceError, match="holds no rows of schedules"):
        import_from("apscheduler4", str(tmp_path / "rows.json"), Options(now=NOW))
