"""Tables fit a terminal, are never cut where none is looking, and cannot be made to speak to it."""

from collections.abc import Iterator
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qsched.cli.table import Column, Item, Table, View, printable, state_cell

VIEW = View(UTC, 0)
COLUMNS = [
    Column("NAME", lambda item, _: item["name"]),
    Column("N", lambda item, _: str(item["n"]), right=True, drop=2),
    Column("WHY", lambda item, _: item["why"], drop=1),
]
ROWS = [{"name": "nightly", "n": 7, "why": "because"}, {"name": "x" * 40, "n": 12345, "why": "-"}]


def test_columns_are_aligned_and_lines_have_no_blank_at_their_end() -> None:
    head, first, second = Table(COLUMNS).lines(ROWS, VIEW)
    assert head == f"NAME{' ' * 36}      N  WHY"
    assert first == f"nightly{' ' * 33}      7  because"
    assert second == f"{'x' * 40}  12345  -"


def test_nothing_is_cut_where_no_terminal_looks() -> None:
    lines = list(Table(COLUMNS, width=None).lines([{"name": "y" * 500, "n": 1, "why": "z" * 500}], VIEW))
    assert "y" * 500 in lines[1]
    assert "z" * 500 in lines[1]


@given(width=st.integers(20, 200))
def test_a_narrow_terminal_gets_lines_that_fit(width: int) -> None:
    lines = list(Table(COLUMNS, width=width).lines(ROWS, VIEW))
    assert max(map(len, lines)) <= width


def test_the_column_with_the_greatest_drop_goes_first() -> None:
    head = next(iter(Table(COLUMNS, width=55).lines(ROWS, VIEW)))
    assert head.split() == ["NAME", "WHY"]


def test_a_long_text_is_cut_before_another_column_is_left_out_for_it() -> None:
    rows = [{**ROWS[0], "why": "because " * 30}]
    head, line = Table(COLUMNS, width=40).lines(rows, VIEW)
    assert head.split() == ["NAME", "N", "WHY"]
    assert len(line) == 40
    assert line.endswith("…")


def test_a_column_that_says_nothing_leaves_its_place_to_one_that_does() -> None:
    head = next(iter(Table(COLUMNS, width=48).lines([{**row, "why": "-"} for row in ROWS], VIEW)))
    assert head.split() == ["NAME", "N"]


def test_a_column_that_says_nothing_stays_where_there_is_room() -> None:
    head = next(iter(Table(COLUMNS, width=80).lines([{**row, "why": "-"} for row in ROWS], VIEW)))
    assert head.split() == ["NAME", "N", "WHY"]


def test_a_name_that_is_cut_shows_that_it_is() -> None:
    lines = list(Table(COLUMNS, width=20).lines(ROWS, VIEW))
    assert lines[2] == "x" * 19 + "…"


def test_a_long_list_is_written_as_it_is_read() -> None:
    seen = []

    def items() -> Iterator[Item]:
        for n in range(5000):
            seen.append(n)
            yield {"name": str(n), "n": n, "why": ""}

    lines = Table(COLUMNS).lines(items(), VIEW)
    next(lines)
    assert len(seen) <= 1000


@given(st.text())
def test_a_cell_never_carries_what_a_terminal_would_obey(text: str) -> None:
    assert printable(text).isprintable()


def test_colour_paints_the_state_and_leaves_its_word() -> None:
    columns = [Column("STATE", lambda item, _: state_cell(item["state"]), paint=True)]
    lines = list(Table(columns, colour=True).lines([{"state": "error"}, {"state": "waiting"}], VIEW))
    assert lines[0] == "STATE"
    assert lines[1].startswith("\x1b[31m✖ error")
    assert lines[2].startswith("\x1b[32m● waiting")


@pytest.mark.parametrize(
    "state", ["waiting", "paused", "error", "done", "retired", "running", "lost", "dead"]
)
def test_a_state_is_glyph_and_word(state: str) -> None:
    glyph, word = state_cell(state).split(" ")
    assert word == state
    assert not glyph.isascii()
