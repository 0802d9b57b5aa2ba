"""The short form of `make sim`: some seeds of a cluster in virtual time hold, play the same again, and find what is broken."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from qsched.scheduler.identity import Identity
from qsched.scheduler.rescuer import Rescuer
from qsched.scheduler.settler import Settler
from qsched.triggers import decide

from sim.result import Choice, Result, play
from sim.shrink import Shrinker
from sim.sometimes import Tally

KEPT = (47,)
"""Seeds that found something once."""
TESTS = Path(__file__).parents[1]


def _told(result: Result) -> str:
    complaints = [f"{each.code}: {each.text}" for each in result.complaints[:5]]
    return "\n".join([*complaints, *result.story[-80:], f"again: {Choice().words(result.seed)} --trace"])


def test_many_seeds_hold(long_form: bool) -> None:
    """Ten virtual minutes each, three to five nodes, some thirty faults; `make sim` plays thousands."""
    tally = Tally()
    for seed in (*KEPT, *range(1, 301 if long_form else 26)):
        result = play(seed, Choice())
        assert not result.complaints, _told(result)
        tally.add(result)
    # What is never met proves nothing: of what thousands of seeds must have seen, a few dozen have seen some.
    met = ("fenced completion", "recovery", "dead silent", "dead gone", "retry", "drained", "epochs")
    doubts = [f"{name} in doubt, {end}" for name in ("take", "settle") for end in ("landed", "undone")]
    assert [what for what in (*met, *doubts) if not tally.seen[what]] == []
    assert tally.firings >= 100 * tally.runs
    assert sum(tally.faults.values()) >= 25 * tally.runs


def test_a_seed_plays_the_same_again() -> None:
    assert play(5, Choice()).digest == play(5, Choice()).digest
    assert play(5, Choice()).digest != play(5, Choice(shuffle=1)).digest


def test_a_seed_plays_the_same_in_another_process_with_other_hashes() -> None:
    program = "from sim.result import Choice, play; print(play(11, Choice()).digest)"
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**environment, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashes in ("1", "2")
    }
    assert len(said) == 1


def test_without_sqlalchemy_in_between_everything_happens_as_with_it() -> None:
    for seed in (3, 8):
        assert play(seed, Choice()).digest == play(seed, Choice(whole=True)).digest


def _no_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settler, "may_begin", lambda self, request: True)


def _no_self_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Identity, "may_start", lambda self, monotonic: not self.draining)


def _no_rescue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rescuer, "_rescue", lambda self, now: None)


def _late_misfires(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_misfired(due: Any, *, now: int) -> bool:
        return bool(now - due.run_at > 2 * due.rule.threshold)

    monkeypatch.setattr(decide, "is_misfired", is_misfired)


@pytest.mark.parametrize(
    ("broken", "codes", "first"),
    [
        (_no_last_look, {"I16", "I4"}, 95),  # so does it
        (_no_self_fence, {"I16", "I3"}, 45),  # it shows in one seed of thirty
        (_no_rescue, {"I11", "I10"}, 1),
        (_late_misfires, {"I15"}, 1),
    ],
)
def test_what_is_broken_is_found_within_a_few_seeds(
    broken: Callable[[pytest.MonkeyPatch], None], codes: set[str], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    seeds = range(first, first + 25)
    assert any(codes & {each.code for each in play(seed, Choice()).complaints} for seed in seeds)


def test_a_failing_seed_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    _late_misfires(monkeypatch)
    choice = Choice()
    seed = next(seed for seed in range(1, 26) if play(seed, choice).complaints)
    whole = choice.plan(seed)
    shrinker = Shrinker(seed, choice, "I15", most=25)
    small = shrinker.run().plan(seed)
    assert shrinker.result is not None
    assert "I15" in {each.code for each in shrinker.result.complaints}
    assert len(small.strikes) < len(whole.strikes)
    assert small.length < whole.length
