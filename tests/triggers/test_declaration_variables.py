"""`${…}`: what it expands to where a job runs, and that no value ever appears in an error."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qsched.triggers.declaration_variables import VariableError, expand, malformed, unset

ENVIRON = {"A": "one", "EMPTY": "", "TRICKY": "${A}", "SECRET": "hunter2"}


@pytest.mark.parametrize(
    ("written", "expanded"),
    [
        ("${A}", "one"),
        ("x${A}y${A}z", "xoneyonez"),
        ("${EMPTY}", ""),
        ("${EMPTY:-two}", "two"),
        ("${NONE:-two}", "two"),
        ("${NONE:-}", ""),
        ("${NONE:-a:-b $c}", "a:-b $c"),
        ("${A:-two}", "one"),
        ("${TRICKY}", "${A}"),  # what a value holds is not read again
        ("$${A}", "${A}"),
        ("$A $$ {A} $", "$A $$ {A} $"),
        ("", ""),
    ],
)
def test_text_expands(written: str, expanded: str) -> None:
    assert expand(written, ENVIRON) == expanded


def test_lists_and_mappings_expand_within_and_other_values_stay() -> None:
    value: dict[str, Any] = {"${A}": ["${A}", 1, None, {"x": "${A}"}], "t": ("${A}",), "f": 1.5, "b": True}
    expected = {"${A}": ["one", 1, None, {"x": "one"}], "t": ("one",), "f": 1.5, "b": True}
    assert expand(value, ENVIRON) == expected


def test_a_file_is_read_without_its_last_line_break(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    assert expand(f"Bearer ${{file:{secret}}}", {}) == "Bearer s3cret"
    secret.write_bytes(b"a\r\nb\r\n")
    assert expand(f"${{file: {secret} }}", {}) == "a\nb"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("${SECRET}${NONE}", "NONE is not set"),
        ("${NONE}", "${NONE:-default}"),
        ("${SECRET} ${1}", "cannot be read"),
        ("${SECRET:?hunter2}", "cannot be read"),
        ("${", "cannot be read"),
        ("${}", "cannot be read"),
        ("${file:}", "cannot be read"),
        ("${file:/nowhere/at/all}", "/nowhere/at/all"),
    ],
)
def test_what_cannot_be_expanded_is_named_and_no_value_is_shown(written: str, words: str) -> None:
    with pytest.raises(VariableError) as raised:
        expand({"x": [written]}, ENVIRON)
    assert words in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_file_that_is_too_large_or_no_text_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_text("x" * 70_000)
    with pytest.raises(VariableError, match="larger than 64 KiB"):
        expand(f"${{file:{large}}}", {})
    large.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(VariableError, match="not UTF-8"):
        expand(f"${{file:{large}}}", {})


@given(st.text(alphabet="${}:-?aA_1 file", max_size=30))
def test_what_check_calls_well_formed_and_set_expands(text: str) -> None:
    if malformed(text) is None and not list(unset(text, ENVIRON)) and "file:" not in text:
        expand(text, ENVIRON)


@given(st.text(max_size=30).filter(lambda text: "${" not in text))
def test_text_without_variables_is_left_alone(text: str) -> None:
    assert expand(text, ENVIRON) == text
    assert malformed(text) is None
