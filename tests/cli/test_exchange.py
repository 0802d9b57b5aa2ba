"""`qsched import` and `qsched export` on the command line: where the answers go, and how it ends."""

import json
from pathlib import Path

from support.command_line import Command

CRONTAB = "MAILTO=ops\n15 2 * * * /srv/backup.sh\n"


def test_the_declarations_are_the_answer_and_the_report_is_talk(qsched: Command, tmp_path: Path) -> None:
    (tmp_path / "nightly").write_text(CRONTAB)
    said = qsched("import", "crontab", "nightly", "--time-zone", "Europe/Berlin", "--namespace", "ops")
    assert said.code == 0
    assert "namespace: ops\n" in said.out
    assert "lost     nightly:1  MAILTO=ops" in said.err


def test_what_is_imported_can_be_applied_and_exported_and_applied_again_without_a_change(
    qsched: Command, tmp_path: Path
) -> None:
    (tmp_path / "nightly").write_text(CRONTAB)
    assert qsched("import", "crontab", "nightly", "--out", "qsched.yaml").code == 0
    assert qsched("apply").code == 0
    exported = qsched("export")
    assert (exported.code, exported.err) == (0, "")
    (tmp_path / "again.yaml").write_text(exported.out)
    plan = qsched("plan", "-f", "again.yaml", "--detailed-exitcode")
    assert plan.code == 0, plan.out


def test_strict_refuses_what_would_be_lost(qsched: Command, tmp_path: Path) -> None:
    (tmp_path / "nightly").write_text(CRONTAB)
    said = qsched("import", "crontab", "nightly", "--strict")
    assert (said.code, said.out) == (7, "")


def test_the_report_as_a_document(qsched: Command, tmp_path: Path) -> None:
    (tmp_path / "nightly").write_text(CRONTAB)
    said = qsched("import", "crontab", "nightly", "-o", "json")
    document = json.loads(said.out)
    assert document["kind"] == "ImportReport"
    assert document["items"][1]["agrees"] is True


def test_a_source_that_is_not_there_is_one_clear_line(qsched: Command) -> None:
    said = qsched("import", "crontab", "nowhere")
    assert said.code == 3
    assert said.err.startswith("error: nowhere cannot be read")
    assert qsched("export").code == 5


def test_a_job_class_is_mapped_on_the_command_line(qsched: Command) -> None:
    source = str(Path(__file__).parent.parent / "data" / "exchange" / "quartz" / "simple.xml")
    said = qsched("import", "quartz", source, "--map", "org.example.Heartbeat=pulse:beat")
    assert 'python: "pulse:beat"' in said.out
    assert "as it was mapped" in said.err
    assert qsched("import", "quartz", source, "--map", "Heartbeat").code == 2
