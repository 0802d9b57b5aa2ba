"""An application's beat_schedule, read by attributes: Celery need not be there."""

import sys
from datetime import timedelta
from types import ModuleType, SimpleNamespace

import pytest
from qsched.scheduler.errors import SourceError
from qsched.scheduler.exchange.importing import import_from
from qsched.scheduler.exchange.reading import CHANGED, LOST, Options
from qsched.triggers.declaration import load_text

NOW = 1_790_000_000_000_000
NINE = SimpleNamespace(
    _orig_minute=0, _orig_hour={21, 9}, _orig_day_of_month="*", _orig_month_of_year="*", _orig_day_of_week="0"
)
SCHEDULE = {
    "sundays": {"task": "shop.report", "schedule": NINE, "kwargs": {"to": "ops"}},
    "often": {"task": "shop.poll", "schedule": timedelta(seconds=90), "options": {"queue": "fast"}},
}


@pytest.fixture(autouse=True)
def shop(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("shop_beat")
    conf = SimpleNamespace(beat_schedule=SCHEDULE, timezone="Europe/Berlin")
    vars(module).update(app=SimpleNamespace(conf=conf), other=3)
    monkeypatch.setitem(sys.modules, "shop_beat", module)


def test_an_application_is_read_with_its_zone() -> None:
    made = import_from("celery", "shop_beat:app", Options(now=NOW))
    sundays, often = load_text(made.text, now=NOW).triggers
    assert (sundays.schedule["cron"], sundays.time_zone) == ("0 9,21 * * 0", "Europe/Berlin")
    assert often.schedule["every"] == 90_000_000
    assert made.report.count(CHANGED) == 3
    assert made.report.count(LOST) == 1


@pytest.mark.parametrize("where", ["shop_beat:other", "shop_beat:missing", "no_such_module:app"])
def test_what_is_no_application_is_refused_with_its_name(where: str) -> None:
    with pytest.raises(SourceError, match=where):
        import_from("celery", where, Options(now=NOW))
