"""Listeners: told in order by one thread, to the cost of nobody else; what they do wrong is theirs."""

import logging
import threading

import pytest
from qsched.scheduler import listeners
from qsched.scheduler.around.marks import listener, mark_of
from qsched.scheduler.events import Event, Fact
from qsched.scheduler.listeners import Audience, Teller
from qsched.triggers.errors import DefinitionError

from support.waiting import wait_until


def event(number: int) -> Event:
    return Event(fact=Fact.STARTED, at=number)


def test_all_is_told_in_order_and_a_clean_stop_tells_the_rest() -> None:
    heard: list[int] = []
    gate = threading.Event()

    def slow(told: Event) -> None:
        gate.wait(30)
        heard.append(told.at)

    teller = Teller(Audience([slow]))
    for number in range(100):
        teller.tell([event(number)])
    gate.set()
    teller.close(30)
    assert heard == list(range(100))
    teller.tell([event(100)])
    assert heard == list(range(100)), "a closed one tells nothing"


def test_where_nobody_listens_nothing_is_begun() -> None:
    teller = Teller()
    assert not teller.heard
    teller.tell(pytest.fail("nobody asked for it") for _ in range(1))
    assert not any(thread.name == "qsched-events" for thread in threading.enumerate())
    teller.close()


def test_one_that_stops_listening_hears_no_more() -> None:
    heard: list[int] = []
    audience = Audience()
    teller = Teller(audience)
    stop = audience.add(lambda told: heard.append(told.at))
    teller.tell([event(1)])
    wait_until(lambda: heard == [1], "it heard")
    stop()
    stop()
    assert not teller.heard
    teller.tell([event(2)])
    teller.close(30)
    assert heard == [1]


def test_one_that_raises_is_logged_once_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[int] = []

    def broken(told: Event) -> None:
        raise SystemExit(f"no {told.at}")

    teller = Teller(Audience([broken, lambda told: heard.append(told.at)]))
    teller.tell(map(event, range(50)))
    teller.close(30)
    assert heard == list(range(50))
    said = [record for record in caplog.records if "listener.failed" in record.message]
    assert len(said) == 1
    assert "broken" in said[0].message


def test_a_slow_one_loses_the_oldest_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "MOST_WAITING", 10)
    began, gate = threading.Event(), threading.Event()
    heard: list[int] = []

    def stuck(told: Event) -> None:
        began.set()
        gate.wait(30)
        heard.append(told.at)

    teller = Teller(Audience([stuck]))
    teller.tell([event(0)])
    assert began.wait(30)
    for number in range(1, 31):
        teller.tell([event(number)])
    gate.set()
    teller.close(30)
    assert heard == [0, *range(21, 31)]
    assert teller.dropped == 20
    assert sum("events.dropped" in record.message for record in caplog.records) == 1


def test_a_stop_waits_no_longer_than_it_was_told(caplog: pytest.LogCaptureFixture) -> None:
    gate = threading.Event()
    teller = Teller(Audience([lambda _: gate.wait(30)]))
    with caplog.at_level(logging.WARNING):
        teller.tell([event(1), event(2)])
        teller.close(0.05)
    assert "the node stopped before" in caplog.text
    gate.set()


def test_only_what_can_be_called_with_an_event_is_a_listener() -> None:
    async def later(told: Event) -> None: ...

    @listener
    def marked(told: Event) -> None: ...

    assert getattr(mark_of(marked), "kind", None) == "listener"
    for wrong, said in ((later, "async"), (3, "cannot be called")):
        with pytest.raises(DefinitionError, match=said):
            Audience([wrong])  # type: ignore[list-item]
    with pytest.raises(DefinitionError, match="write a def"):
        listener(later)
