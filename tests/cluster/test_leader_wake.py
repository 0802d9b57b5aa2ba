"""Wake-ups over Redis reach the other nodes, many at once as one; a Redis that loses them costs a poll and nothing else."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from qsched.cluster.node import Node
from qsched.cluster.redis_wake import RedisWake
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.identity import Identity

from support.servers import RedisServer
from support.waiting import wait_until


class Ear:
    """A node's wake-ups, with the two threads that its loops would be."""

    def __init__(self, server: RedisServer, cluster: str = "one") -> None:
        self.woken = 0
        self.wake = RedisWake(server.url, Identity("n", cluster_uuid=cluster), SystemClock(), self._hear)
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(step,), daemon=True)
            for step in (self.wake.hear, self.wake.speak)
        ]

    def _hear(self) -> None:
        self.woken += 1

    def _run(self, step: Callable[[], float]) -> None:
        while not self._stopping.is_set():
            self._stopping.wait(min(step(), 0.05))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(10)
        self.wake.close()


@contextmanager
def listening(*ears: Ear) -> Iterator[None]:
    """These listen, and are subscribed."""
    for ear in ears:
        ear.start()
    try:
        for ear in ears:
            wait_until(lambda e=ear: _reached(e), "a subscription")  # type: ignore[misc]
        yield
    finally:
        for ear in ears:
            ear.stop()


def _reached(ear: Ear) -> bool:
    ear.wake.announce()  # a node hears its own too, which is how this knows that it listens
    return ear.woken > 0


def test_an_announcement_wakes_the_others_of_the_cluster(own_redis: RedisServer) -> None:
    one, two, stranger = Ear(own_redis), Ear(own_redis), Ear(own_redis, "another")
    with listening(one, two, stranger):
        before = two.woken, stranger.woken
        one.wake.announce()
        wait_until(lambda: two.woken > before[0], "the wake-up")
        assert stranger.woken <= before[1] + 1  # its own last one may have come


def test_many_announcements_are_few_messages(own_redis: RedisServer) -> None:
    one, two = Ear(own_redis), Ear(own_redis)
    with listening(one, two):
        before = two.woken
        for _ in range(10_000):
            one.wake.announce()
        wait_until(lambda: two.woken > before, "the wake-up")
        assert two.woken - before < 100


def test_a_lost_redis_is_told_of_once_and_heard_again(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ear = Ear(own_redis)
    with listening(ear):
        own_redis.kill()
        wait_until(lambda: "wake.lost" in caplog.text, "the loss")
        own_redis.start()
        wait_until(lambda: "wake.available" in caplog.text, "its return")
        before = ear.woken
        wait_until(lambda: _announced(ear) > before, "a wake-up again")
    assert caplog.text.count("wake.lost") == 1


def _announced(ear: Ear) -> int:
    ear.wake.announce()
    return ear.woken


def test_row_locks_with_a_redis_wake_each_other_where_the_database_cannot(
    sqlite_url: str, own_redis: RedisServer
) -> None:
    with Node(sqlite_url, coordination="row_locks", redis=own_redis.url) as node:
        node.wait_ready(30)
        wait_until(lambda: own_redis.command("PUBSUB CHANNELS qsched:*:wake") == "*1", "a subscription")
