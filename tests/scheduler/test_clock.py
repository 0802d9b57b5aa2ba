"""The system's clock waits and reads; the manual one moves only when told to."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from qsched.scheduler.clock import Clock, SystemClock
from qsched.scheduler.testing import START, ManualClock

from support.waiting import wait_until


def test_the_system_wall_clock_counts_microseconds_since_the_epoch() -> None:
    first = SystemClock().wall()
    assert 1_700_000_000_000_000 < first < 10_000_000_000_000_000
    assert SystemClock().monotonic() <= SystemClock().monotonic()


@pytest.mark.skipif(
    not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no clock that runs on in its sleep"
)
def test_the_system_clock_counts_what_the_machine_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    awake, slept = 50.0, 3600.0
    hands = {time.CLOCK_BOOTTIME: awake + slept, time.CLOCK_MONOTONIC: awake}
    monkeypatch.setattr(time, "clock_gettime", hands.__getitem__)
    assert SystemClock().monotonic() == awake + slept


def test_a_system_wait_ends_when_the_event_is_set() -> None:
    event = threading.Event()
    event.set()
    assert SystemClock().wait(event, None)
    assert SystemClock().wait(event, 60.0)


@pytest.mark.parametrize("timeout", [0.0, -5.0, 0.001])
def test_a_system_wait_answers_false_when_the_time_passed_first(timeout: float) -> None:
    assert not SystemClock().wait(threading.Event(), timeout)


def test_a_system_wait_longer_than_threads_can_wait_still_ends_by_its_event() -> None:
    event = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(SystemClock().wait, event, 1e12)
        event.set()
        assert waiting.result(timeout=30)


def test_the_manual_clock_stands_still() -> None:
    clock = ManualClock()
    assert (clock.wall(), clock.monotonic()) == (START, 1000.0)
    assert (clock.wall(), clock.monotonic()) == (START, 1000.0)


def test_each_hand_of_the_manual_clock_moves_alone() -> None:
    clock = ManualClock()
    clock.set_wall(5)
    assert (clock.wall(), clock.monotonic()) == (5, 1000.0)
    clock.advance_monotonic(2.5)
    assert (clock.wall(), clock.monotonic()) == (5, 1002.5)
    clock.advance(1.0)
    assert (clock.wall(), clock.monotonic()) == (1_000_005, 1003.5)


def test_a_manual_wait_ends_by_advance_and_not_by_the_wall() -> None:
    clock = ManualClock()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(clock.wait, threading.Event(), 30.0)
        wait_until(lambda: clock.waiting == 1, "the wait")
        clock.set_wall(START * 2)
        clock.advance(29.9)
        assert not waiting.done()
        clock.advance(0.2)
        assert waiting.result(timeout=30) is False


def test_a_manual_wait_ends_by_its_event_while_time_stands_still() -> None:
    clock, event = ManualClock(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(clock.wait, event, None)
        wait_until(lambda: clock.waiting == 1, "the wait")
        event.set()
        assert waiting.result(timeout=30) is True


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()])
def test_a_condition_can_be_waited_for(clock: Clock) -> None:
    condition, ready = threading.Condition(), threading.Event()

    def wait() -> bool:
        with condition:
            ready.set()
            return clock.wait(condition, 60.0)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        assert ready.wait(30)

        def told() -> bool:
            with condition:
                condition.notify_all()
            return waiting.done()

        wait_until(told, "the notified wait")
        assert waiting.result() is True
