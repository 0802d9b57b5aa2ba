"""A Redis that comes and goes, or falls silent: the log tells of it ever more rarely (B74), and silence is found out."""

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from qsched.cluster.errors import LeaseUnavailable
from qsched.cluster.redis_wake import RedisWake
from qsched.scheduler.identity import Identity

from support.hand_parts import HandClock
from support.led import Led
from support.servers import RedisServer


class Passing:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.time = 0
        self.elapsed = 1000.0

    def pass_time(self, seconds: float) -> None:
        self.elapsed += seconds


class Ear:
    """One node's listening to a Redis, in a time of its own."""

    def __init__(self, url: str) -> None:
        self.time = Passing()
        self.woken = threading.Event()
        self.wake = RedisWake(url, Identity("n", cluster_uuid="one"), HandClock(self.time), self.woken.set)

    def hear(self, seconds: float) -> None:
        """Listen once, and let so many seconds pass."""
        self.wake.hear()
        self.time.pass_time(seconds)


class Flapping:
    """Stands for a client of Redis, and for its subscription: every other time it cannot be reached."""

    connection_pool: Any = None

    def __init__(self) -> None:
        self.connection_pool = self
        self.asked = 0

    def pubsub(self, **options: Any) -> "Flapping":
        return self

    def get_message(self, timeout: float) -> None:
        self.asked += 1
        if self.asked % 2:
            raise ConnectionError("refused")

    def subscribe(self, channel: str) -> None: ...
    def close(self) -> None: ...
    def disconnect(self) -> None: ...


def test_two_hours_of_a_redis_that_comes_and_goes_each_second_are_a_few_lines_of_lost_wake_ups(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    ear = Ear("redis://127.0.0.1:1/0")
    ear.wake._hearing = Flapping()  # type: ignore[assignment]
    for _ in range(7200):
        ear.hear(1)
    lines = caplog.text.count("wake.lost"), caplog.text.count("wake.available")
    assert 2 <= lines[0] <= 20
    assert lines[1] <= lines[0]


def test_a_lease_that_can_be_asked_for_every_other_second_only_is_told_of_ever_more_rarely(
    led_by_redis: Led, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    node = led_by_redis.node("a")
    led_by_redis.elect()
    real: Callable[..., Any] = node.lease.renew  # type: ignore[union-attr]
    asked: list[object] = []

    def flapping(*arguments: Any) -> Any:
        asked.append(None)
        if len(asked) % 2:
            raise LeaseUnavailable("refused")
        return real(*arguments)

    monkeypatch.setattr(node.lease, "renew", flapping)
    led_by_redis.live(120)
    assert len(asked) > 60
    lines = caplog.text.count("leader.lease_unavailable"), caplog.text.count("leader.lease_available")
    assert 2 <= lines[0] <= 4
    assert lines[1] <= lines[0]
    assert node.leads()


def test_a_redis_that_falls_silent_is_lost_within_half_a_minute(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear(own_redis.url)
    ear.hear(16)
    own_redis.pause()
    for _ in range(3):
        ear.hear(3)
    own_redis.resume()
    assert "wake.lost" in caplog.text
    ear.wake.close()


def test_a_redis_that_has_nothing_to_say_is_not_lost(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear(own_redis.url)
    for _ in range(6):
        ear.hear(16)
    assert caplog.text == ""
    assert not ear.woken.is_set()
    ear.wake.close()
