"""YAML 1.1's surprises, each of which is what was meant or a clear error here (field bugs B40, B41, appendix B)."""

from collections.abc import Callable
from typing import Any

import pytest
from qsched.triggers import yaml_tree
from qsched.triggers.declaration import load, load_text
from qsched.triggers.declaration_problem import DeclarationError, Problem
from qsched.triggers.instant import rfc3339
from qsched.triggers.trigger import TriggerDefinition

NOW = 1_735_689_600_000_000  # 2025-01-01T00:00:00Z


@pytest.fixture(params=["libyaml", "pure python"], autouse=True)
def composer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test here is for both composers: the answers must not depend on how PyYAML was built."""
    if request.param == "pure python":
        monkeypatch.setattr("qsched.triggers.yaml_syntax.COMPOSER", yaml_tree.PurePythonComposer)
    else:
        assert yaml_tree.COMPOSER is not yaml_tree.PurePythonComposer


def trigger(lines: str, **more: Any) -> TriggerDefinition:
    """The trigger `nightly`, with the given keys below its command."""
    (found,) = load_text(nightly(lines), now=NOW, **more).triggers
    return found


def nightly(lines: str) -> str:
    indented = "".join(f"    {line}\n" for line in lines.splitlines())
    return f"qsched: 1\ntriggers:\n  nightly:\n    command: ls\n{indented}"


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(DeclarationError) as raised:
        load_text(text, now=NOW)
    return raised.value.problems


def only(text: str) -> Problem:
    (found,) = problems(text)
    return found


@pytest.mark.parametrize("time", ["12:30", "09:00", "23:59:59", "9:00"])
def test_a_bare_time_is_an_error_whatever_its_hour(time: str) -> None:
    found = only(nightly(f"at: {time}"))
    assert (found.code, found.line, found.column, found.path) == ("E016", 5, 9, "triggers.nightly.at")
    assert time in found.message
    assert "2027-01-01 12:00" in found.hint


def test_numbers_with_a_leading_zero_are_decimal() -> None:
    assert trigger("every: 5s\ndata: {a: 010, b: 08, c: -07}").data == {"a": 10, "b": 8, "c": -7}
    assert trigger("every: 5s\nmax_fires: 010").max_fires == 10
    assert trigger("every: 5s\nmax_fires: 08").max_fires == 8


@pytest.mark.parametrize("word", ["on", "off", "yes", "NO", "y", "n", "Y", "'true'", "1"])
def test_only_true_and_false_are_booleans(word: str) -> None:
    found = only(nightly(f"every: 5s\npaused: {word}"))
    assert (found.code, found.line, found.column) == ("E010", 6, 13)
    assert "true or false" in found.hint


@pytest.mark.parametrize(("word", "value"), [("true", True), ("True", True), ("FALSE", False)])
def test_true_and_false_are(word: str, value: bool) -> None:
    assert trigger(f"every: 5s\npaused: {word}").paused is value


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "NO", "y", "N"])
def test_an_old_boolean_in_data_is_text_with_a_warning(word: str) -> None:
    found = load_text(nightly(f"every: 5s\ndata: {{country: {word}}}"), now=NOW)
    assert found.triggers[0].data == {"country": word}
    (warning,) = found.warnings
    assert (warning.code, warning.severity, warning.line, warning.column) == ("W005", "warning", 6, 21)
    assert load_text(nightly(f"every: 5s\ndata: {{country: '{word}'}}"), now=NOW).warnings == ()


def test_keys_keep_their_text() -> None:
    data = trigger("every: 5s\ndata: {on: 1, yes: 2, 1: 3, null: 4, 1.10: 5, ~: 6}").data
    assert data == {"on": 1, "yes": 2, "1": 3, "null": 4, "1.10": 5, "~": 6}


def test_an_old_boolean_as_a_key_is_named_and_not_lost() -> None:
    found = only(nightly("every: 5s\non: [mon]"))
    assert (found.code, found.line, found.column) == ("E011", 6, 5)
    assert "`on`" in found.message


def test_one_key_quoted_and_unquoted_is_the_same_key() -> None:
    found = only(nightly("every: 5s\ndata: {1: 3, '1': 4}"))
    assert (found.code, found.line, found.column) == ("E004", 6, 18)


@pytest.mark.parametrize("name", ["1.10", "1_000", "0x10", "null", "NO", "12:30", "2024-01-01", "1e3"])
def test_names_and_groups_are_text_as_written(name: str) -> None:
    text = f"qsched: 1\njobs:\n  {name}: {{command: ls}}\ntriggers:\n  {name}: {{every: 5s, job: {name}x}}\n"
    text = text.replace(f"  {name}: {{c", f"  {name}x: {{c")
    (found,) = load_text(text, now=NOW).triggers
    assert (found.name, found.job) == (name, f"{name}x")


@pytest.mark.parametrize("name", ["1.10", "1_000", "0x10", "2024-01-01"])
def test_a_group_that_looks_like_a_number_is_text(name: str) -> None:
    assert trigger(f"every: 5s\ngroup: {name}").group == name


@pytest.mark.parametrize("nothing", ["", "~", "null"])
def test_a_group_that_is_null_is_an_error(nothing: str) -> None:
    assert only(nightly(f"every: 5s\ngroup: {nothing}")).code == "E010"


@pytest.mark.parametrize(
    ("written", "instant"),
    [
        ("2027-01-01", "2026-12-31T21:00:00Z"),
        ("2027-01-01 12:00:00", "2027-01-01T09:00:00Z"),
        ("2027-01-01T12:00", "2027-01-01T09:00:00Z"),
        ("'2027-01-01 12:00'", "2027-01-01T09:00:00Z"),
        ("2027-01-01T12:00:00Z", "2027-01-01T12:00:00Z"),
        ("2027-01-01 12:00:00+02:00", "2027-01-01T10:00:00Z"),
        ("2027-01-01 12:00:00.25 -0330", "2027-01-01T15:30:00.250000Z"),
    ],
)
def test_a_date_without_offset_is_read_in_the_zone_of_the_trigger(written: str, instant: str) -> None:
    found = trigger(f"at: {written}\ntime_zone: Europe/Istanbul")
    assert rfc3339(found.schedule["at"]) == instant


SIGNS: dict[str, str] = {
    "* * * * *": "an alias",
    "*/5 * * * *": "an alias",
    "*": "an alias",
    "@daily": "a reserved sign",
    "? * * * *": "the mark of a key",
    "%5 * * * *": "a directive",
    "`5 * * * *": "a reserved sign",
}


@pytest.mark.parametrize(("expression", "sign"), SIGNS.items())
@pytest.mark.parametrize(
    ("write", "line", "column"),
    [
        (lambda expression: nightly(f"cron: {expression}"), 5, 11),
        (lambda expression: nightly(f"cron: {expression}   # a remark"), 5, 11),
        (lambda expression: f"triggers:\n  nightly: {{cron: {expression}}}\nqsched: 1\n", 2, 19),
        (lambda expression: f"triggers:\n  nightly: {{cron: {expression}, command: ls}}\n", 2, 19),
        (lambda expression: f"qsched: 1\r\ntriggers:\r\n  nightly:\r\n    cron: {expression}\r\n", 4, 11),
    ],
)
def test_an_unquoted_expression_says_quote_it_with_trigger_and_line(
    expression: str, sign: str, write: Callable[[str], str], line: int, column: int
) -> None:
    found = only(write(expression))
    assert (found.code, found.line, found.column) == ("E008", line, column)
    assert found.path == "triggers.nightly.cron"
    assert sign in found.message
    assert "triggers.nightly" in found.message
    assert found.hint == f'quote it: cron: "{expression}"'
    assert "^" * len(expression) in found.render()


def test_a_comma_in_a_flow_mapping_says_quote_it() -> None:
    found = problems("qsched: 1\ntriggers:\n  nightly: {command: ls, cron: 0,30 * * * *}\n")
    assert [(problem.code, problem.line, problem.column) for problem in found] == [
        ("E020", 3, 32),
        ("E011", 3, 34),
    ]
    assert "quote" in found[1].hint


def test_a_key_given_twice_names_both_lines_at_any_depth() -> None:
    found = only(nightly("every: 5s\ndata:\n  deep:\n    - {a: 1,\n       b: 2,\n       a: 1}"))
    assert (found.code, found.line, found.column) == ("E004", 10, 12)
    assert "line 8 and again on line 10" in found.message
    assert found.path == "triggers.nightly.data.deep[0].a"


def test_a_merge_adds_keys_and_refuses_to_choose() -> None:
    merged = "qsched: 1\ntriggers:\n  a: &a {every: 5s, command: ls}\n  b: {<<: *a, priority: 7}\n"
    by_name = {found.name: found for found in load_text(merged, now=NOW).triggers}
    assert by_name["b"].schedule == by_name["a"].schedule
    assert by_name["b"].priority == 7
    found = only(merged.replace("priority: 7", "\n    every: 6s"))
    assert (found.code, found.line, found.column) == ("E009", 5, 5)
    assert "line 5" in found.message
    assert "line 3" in found.message
    same = merged.replace("priority: 7", "every: 5s")
    assert len(load_text(same, now=NOW).triggers) == 2


def test_two_documents_are_refused_with_the_line_of_the_second() -> None:
    found = only(nightly("every: 5s") + "---\nqsched: 1\n")
    assert (found.code, found.line, found.column) == ("E007", 7, 1)
    assert "one document" in found.message


@pytest.mark.parametrize("text", ["", "\n\n", "# only a remark\n", "---\n", "~\n", "qsched: 1\n"])
def test_an_empty_file_is_an_error_unless_it_is_allowed(text: str, tmp_path: Any) -> None:
    found = only(text)
    assert (found.code, found.line) == ("E032", 0)
    assert "declares no triggers" in found.message
    path = tmp_path / "empty.yaml"
    path.write_text(text)
    assert load([path], now=NOW, allow_empty=True).triggers == ()


@pytest.mark.parametrize(
    "tagged",
    ["!!python/object/apply:os.system [ls]", "!!str 5s", "!secret x", "! 5s", "&a ! 5s", "!!binary aGk="],
)
def test_tags_are_refused(tagged: str) -> None:
    found = problems(nightly(f"every: {tagged}"))
    assert (found[0].code, found[0].line, found[0].column) == ("E005", 5, 12)


def test_an_exclamation_mark_in_text_is_no_tag() -> None:
    assert trigger("every: 5s\ndescription: 'hi!'\ndata: {a: '!x', b: x!}").data == {"a": "!x", "b": "x!"}


@pytest.mark.parametrize(
    "text", [nightly("every: 5s").replace("    every", "\tevery"), "qsched: 1\ntriggers:\n\ta: 1\n"]
)
def test_a_tab_as_indentation_is_said_at_its_line(text: str) -> None:
    found = only(text)
    assert (found.code, found.column) == ("E003", 1)
    assert text.splitlines()[found.line - 1].startswith("\t")


@pytest.mark.parametrize(
    ("text", "line", "column", "hint"),
    [
        (nightly("every:5s"), 5, 5, "`every: …`"),
        ("qsched:1", 1, 1, "`qsched: 1`"),
        ("qsched: 1\ntriggers:\n  a:5\n", 3, 3, "`a: 5`"),
    ],
)
def test_a_missing_blank_after_the_colon_is_said(text: str, line: int, column: int, hint: str) -> None:
    found = only(text)
    assert (found.line, found.column) == (line, column)
    assert found.code in ("E002", "E010")
    assert "blank after the colon" in found.hint
    assert hint in found.hint


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Any) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + nightly("every: 5s\nevry: 6s").replace("\n", "\r\n").encode())
    with pytest.raises(DeclarationError) as raised:
        load([path], now=NOW)
    (found,) = raised.value.problems
    assert (found.code, found.line, found.column) == ("E011", 6, 5)
    path.write_bytes(b"\xef\xbb\xbf" + nightly("every: 5s").replace("\n", "\r\n").encode())
    assert load([path], now=NOW).triggers[0].name == "nightly"


def test_aliases_that_grow_without_end_are_refused() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    text = nightly("every: 5s\ndata:\n" + "\n".join(f"  {row}" for row in rows))
    found = problems(text)
    assert "E006" in {problem.code for problem in found}


@pytest.mark.parametrize("loop", ["&a [*a]", "&a {x: *a}", "&a {x: [*a]}"])
def test_an_alias_into_itself_is_refused(loop: str) -> None:
    found = problems(nightly(f"every: 5s\ndata: {{y: {loop}}}"))
    assert [problem.code for problem in found] == ["E006"]
    assert found[0].line == 6


def test_an_alias_that_stands_for_nothing_is_named() -> None:
    found = only(nightly("every: 5s\ndata: {x: *b}"))
    assert (found.code, found.line, found.column) == ("E006", 6, 15)
    assert "*b " in found.message


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        (nightly("every: 'x"), 5, 12),
        (nightly("every: [1,"), 5, 15),
        (nightly("description: foo: bar"), 5, 21),
        (nightly('description: "a\\xzb"'), 5, 22),
        (nightly("description: 'it' is"), 5, 23),
        (nightly("every: 5s").replace("    every", "   every"), 5, 4),
        (nightly("every: 5s\ndescription: a\u0001b"), 6, 19),
        (nightly("every: 5s\ndata: {a: ${X}}"), 6, 11),
    ],
)
def test_what_is_no_yaml_is_said_at_its_place(text: str, line: int, column: int) -> None:
    found = only(text)
    assert (found.code, found.line, found.column) == ("E002", line, column)
    assert found.hint


@pytest.mark.parametrize("text", ["a: " + "[" * 900 + "]" * 900, "a: " + "[" * 5000, "a:\n" * 3])
def test_deep_nesting_is_an_error_and_never_a_crash(text: str) -> None:
    assert {problem.code for problem in problems(text)} <= {"E002", "E004", "E010", "E011", "E013"}


def test_numbers_follow_the_core_schema() -> None:
    data = trigger(
        "every: 5s\ndata: {a: 0x10, b: 0o17, c: 1e3, d: 1.10, e: 1_000, f: .5, g: +1, h: 12:30, i: 1.}"
    ).data
    assert data == {
        "a": 16,
        "b": 15,
        "c": 1000.0,
        "d": 1.1,
        "e": "1_000",
        "f": 0.5,
        "g": 1,
        "h": "12:30",
        "i": 1.0,
    }
    assert isinstance(data["a"], int)


@pytest.mark.parametrize("value", [".inf", "-.Inf", ".nan", "1e999", "9" * 5000])
def test_a_number_that_json_does_not_have_is_refused(value: str) -> None:
    found = only(nightly(f"every: 5s\ndata: {{a: {value}}}"))
    assert (found.code, found.line, found.column) == ("E034", 6, 15)


def test_line_breaks_of_unicode_do_not_move_the_lines() -> None:
    found = only(nightly("every: 5s\ndescription: 'a\u0085b'\nevry: 1s"))
    assert found.code == "E011"
    assert "evry" in found.render()
