"""Loops that nothing ends, and the health that says which of them is not at work."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from qsched.cluster.health import Health
from qsched.cluster.loop import Loop, Rhythm
from qsched.scheduler.clock import Waitable
from qsched.scheduler.errors import StoreUnavailable
from qsched.scheduler.testing import ManualClock

from support.waiting import wait_until

HOUR = 3600.0


class PassingClock(ManualClock):
    """A wait passes the time it asks for, unless what it waits for is there."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, waitable: Waitable, timeout: float | None) -> bool:
        assert isinstance(waitable, threading.Event)
        assert timeout is not None
        if not waitable.is_set():
            self.waited.append(timeout)
            self.advance(timeout)
        return waitable.is_set()


class Service:
    """A step that does what the test tells it, and asks to be called again in a second."""

    def __init__(self) -> None:
        self.steps = 0
        self.error: BaseException | None = None
        self.do: Callable[[], None] = lambda: None

    def step(self) -> float:
        self.steps += 1
        self.do()
        if self.error is not None:
            raise self.error
        return 1.0


def away(reason: str = "it is away") -> StoreUnavailable:
    return StoreUnavailable(reason)


def turns(loop: Loop, clock: PassingClock, seconds: float) -> list[float]:
    """Drive a loop for so long, as its thread would; the pauses it made."""
    pauses, until = [], clock.monotonic() + seconds
    while clock.monotonic() < until:
        pauses.append(loop.turn())
        clock.advance(pauses[-1])
    return pauses


@contextmanager
def running(*loops: Loop) -> Iterator[None]:
    for loop in loops:
        loop.start()
    try:
        yield
    finally:
        for loop in loops:
            loop.stop(10)


# -- loops -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [away(), ValueError("bug"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()]
)
def test_no_error_ends_a_loop(error: BaseException) -> None:
    clock, service = ManualClock(), Service()
    loop = Loop("planner", service.step, clock)
    service.error = error
    with running(loop):
        for step in range(1, 6):
            wait_until(lambda step=step: service.steps >= step and clock.waiting, f"step {step}")  # type: ignore[misc]
            clock.advance(10)
        service.error = None
        done = service.steps
        wait_until(lambda: service.steps > done and clock.waiting, "it to go on")


def test_the_pause_after_an_error_grows_to_five_seconds_and_is_not_the_same_for_all() -> None:
    clock, service = PassingClock(), Service()
    service.error = away()
    loops = [Loop("planner", service.step, clock) for _ in range(2)]
    one, other = (turns(loop, clock, 100) for loop in loops)
    assert max(one) <= 5.0
    assert one[0] <= 0.1
    assert all(later > earlier for earlier, later in pairwise(one[:5]))
    assert min(one[8:]) >= 3.75
    assert one != other


def test_after_a_success_the_pauses_begin_anew() -> None:
    clock, service = PassingClock(), Service()
    service.error = away()
    loop = Loop("planner", service.step, clock)
    turns(loop, clock, 60)
    service.error = None
    assert loop.turn() == 1.0
    service.error = away()
    assert loop.turn() <= 0.1


def test_a_check_in_is_tried_again_without_a_growing_pause() -> None:
    clock, service = PassingClock(), Service()
    service.error = ValueError("a bug")
    loop = Loop("check-in", service.step, clock, Rhythm(1.0, (0.25, 0.25)))
    assert all(0.18 <= pause <= 0.25 for pause in turns(loop, clock, 60))


def test_what_failed_is_not_hurried_by_wake_ups_and_goes_on_at_once_when_the_database_answers() -> None:
    clock, service = ManualClock(), Service()
    service.error = away()
    loop = Loop("planner", service.step, clock)
    with running(loop):
        wait_until(lambda: clock.waiting, "the first failure")
        for _ in range(20):
            loop.wake()
        assert not threading.Event().wait(0.05)
        assert service.steps == 1
        service.error = None
        loop.retry()
        wait_until(lambda: service.steps > 1 and clock.waiting, "it to go on")
        done = service.steps
        loop.wake()
        wait_until(lambda: service.steps > done, "an early step")


def test_two_hours_of_failure_are_a_few_lines_and_each_says_for_how_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    clock, service = PassingClock(), Service()
    service.error = away()
    loop = Loop("planner", service.step, clock)
    turns(loop, clock, 2 * HOUR)
    lines = [record.getMessage() for record in caplog.records]
    assert 5 <= len(lines) <= 12
    elapsed = [float(line.partition("for=")[2].partition("s ")[0]) for line in lines]
    assert elapsed[0] == 0.0
    assert elapsed == sorted(elapsed)
    assert elapsed[-1] > 1.4 * HOUR
    service.error = None
    loop.turn()
    assert caplog.records[-1].getMessage().startswith("planner.goes_on after=7")


def test_trouble_that_comes_and_goes_is_told_no_more_often_than_trouble_that_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    clock, service = PassingClock(), Service()
    loop = Loop("planner", service.step, clock)
    for _ in range(int(HOUR)):
        service.error = away()
        clock.advance(loop.turn())
        service.error = None
        clock.advance(loop.turn())
    assert 5 < len(caplog.records) <= 20
    clock.advance(120)  # calm
    caplog.clear()
    service.error = away()
    loop.turn()
    assert "planner.waiting for=0.0s" in caplog.text


def test_a_bug_is_told_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    clock, service = PassingClock(), Service()
    service.error = ValueError("a bug")
    loop = Loop("planner", service.step, clock)
    loop.turn()
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert "ValueError: a bug" in caplog.text


# -- health ------------------------------------------------------------------------------------------------------------


class Ward:
    """Three loops on a manual clock, driven by hand, and their health."""

    def __init__(self, **rhythms: Rhythm) -> None:
        self.clock = PassingClock()
        self.services = {name: Service() for name in ("planner", "settler", *rhythms)}
        self.loops = {
            name: Loop(name, service.step, self.clock, rhythms.get(name))
            for name, service in self.services.items()
        }
        self.health = Health(self.clock, self.loops)
        for loop in self.loops.values():
            loop._thread = threading.current_thread()  # alive; the test itself does what it would do

    def second(self, *idle: str) -> dict[str, str]:
        """A second passes, in which all loops but these make a step."""
        self.clock.advance(1.0)
        for name, loop in self.loops.items():
            if name not in idle:
                loop.turn()
        self.health.step()
        return self.health.reds()


def test_a_loop_without_a_success_for_three_seconds_is_red_and_says_why() -> None:
    ward = Ward()
    assert ward.second() == {}
    ward.services["planner"].error = away("connection refused")
    assert [ward.second() for _ in range(3)] == [{}, {}, {}]
    assert ward.second() == {"planner": "no success for 4 s: connection refused"}
    ward.services["planner"].error = None
    assert ward.second() == {}


def test_a_step_that_does_not_come_back_is_red() -> None:
    ward = Ward()
    ward.second()
    ward.loops["planner"]._began_at = ward.clock.monotonic()
    for _ in range(10):
        reds = ward.second("planner")
    assert reds == {"planner": "a step has been running for 10 s"}


def test_a_service_that_says_its_trouble_is_red_although_no_step_raises() -> None:
    trouble: list[str] = []
    ward = Ward(check_in=Rhythm(trouble=lambda: trouble[0] if trouble else None))
    assert ward.second() == {}
    trouble.append("no check-in lands")
    for _ in range(5):
        reds = ward.second()
    assert reds == {"check_in": "no success for 5 s: no check-in lands"}
    trouble.clear()
    assert ward.second() == {}


def test_rare_loops_have_three_of_their_intervals_and_thirty_seconds_at_most() -> None:
    ward = Ward(slow=Rhythm(5.0), rare=Rhythm(60.0))
    ward.second()
    red_after: dict[str, int] = {}
    for second in range(1, 120):
        for name in ward.second("slow", "rare"):
            red_after.setdefault(name, second)
    assert red_after == {"slow": 16, "rare": 31}


def test_a_loop_that_asked_for_a_long_pause_is_not_red_within_it() -> None:
    ward = Ward(rare=Rhythm(60.0))
    ward.loops["rare"]._step = lambda: 60.0
    ward.second()
    assert not any(ward.second("rare") for _ in range(62))
    assert [*ward.second("rare"), *ward.second("rare")] == ["rare"]


def test_a_process_that_stood_still_itself_finds_nobody_ill() -> None:
    ward = Ward()
    ward.second()
    ward.clock.advance(60)  # SIGSTOP, and SIGCONT
    assert ward.health.reds() == {}
    assert ward.second() == {}
    for _ in range(5):
        reds = ward.second("planner")
    assert set(reds) == {"planner"}


def test_red_and_green_are_told_once_an_episode(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    ward = Ward()
    ward.second()
    ward.services["planner"].error = away()
    for _ in range(9):
        ward.second()
    ward.services["planner"].error = None
    for _ in range(60):
        ward.second()
    said = [record.getMessage() for record in caplog.records if record.name == "qsched.health"]
    assert said == [
        "health.red loop=planner reason=no success for 4 s: it is away",
        "health.green loop=planner after=6.0s",
    ]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_is_red_and_started_again() -> None:
    """No error of a step can end it; what does is an error where none is expected, as in a clock that cannot wait."""
    clock, service = DyingClock(), Service()
    loop = Loop("planner", service.step, clock)
    health = Health(clock, {"planner": loop})
    assert health.reds() == {}  # not started: not to run
    with running(loop):
        wait_until(health.reds, "its death")
        assert health.reds() == {"planner": "its thread has died"}
        done = service.steps
        clock.deaths = 0
        health.step()
        wait_until(lambda: service.steps > done and clock.waiting, "a new thread")
        assert health.reds() == {}
        clock.advance(1)
    assert health.reds() == {}  # ended: not to run


class DyingClock(ManualClock):
    """Its waits end the thread, silently as SystemExit does."""

    deaths = 1

    def wait(self, waitable: Waitable, timeout: float | None) -> bool:
        if self.deaths:
            raise SystemExit
        return super().wait(waitable, timeout)
