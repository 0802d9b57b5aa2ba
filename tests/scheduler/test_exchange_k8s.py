"""A CronJob: a step of one in a day field is a star and any other is none; names are words for the shell."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from qsched.scheduler.exchange.k8s import read
from qsched.scheduler.exchange.reading import Options
from qsched.triggers.cron import Cron
from qsched.triggers.instant import from_instant, to_instant

MONDAYS = "2027-01-04, 2027-01-11, 2027-01-18"
MANIFEST = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {schedule: "0 0 SAID", timeZone: Etc/UTC, jobTemplate: {}}
"""


@pytest.mark.parametrize(
    ("days", "first"),
    [
        ("*/1 * 1", MONDAYS),
        ("? * 1", MONDAYS),
        ("*/10 * 1", "2027-01-01, 2027-01-04, 2027-01-11"),
        ("1 * */1", "2027-01-01, 2027-02-01, 2027-03-01"),
    ],
)
def test_a_step_of_one_is_a_star_and_any_other_is_none(tmp_path: Path, days: str, first: str) -> None:
    file = tmp_path / "nightly.yaml"
    file.write_text(MANIFEST.replace("SAID", days))
    (item,) = read(str(file), Options(now=0)).items
    cron = Cron(item.trigger["cron"], "unix", "UTC")
    slots = [to_instant(datetime(2026, 12, 31, 23, 59, tzinfo=UTC))]
    for _ in range(3):
        slot = cron.slot_after(slots[-1])
        assert slot is not None
        slots.append(slot)
    assert ", ".join(f"{from_instant(slot):%Y-%m-%d}" for slot in slots[1:]) == first
    assert item.fires is not None
    assert item.fires(slots[0], 3) == slots[1:]


def test_a_name_that_is_none_stays_one_word_for_the_shell(tmp_path: Path) -> None:
    file = tmp_path / "nightly.yaml"
    file.write_text(MANIFEST.replace("SAID", "* * 1").replace("nightly", "'x; rm -r y', namespace: '$(z)'"))
    (item,) = read(str(file), Options(now=0)).items
    assert (
        "create job -n '$(z)' --from=cronjob/'x; rm -r y' 'x; rm -r y'-$QSCHED_FIRING"
        in item.trigger["command"]
    )
