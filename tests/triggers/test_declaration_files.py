"""One declaration in several files: folders, includes, one namespace, and what is wrong between them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from qsched.triggers.declaration import Declarations, load
from qsched.triggers.declaration_problem import DeclarationError, Problem

NOW = 1_735_689_600_000_000  # 2025-01-01T00:00:00Z
Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return written


def trigger(name: str) -> str:
    return f"triggers:\n  {name}: {{every: 5s, command: ls}}\n"


def names(found: Declarations) -> list[str]:
    return [declared.name for declared in found.triggers]


def problems(*paths: Path) -> tuple[Problem, ...]:
    with pytest.raises(DeclarationError) as raised:
        load(list(paths), now=NOW)
    return raised.value.problems


def test_a_folder_stands_for_its_yaml_files_in_order(write: Write, tmp_path: Path) -> None:
    write("b.yaml", "qsched: 1\n" + trigger("b"))
    write("a.yml", "qsched: 1\n" + trigger("a"))
    write("c.txt", "no yaml: [")
    write(".hidden.yaml", "no yaml: [")
    write("sub/d.yaml", "no yaml: [")
    found = load([tmp_path], now=NOW)
    assert names(found) == ["a", "b"]
    assert found.files == (str(tmp_path / "a.yml"), str(tmp_path / "b.yaml"))


def test_a_folder_without_yaml_is_an_error(tmp_path: Path) -> None:
    (found,) = problems(tmp_path)
    assert (found.code, found.file) == ("E001", str(tmp_path))


def test_a_file_that_cannot_be_read_is_an_error_with_the_reason(write: Write, tmp_path: Path) -> None:
    path = write("latin.yaml", "")
    path.write_bytes("qsched: 1\n# caf\xe9\n".encode("latin-1"))
    (found,) = problems(path)
    assert (found.code, found.message) == ("E001", "not UTF-8 text (byte 15)")
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    (found,) = problems(loop)
    assert found.code == "E001"


def test_jobs_of_one_file_serve_triggers_of_another(write: Write) -> None:
    one = write("one.yaml", "qsched: 1\ntriggers: {t: {every: 5s, job: j}}\n")
    two = write("two.yaml", "qsched: 1\njobs: {j: {command: ls}}\n")
    assert names(load([one, two], now=NOW)) == ["t"]
    (found,) = problems(one)
    assert found.code == "E024"


def test_included_files_inherit_the_defaults_of_the_file_that_includes_them(write: Write) -> None:
    main = write(
        "main.yaml",
        "qsched: 1\ninclude: [jobs/*.yaml]\ndefaults: {time_zone: Europe/Istanbul, priority: 7}\n"
        + trigger("main"),
    )
    write("jobs/a.yaml", "qsched: 1\ndefaults: {priority: 8}\n" + trigger("a"))
    write("jobs/b.yaml", "qsched: 1\n" + trigger("b"))
    found = {declared.name: declared for declared in load([main], now=NOW).triggers}
    assert {name: declared.priority for name, declared in found.items()} == {"main": 7, "a": 8, "b": 7}
    assert {declared.time_zone for declared in found.values()} == {"Europe/Istanbul"}


@pytest.mark.parametrize("first", ["main.yaml", "a.yaml"])
def test_a_file_that_is_named_and_included_is_read_once(write: Write, tmp_path: Path, first: str) -> None:
    write("main.yaml", "qsched: 1\ninclude: '*.yaml'\ndefaults: {priority: 7}\n")
    write("a.yaml", "qsched: 1\n" + trigger("a"))
    paths = sorted(["main.yaml", "a.yaml"], key=lambda name: name != first)
    found = load([tmp_path / name for name in paths], now=NOW)
    assert [(declared.name, declared.priority) for declared in found.triggers] == [("a", 7)]


def test_an_include_cycle_names_both_files(write: Write) -> None:
    one = write("one.yaml", "qsched: 1\ninclude: [two.yaml]\n" + trigger("a"))
    two = write("two.yaml", "qsched: 1\ninclude:\n  - one.yaml\n" + trigger("b"))
    (found,) = problems(one)
    assert (found.code, found.file, found.line, found.column) == ("E030", str(two), 3, 5)
    assert "one.yaml" in found.message
    assert "two.yaml" in found.message


def test_a_file_that_includes_itself_is_a_cycle(write: Write) -> None:
    path = write("one.yaml", "qsched: 1\ninclude: [one.yaml]\n" + trigger("a"))
    (found,) = problems(path)
    assert (found.code, found.line, found.column) == ("E030", 2, 11)


def test_a_glob_that_matches_nothing_is_an_error(write: Write) -> None:
    path = write("one.yaml", "qsched: 1\ninclude: [a.yaml, 'jobs/*.yaml']\n" + trigger("a"))
    found = problems(path)
    assert [(each.code, each.line, each.column) for each in found] == [("E030", 2, 11), ("E030", 2, 19)]
    assert "`jobs/*.yaml` matches no file" in found[1].message


def test_a_file_included_by_two_is_an_error(write: Write) -> None:
    one = write("one.yaml", "qsched: 1\ninclude: [part.yaml]\ndefaults: {priority: 1}\n")
    two = write("two.yaml", "qsched: 1\ninclude: [part.yaml]\ndefaults: {priority: 2}\n")
    write("part.yaml", "qsched: 1\n" + trigger("a"))
    (found,) = problems(one, two)
    assert (found.code, found.file) == ("E030", str(two))
    assert "one.yaml" in found.message


@pytest.mark.parametrize(
    "section", ["jobs:\n  x: {command: ls}\n", "triggers:\n  x: {every: 5s, command: ls}\n"]
)
def test_one_name_in_two_files_names_both(write: Write, section: str) -> None:
    one = write("one.yaml", "qsched: 1\n" + section)
    two = write("two.yaml", "qsched: 1\n\n" + section)
    keep = write("keep.yaml", "qsched: 1\n" + trigger("keep"))
    found = [each for each in problems(one, two, keep) if "trigger" in each.message or "jobs" in section]
    assert [(each.code, each.file, each.line, each.column) for each in found] == [("E025", str(two), 4, 3)]
    assert f"{one}, line 3" in found[0].message


def test_one_name_in_two_groups_is_two_triggers(write: Write) -> None:
    one = write("one.yaml", "qsched: 1\n" + trigger("x"))
    two = write("two.yaml", "qsched: 1\n" + trigger("x").replace("ls", "ls, group: g"))
    assert sorted(declared.key for declared in load([one, two], now=NOW).triggers) == ["g/x", "x"]


def test_files_of_two_namespaces_are_refused(write: Write) -> None:
    one = write("one.yaml", "qsched: 1\nnamespace: a\n" + trigger("x"))
    two = write("two.yaml", "qsched: 1\nnamespace: b\n" + trigger("y"))
    three = write("three.yaml", "qsched: 1\n" + trigger("z"))
    (found,) = problems(one, two)
    assert (found.code, found.file, found.line, found.column) == ("E031", str(two), 2, 12)
    assert "one.yaml" in found.message
    assert load([three, one], now=NOW).namespace == "a"
    assert load([three], now=NOW).namespace == "default"


def test_the_cluster_is_configured_in_one_file(write: Write) -> None:
    one = write("one.yaml", "qsched: 1\ncluster: {timeout: 3s}\n" + trigger("x"))
    two = write("two.yaml", "qsched: 1\ncluster: {timeout: 4s}\n" + trigger("y"))
    (found,) = problems(one, two)
    assert (found.code, found.file, found.line) == ("E025", str(two), 2)


def test_a_function_named_by_two_files_must_have_the_same_defaults(write: Write) -> None:
    one = write("one.yaml", "qsched: 1\ndefaults: {timeout: 1m}\ntriggers: {a: {every: 5s, job: 'm:f'}}\n")
    two = write("two.yaml", "qsched: 1\ntriggers: {b: {every: 5s, job: 'm:f'}}\n")
    (found,) = problems(one, two)
    assert (found.code, found.file, found.line) == ("E025", str(two), 2)
    same = write("two.yaml", "qsched: 1\ndefaults: {timeout: 60s}\ntriggers: {b: {every: 5s, job: 'm:f'}}\n")
    assert len(load([one, same], now=NOW).jobs) == 1


def test_an_empty_file_among_others_is_an_error_too(write: Write) -> None:
    one = write("one.yaml", "qsched: 1\n" + trigger("x"))
    two = write("two.yaml", "")
    (found,) = problems(one, two)
    assert (found.code, found.file) == ("E032", str(two))
    assert names(load([one, two], now=NOW, allow_empty=True)) == ["x"]


def test_one_broken_file_hides_no_error_of_another(write: Write) -> None:
    one = write("one.yaml", "qsched: 1\ntriggers: [\n")
    two = write("two.yaml", "qsched: 1\ntriggers: {a: {every: 5, command: ls}}\n")
    assert [(each.code, Path(each.file).name) for each in problems(one, two)] == [
        ("E002", "one.yaml"),
        ("E015", "two.yaml"),
    ]


def test_the_revision_follows_the_bytes_and_not_names_or_order(write: Write) -> None:
    one = write("one.yaml", "qsched: 1\n" + trigger("x"))
    two = write("two.yaml", "qsched: 1\n" + trigger("y"))
    revision = load([one, two], now=NOW).revision_digest
    assert load([two, one], now=NOW + 5).revision_digest == revision
    os.rename(two, two.with_name("three.yaml"))
    assert load([one, two.with_name("three.yaml")], now=NOW).revision_digest == revision
    write("one.yaml", "qsched: 1\n# a remark\n" + trigger("x"))
    assert load([one, two.with_name("three.yaml")], now=NOW).revision_digest != revision


def test_the_revision_does_not_depend_on_the_environment(write: Write) -> None:
    path = write("one.yaml", "qsched: 1\n" + trigger("x").replace("ls", "ls, env: {A: '${TOKEN}'}"))
    revisions = {load([path], now=NOW, environ={"TOKEN": token}).revision_digest for token in ("a", "b")}
    assert len(revisions) == 1
