"""The walks through orders, on toy programs whose every order is known."""

from collections.abc import Sequence
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interleave.accesses import COMMIT, LOCK, READ, SHARE, WRITE, Step, order_matters, touched_by
from interleave.explorer import Chance, EveryOrder, FewSwitches, Given, Search, letters
from interleave.turnstile import Event

Program = Sequence[tuple[str, str]]
"""Steps of one side: ("write" or "read", table), then one COMMIT."""


class Toy:
    """A database of one number a table: a write is seen by the other at COMMIT; what a side reads decides what it writes."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self._programs = programs

    def play(self, search: Search) -> tuple[list[Event], str]:
        tables: dict[str, int] = {}
        written: list[dict[str, int]] = [{}, {}]
        seen = [1, 2]
        steps = [self._steps(side) for side in (0, 1)]
        at, events = [0, 0], []
        while ready := [side for side in (0, 1) if at[side] < len(steps[side])]:
            side = search.choose(ready, [steps[s][at[s]] if at[s] < len(steps[s]) else None for s in (0, 1)])
            step = steps[side][at[side]]
            events.append(Event(side, step))
            if step.commits:
                tables.update(written[side])
            else:
                verb, table = self._programs[side][at[side]]
                if verb == "read":
                    seen[side] = seen[side] * 31 + tables.get(table, 0)
                else:
                    written[side][table] = seen[side]
            at[side] += 1
        return events, repr((sorted(tables.items()), seen))

    def _steps(self, side: int) -> list[Step]:
        program = self._programs[side]
        steps = [
            Step("t", f"{verb} {table}", {table: WRITE if verb == "write" else READ})
            for verb, table in program
        ]
        held = {table: WRITE for verb, table in program if verb == "write"}
        return [*steps, Step("t", COMMIT, held)]


def walked(toy: Toy, search: Search, limit: int = 100_000) -> tuple[int, set[str]]:
    """How many orders were played, and all that came of them."""
    ends = set()
    for number in range(1, limit + 1):
        events, end = toy.play(search)
        ends.add(end)
        if not search.again(events):
            return number, ends
    return limit, ends


class AllOrders(Search):
    """Without any reduction."""

    def _another(self, choice: object) -> int | None:
        return next((side for side in choice.ready if side not in choice.tried), None)  # type: ignore[attr-defined]


steps = st.lists(st.tuples(st.sampled_from(["read", "write"]), st.sampled_from("pqr")), max_size=4)


@given(steps, steps)
def test_what_any_order_leads_to_the_reduced_walk_meets_too(one: Program, other: Program) -> None:
    toy = Toy([one, other])
    many, ends = walked(toy, AllOrders())
    few, met = walked(toy, EveryOrder(order_matters))
    assert many == comb(len(one) + len(other) + 2, len(one) + 1)
    assert met == ends
    assert few <= many


def test_sides_that_share_nothing_are_played_once() -> None:
    toy = Toy([[("write", "p"), ("read", "p")], [("write", "q"), ("read", "r")]])
    assert walked(toy, EveryOrder(order_matters)) == (1, {toy.play(Given(""))[1]})


@pytest.mark.parametrize(("switches", "orders"), [(0, 2), (1, 2 + 2 * 3), (2, 2 + 2 * 3 + 2 * 9)])
def test_few_switches_are_all_orders_that_are_interrupted_so_often(switches: int, orders: int) -> None:
    toy = Toy([[("write", "p")] * 3, [("write", "p")] * 3])
    assert walked(toy, FewSwitches(switches))[0] == orders


def test_an_order_is_played_again_from_its_letters() -> None:
    toy = Toy([[("write", "p")] * 3, [("read", "p")] * 3])
    events, end = toy.play(Chance("seed"))
    assert toy.play(Given(letters(events))) == (events, end)


def test_chance_is_the_seeds() -> None:
    toy = Toy([[("write", "p")] * 6, [("read", "p")] * 6])
    one, same, another = (letters(toy.play(Chance(seed))[0]) for seed in ("one", "one", "another"))
    assert one == same
    assert one != another


STATEMENTS: list[tuple[str, dict[str, int]]] = [
    ("SELECT 1 FROM qsched_nodes WHERE x", {"nodes": READ}),
    ("SELECT state FROM qsched_nodes WHERE incarnation = ? FOR KEY SHARE", {"nodes": SHARE}),
    ("SELECT state FROM qsched_nodes WHERE incarnation = ? LOCK IN SHARE MODE", {"nodes": SHARE}),
    (
        "SELECT f.id FROM qsched_firings f WHERE (NOT EXISTS (SELECT 1 FROM qsched_permits p)) ORDER BY id"
        " LIMIT ? FOR UPDATE SKIP LOCKED",
        {"firings": LOCK, "permits": READ},
    ),
    ("UPDATE qsched_permits SET a = (SELECT 1 FROM qsched_jobs)", {"permits": WRITE, "jobs": READ}),
    ("INSERT INTO qsched_firings (a) SELECT x FROM unnest(y)", {"firings": WRITE}),
    ("DELETE FROM qsched_revisions WHERE a", {"revisions": WRITE}),
    ("SELECT pg_try_advisory_lock(1)", {}),
]


@pytest.mark.parametrize(("statement", "touched"), STATEMENTS)
def test_a_statement_says_what_it_touches(statement: str, touched: dict[str, int]) -> None:
    assert touched_by(statement) == touched


def _step(how: int, *, commits: bool = False) -> Step:
    return Step("t", COMMIT if commits else "x", {"firings": how})


@pytest.mark.parametrize("held", [READ, SHARE, LOCK, WRITE])
@pytest.mark.parametrize("wanted", [READ, SHARE, LOCK, WRITE])
def test_what_is_uncommitted_meets_locks_and_what_is_committed_meets_all(held: int, wanted: int) -> None:
    both_lock = held != READ and wanted != READ and (held, wanted) != (SHARE, SHARE)
    assert order_matters(_step(held), _step(wanted)) is both_lock
    assert order_matters(_step(held, commits=True), _step(wanted)) is (both_lock or held == WRITE)
    assert not order_matters(_step(held, commits=True), _step(wanted, commits=True))
