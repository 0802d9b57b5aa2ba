"""check, plan and apply: errors with their places, exit codes, and that an apply of the same file changes nothing."""

import re
from pathlib import Path

import pytest

from support.command_line import Command, Filled

FILE = """\
qsched: 1
namespace: shop
jobs:
  j: {command: "true"}
triggers:
  nightly: {job: j, cron: "15 2 * * *"}
  hourly: {job: j, every: 1h}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A declaration where commands look for one."""
    path = tmp_path / "qsched.yaml"
    path.write_text(FILE)
    return path


def test_check_counts_what_is_right(qsched: Command, file: Path) -> None:
    said = qsched("check")
    assert (said.code, said.out, said.err) == (0, "1 file: 1 job and 2 triggers are right\n", "")


def test_files_are_named_by_option_or_argument(qsched: Command, file: Path, tmp_path: Path) -> None:
    file.rename(tmp_path / "other.yaml")
    assert qsched("check", "-f", "other.yaml").code == qsched("check", "other.yaml").code == 0
    assert qsched("check").code == 3


def test_every_error_of_a_file_is_a_line_with_its_place(qsched: Command, file: Path) -> None:
    file.write_text(FILE.replace("every: 1h", "evry: 1h").replace("15 2 * * *", "61 2 * * *"))
    said = qsched("check")
    first, second = said.err.splitlines()[:2]
    assert said.code == 3
    assert first.startswith("qsched.yaml:6:")
    assert "61" in first
    assert second.startswith("qsched.yaml:7:")
    assert "every" in second


def test_an_unset_variable_is_an_error_unless_another_machine_will_have_it(
    qsched: Command, file: Path
) -> None:
    file.write_text(FILE.replace('command: "true"', 'command: "true", env: {TOKEN: "${NO_SUCH_VARIABLE_X}"}'))
    assert qsched("check").code == 3
    assert qsched("check", "--allow-unset").code == 0


def test_check_with_apps_finds_arguments_that_do_not_fit(
    qsched: Command, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "cli_check_shop.py").write_text(
        "from qsched import job\n@job\ndef rates(base: str) -> None: ...\n@job\ndef close(ctx) -> None: ...\n"
    )
    file.write_text(
        "qsched: 1\ntriggers:\n"
        "  good: {job: rates, every: 1h, data: {base: EUR}}\n"
        "  bad: {job: rates, every: 1h, data: {bse: EUR}}\n"
        "  gone: {job: 'cli_check_shop:rats', every: 1h}\n"
        "  fine: {job: 'cli_check_shop:close', every: 1h}\n"
    )
    said = qsched("check", "--app", "cli_check_shop")
    assert said.code == 3
    assert "trigger 'bad'" in said.err
    assert "'base' is needed" in said.err
    assert "did you mean 'base'?" in said.err
    assert "trigger 'gone'" in said.err
    assert "good" not in said.err
    assert "fine" not in said.err


def test_check_with_apps_leaves_to_scopes_what_data_lack(
    qsched: Command, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cli_check_jobs.py").write_text("from qsched import job\n@job\ndef work(session, n): ...\n")
    (tmp_path / "cli_check_scope.py").write_text(
        "from qsched import job, scope\n@scope\ndef database(ctx): yield {}\n@job\ndef other(): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    text = FILE.replace('j: {command: "true"}', "j: {python: 'cli_check_jobs:work', data: {n: 1}}")
    file.write_text(text)
    assert "'session' is needed" in qsched("check", "--app", "cli_check_jobs").err
    file.write_text(text.replace("triggers:", "  o: {python: 'cli_check_scope:other'}\ntriggers:"))
    said = qsched("check", "--app", "cli_check_jobs")
    assert (said.code, said.err) == (0, "")


def test_plan_shows_and_apply_does_it_once(qsched: Command, file: Path) -> None:
    planned = qsched("plan", "--detailed-exitcode")
    assert planned.code == 10
    assert "+ nightly" in planned.out
    assert "nothing fires as a result" in planned.out
    assert "2 added" in qsched("apply").out
    assert qsched("plan", "--detailed-exitcode").code == 0
    assert "already applied" in qsched("apply").out
    assert qsched("triggers", "list", "-o", "name").out == "hourly\nnightly\n"


def test_plan_makes_no_store(qsched: Command, file: Path, tmp_path: Path) -> None:
    assert qsched("plan").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["qsched.yaml"]


def test_a_broken_file_makes_no_store_either(qsched: Command, file: Path, tmp_path: Path) -> None:
    file.write_text(FILE.replace("every: 1h", "evry: 1h"))
    assert qsched("apply").code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["qsched.yaml"]


def test_plan_names_the_fields_that_change(qsched: Command, file: Path) -> None:
    qsched("apply")
    file.write_text(FILE.replace("15 2 * * *", "30 1 * * *").replace("  hourly: {job: j, every: 1h}\n", ""))
    said = qsched("plan")
    assert "~ nightly" in said.out
    assert "schedule: 15 2 * * * → 30 1 * * *" in said.out
    assert "- hourly" in said.out
    (item,) = qsched("plan", "-o", "json").items
    assert {(change["action"], change["key"]) for change in item["changes"]} == {
        ("change", "nightly"),
        ("retire", "hourly"),
    }


def test_an_edited_schedule_says_its_next_slot_before_and_after_and_what_is_closed(
    qsched: Command, file: Path, filled: Filled
) -> None:
    qsched("apply")
    hour = 3_600_000_000
    (next_at,) = filled.sql(
        "SELECT next_fire_at FROM qsched_trigger_clocks WHERE id = ?", filled.trigger_id("hourly")
    )[0]
    filled.clock("hourly", next_fire_at=next_at - 3 * hour, watermark=next_at - 4 * hour)
    file.write_text(FILE.replace("15 2 * * *", "30 1 * * *").replace("every: 1h", "every: 2h"))
    first = qsched("plan").out.splitlines()
    assert re.fullmatch(r"~ hourly  next \w{3} .* → \w{3} .* \(no catch-up\)", first[0])
    assert "    3 due slots would be recorded as skipped" in first
    said = qsched("apply")
    assert said.code == 0
    hourly, nightly, closed = said.err.splitlines()
    pattern = r"hourly:  next \w{3} .* → \w{3} .* \(no catch-up\); 3 due slots would be recorded as skipped"
    assert re.fullmatch(pattern, hourly)
    assert re.fullmatch(r"nightly:  next \w{3} .* 02:15:00 → \w{3} .* 01:30:00 \(no catch-up\)", nightly)
    assert closed == "3 slots of old definitions recorded as skipped"
    file.write_text(file.read_text().replace("every: 2h", "every: 2h, priority: 7"))
    assert qsched("apply").err == ""  # an edit of something else moves no slot


def test_plan_counts_triggers_as_apply_does_and_names_what_else_changes(qsched: Command, file: Path) -> None:
    first = qsched("plan").out.splitlines()
    assert first[-1].startswith("shop: 2 to add, 0 to change, 0 to retire, 0 unchanged (and 1 job) · ")
    assert "2 added, 0 unchanged" in qsched("apply").out
    file.write_text("defaults: {timeout: 5m}\ncluster: {retry: nightly}\n" + FILE.replace("15 2", "30 1"))
    planned = qsched("plan").out.splitlines()[-1]
    assert planned.startswith(
        "shop: 0 to add, 1 to change, 0 to retire, 1 unchanged (and 1 job, the defaults) · "
    )
    assert qsched("plan", "-o", "name").out == "nightly\n"
    assert "1 changed, 1 unchanged" in qsched("apply").out


def test_what_another_namespace_owns_is_a_conflict(qsched: Command, file: Path) -> None:
    qsched("apply")
    file.write_text(FILE.replace("namespace: shop", "namespace: bank"))
    said = qsched("apply")
    assert said.code == 6
    assert "shop" in said.err
    assert said.err.count("\n") == 1


def test_retiring_most_of_a_namespace_needs_a_flag(qsched: Command, file: Path) -> None:
    many = "".join(f"  t{n}: {{job: j, every: 1h}}\n" for n in range(20))
    file.write_text(FILE + many)
    qsched("apply")
    file.write_text(FILE)
    said = qsched("apply")
    assert said.code == 7
    assert "--allow-mass-prune" in said.err
    assert qsched("apply", "--allow-mass-prune").code == 0


def test_deleting_asks_and_refuses_where_nobody_can_answer(qsched: Command, file: Path) -> None:
    qsched("apply")
    said = qsched("apply", "--prune", "delete")
    assert said.code == 7
    assert "-y" in said.err
    assert qsched("apply", "--prune", "delete", "-y").code == 0


def test_apply_says_what_it_did_as_json(qsched: Command, file: Path) -> None:
    (item,) = qsched("apply", "-o", "json").items
    assert (item["namespace"], item["status"], item["revision"]) == ("shop", "applied", 1)
    assert sorted(item["added"]) == ["hourly", "nightly"]
    (item,) = qsched("apply", "-o", "json").items
    assert (item["status"], item["unchanged"]) == ("up_to_date", 2)


def test_a_job_in_code_may_be_named_when_its_module_is_given(
    qsched: Command, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "cli_apply_shop.py").write_text("from qsched import job\n@job\ndef rates() -> None: ...\n")
    file.write_text("qsched: 1\ntriggers: {t: {job: rates, every: 1h}}\n")
    assert qsched("apply").code == 3
    assert qsched("apply", "--app", "cli_apply_shop").code == 0
    assert qsched("apply").code == 0, "the store knows it now"


def test_the_schema_is_json_for_editors(qsched: Command) -> None:
    import json

    schema = json.loads(qsched("schema").out)
    assert schema["$schema"].startswith("http://json-schema.org/draft-07")
