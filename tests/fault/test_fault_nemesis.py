"""The nemesis does what is planned, tries elsewhere what cannot be done here, and heals until it is healed."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fault.history import History, lines_of
from fault.injections import LATER, Heal, Impossible
from fault.nemesis import Nemesis
from fault.schedule import Fault
from support.waiting import wait_until


class Stage:
    """Two seats, and time that passes."""

    def __init__(self, folder: Path) -> None:
        self.history = History(folder)
        self.seats = [SimpleNamespace(name="n1"), SimpleNamespace(name="n2")]
        self.paused = 0

    def pause(self, seconds: float) -> None:
        self.paused += seconds > 0


class Injected:
    """Injections by a function; counts."""

    def __init__(self, begin: Callable[[Fault], Heal]) -> None:
        self.begin = begin
        self.again = 0

    def repeat(self, fault: Fault) -> tuple[float, Callable[[], object]] | None:
        def once_more() -> None:
            self.again += 1

        return (0.02, once_more) if fault.kind == "terminate" else None


def _played(folder: Path, injected: Injected, *faults: Fault) -> list[dict[str, Any]]:
    """The history of these faults, played to their end."""
    nemesis = Nemesis(Stage(folder), faults, injected)  # type: ignore[arg-type]

    def over() -> bool:
        nemesis.step()
        return nemesis.done

    wait_until(over, "the last fault")
    return lines_of(folder / "history.jsonl")


def test_a_fault_is_done_and_healed_in_its_time(tmp_path: Path) -> None:
    healed: list[str] = []
    injected = Injected(lambda fault: lambda: healed.append(fault.kind))
    lines = _played(tmp_path, injected, Fault(0.0, "hold", "n1", 0.1), Fault(0.02, "terminate", "", 0.15))
    assert [(line["what"], line["n"]) for line in lines] == [
        ("fault", 0),
        ("fault", 1),
        ("healed", 0),
        ("healed", 1),
    ]
    assert healed == ["hold", "terminate"]
    assert injected.again > 1


def test_what_cannot_be_done_to_one_node_is_done_to_the_other(tmp_path: Path) -> None:
    def begin(fault: Fault) -> Heal:
        if fault.target == "n1":
            raise Impossible
        return lambda: None

    lines = _played(tmp_path, Injected(begin), Fault(0.0, "kill", "n1", 0.0))
    assert [line["target"] for line in lines if line["what"] == "fault"] == ["n2"]


def test_a_cut_that_met_no_commit_is_told_as_one(tmp_path: Path) -> None:
    lines = _played(tmp_path, Injected(lambda fault: lambda: True), Fault(0.0, "cut_after", "n1", 0.01))
    assert [line["unmet"] for line in lines if line["what"] == "healed"] == [True]


def test_a_fault_is_healed_again_until_it_is_healed(tmp_path: Path) -> None:
    answers = iter([LATER, None])
    lines = _played(
        tmp_path, Injected(lambda fault: lambda: next(answers)), Fault(0.0, "redis_readonly", "", 0.0)
    )
    assert [line["what"] for line in lines] == ["fault", "healed"]


def test_in_the_end_everything_is_healed(tmp_path: Path) -> None:
    answers = iter([LATER, None])
    stage = Stage(tmp_path)
    injected = Injected(lambda fault: lambda: next(answers))
    nemesis = Nemesis(stage, [Fault(0.0, "hold", "n1", 999.0), Fault(99.0, "kill", "n1", 1.0)], injected)  # type: ignore[arg-type]
    nemesis.step()
    nemesis.heal_all()
    assert nemesis.done
    assert stage.paused == 1
    assert [line["what"] for line in lines_of(tmp_path / "history.jsonl")] == ["fault", "healed"]
