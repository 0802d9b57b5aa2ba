"""What a node knows of its definitions is read by one of its threads while another changes it: no look fails of that."""

import json
from collections.abc import Callable, Iterator

import pytest
from qsched.scheduler import definitions
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.definitions import CompiledTrigger, Definitions
from qsched.scheduler.registry import JobRegistry
from qsched.scheduler.store.definition_reads import TriggerRow
from qsched.scheduler.store.schema import open_store

from support.declared import trigger

MEANWHILE: list[Callable[[], object]] = []
"""What other threads do at the next look at an instant, one each time."""


class Instant(float):
    """Monotonic seconds; to compare them takes so long that another thread gets its turn."""

    def __add__(self, other: float) -> "Instant":
        return Instant(float(self) + other)

    def __gt__(self, other: float) -> bool:
        if MEANWHILE:
            MEANWHILE.pop(0)()
        return float(self) > other


class BusyClock(SystemClock):
    """A clock whose instants are those."""

    def monotonic(self) -> Instant:
        return Instant(1000.0)


@pytest.fixture
def known() -> Iterator[Definitions]:
    yield Definitions(JobRegistry(), BusyClock())
    MEANWHILE.clear()


def row(trigger_id: int) -> TriggerRow:
    made = trigger(f"t{trigger_id}")
    return TriggerRow(trigger_id, "", made.name, json.dumps(made.to_spec()), 1, "ab" * 32, 1, "waiting")


def test_jobs_left_to_others_are_told_while_another_is_left(known: Definitions) -> None:
    known.leave_job(1, 0, "cannot be loaded")
    known.leave_job(2, 0, "cannot be loaded")
    MEANWHILE.append(lambda: known.leave_job(3, 0, "cannot be loaded"))
    assert known.unloadable() == {1, 2}
    assert known.unloadable() == {1, 2, 3}


def test_triggers_left_to_others_are_told_while_another_is_left(known: Definitions) -> None:
    known.leave_elsewhere([1, 2], [])
    MEANWHILE.append(lambda: known.leave_elsewhere([3], []))
    assert {1, 2} <= known.parked()
    known.leave_trigger(4, 0, "cannot be decided")
    known.leave_trigger(5, 0, "cannot be decided")
    MEANWHILE[:] = [lambda: None] * 2 + [lambda: known.leave_trigger(6, 0, "cannot be decided")]
    assert {4, 5} <= known.parked()
    assert {4, 5, 6} <= known.parked()


def test_firings_left_to_others_are_told_while_another_is_left(known: Definitions) -> None:
    known.leave_firing(1, 0, "cannot be written")
    known.leave_firing(2, 0, "cannot be written")
    MEANWHILE.append(lambda: known.leave_firing(3, 0, "cannot be written"))
    assert {1, 2} <= known.parked_firings()


def test_troubles_are_told_while_another_is_decided(
    known: Definitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    known.leave_trigger(1, 0, "cannot be decided")
    known.leave_trigger(2, 0, "cannot be decided")
    real = definitions.Troubled

    def decided_meanwhile(*seen: object) -> object:
        known.decided([2])
        return real(*seen)  # type: ignore[arg-type]

    monkeypatch.setattr(definitions, "Troubled", decided_meanwhile)
    assert 1 in known.undecidable()


class Clock:
    """A trigger's clock: while its definition is compared, another thread compiles one more than are kept."""

    id = 1

    def __init__(self, known: Definitions, compiled: CompiledTrigger) -> None:
        self._known = known
        self._compiled = compiled

    @property
    def definition_hash(self) -> int:
        self._known.compile(row(2))
        return self._compiled.hash


def test_a_trigger_that_is_let_go_of_while_it_is_looked_at_is_found(
    known: Definitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "_KEEP", 1)
    compiled = known.compile(row(1))
    assert isinstance(compiled, CompiledTrigger)
    store = open_store("sqlite://", create=True)
    found = store.read("compile", lambda tx: known.compiled(tx, [Clock(known, compiled)]))
    assert found == {1: compiled}
    store.close()
