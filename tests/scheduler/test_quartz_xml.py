"""Quartz's XML, where a report does not show it: mapped classes, counts that misfires use up, and files that are refused."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from qsched.scheduler.errors import SourceError
from qsched.scheduler.exchange.importing import import_from
from qsched.scheduler.exchange.reading import Options
from qsched.triggers.declaration import load_text
from qsched.triggers.instant import to_instant

NOW = to_instant(datetime(2026, 10, 24, tzinfo=UTC))
HEAD = '<job-scheduling-data xmlns="http://www.quartz-scheduler.org/xml/JobSchedulingData" version="2.0"><schedule>'
JOB = "<job><name>j</name><job-class>com.example.Job</job-class></job>"


def written(tmp_path: Path, body: str, head: str = HEAD) -> str:
    file = tmp_path / "jobs.xml"
    file.write_text(f"{head}{body}</schedule></job-scheduling-data>")
    return str(file)


def test_a_class_is_the_function_it_was_mapped_to(tmp_path: Path) -> None:
    cron = "<trigger><cron><name>t</name><job-name>j</job-name><cron-expression>0 0 3 * * ?</cron-expression></cron></trigger>"
    options = Options(now=NOW, time_zone="Europe/Berlin", said={"map": "com.example.Job=shop.jobs:work"})
    declared = load_text(import_from("quartz", written(tmp_path, JOB + cron), options).text, now=NOW)
    assert declared.jobs[0].target == "shop.jobs:work"
    assert declared.triggers[0].time_zone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("instruction", "last"),
    [
        ("MISFIRE_INSTRUCTION_RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT", ("max_fires", 10)),
        (
            "MISFIRE_INSTRUCTION_RESCHEDULE_NEXT_WITH_REMAINING_COUNT",
            ("end_at", datetime(2026, 11, 1, 9, tzinfo=UTC)),
        ),
    ],
)
def test_ten_times_are_counted_as_the_instruction_counts(
    tmp_path: Path, instruction: str, last: tuple[str, object]
) -> None:
    simple = (
        "<trigger><simple><name>t</name><job-name>j</job-name><start-time>2026-11-01T00:00:00Z</start-time>"
        f"<misfire-instruction>{instruction}</misfire-instruction>"
        "<repeat-count>9</repeat-count><repeat-interval>3600000</repeat-interval></simple></trigger>"
    )
    imported = import_from("quartz", written(tmp_path, JOB + simple), Options(now=NOW))
    (trigger,) = load_text(imported.text, now=NOW).triggers
    name, value = last
    assert getattr(trigger, name) == (to_instant(value) if isinstance(value, datetime) else value)


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (f'<!DOCTYPE x [<!ENTITY a "aaaa">]>{HEAD}', "document type"),
        ("<job-scheduling-data>", "is not XML"),
    ],
)
def test_what_could_hold_entities_or_is_no_xml_is_refused(tmp_path: Path, head: str, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        import_from("quartz", written(tmp_path, JOB, head), Options(now=NOW))
