"""The gate serves in order of arrival, check-ins first, and survives whoever breaks off while waiting."""

import threading
from types import SimpleNamespace

import pytest
from qsched.scheduler.store.gate import Gate

from support.waiting import wait_until


def _waiting(gate: Gate) -> int:
    return len(gate._ordinary) + len(gate._urgent)


class Line:
    """Threads that wait at a gate, and the order in which they got through."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.through: list[str] = []
        self.threads: list[threading.Thread] = []

    def join(self, name: str, *, urgent: bool = False) -> None:
        """One more waits, and certainly after those before."""
        before = _waiting(self.gate)

        def run() -> None:
            with self.gate.held(urgent=urgent):
                self.through.append(name)

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()
        wait_until(lambda: _waiting(self.gate) == before + 1, f"{name} to wait")

    def end(self) -> list[str]:
        for thread in self.threads:
            thread.join(10)
        return self.through


def test_those_who_wait_are_served_in_order_and_check_ins_first() -> None:
    gate = Gate()
    line = Line(gate)
    gate.acquire()
    for name in ("a", "b", "c"):
        line.join(name)
    for name in ("x", "y"):
        line.join(name, urgent=True)
    line.join("d")
    gate.release()
    assert line.end() == ["x", "y", "a", "b", "c", "d"]


def test_whoever_comes_back_at_once_does_not_pass_those_who_wait() -> None:
    gate = Gate()
    line = Line(gate)
    gate.acquire()
    line.join("waiting")
    gate.release()
    with gate.held():
        line.through.append("again")
    assert line.end() == ["waiting", "again"]


def test_one_holds_it_at_a_time() -> None:
    gate, inside, most = Gate(), 0, 0

    def run() -> None:
        nonlocal inside, most
        for number in range(200):
            with gate.held(urgent=number % 7 == 0):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    with gate.held():
        assert gate.mine
    assert not gate.mine


def test_an_error_inside_frees_it() -> None:
    gate = Gate()
    for _ in range(100):
        with pytest.raises(ValueError), gate.held():
            raise ValueError
    with gate.held(urgent=True):
        pass


class Interrupted(BaseException):
    """Ctrl-C, as a waiting thread meets it."""


class Turn:
    """A lock whose waiting is broken off; `first` runs just before."""

    def __init__(self, first: threading.Event | None = None) -> None:
        self._first = first
        self._tries = 0

    def acquire(self) -> bool:
        self._tries += 1
        if self._tries == 1:
            return True
        if self._first is not None:
            self._first.wait(10)
        raise Interrupted

    def release(self) -> None:
        if self._first is not None:
            self._first.set()


@pytest.mark.parametrize("handed_over", [False, True])
def test_breaking_off_while_waiting_loses_no_turn(monkeypatch: pytest.MonkeyPatch, handed_over: bool) -> None:
    gate = Gate()
    gate.acquire()
    turn = Turn(threading.Event() if handed_over else None)
    fake = SimpleNamespace(Lock=lambda: turn, get_ident=threading.get_ident)
    monkeypatch.setattr("qsched.scheduler.store.gate.threading", fake)
    broke_off = threading.Event()

    def run() -> None:
        with pytest.raises(Interrupted):
            gate.acquire()
        broke_off.set()

    thread = threading.Thread(target=run)
    thread.start()
    if handed_over:
        wait_until(lambda: _waiting(gate) == 1, "the thread to wait")
        gate.release()
        assert broke_off.wait(10)
    else:
        assert broke_off.wait(10)
        gate.release()
    thread.join(10)
    monkeypatch.undo()
    assert _waiting(gate) == 0
    line = Line(gate)
    gate.acquire()
    line.join("next")
    gate.release()
    assert line.end() == ["next"]


def test_taking_it_twice_is_told_off() -> None:
    gate = Gate()
    with gate.held(), pytest.raises(RuntimeError, match="inside another"):
        gate.acquire()
    with gate.held():
        pass
