"""Whatever a Redis does to the lease is a state: nothing was won or renewed, nobody crashes, and healed it goes on (B69)."""

import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from qsched.cluster.errors import LeaseUnavailable, NodeSettingsError
from qsched.cluster.redis_lease import RedisLease, connect
from qsched.cluster.redis_url import check_redis_url, shown
from qsched.scheduler.clock import SystemClock
from qsched.scheduler.identity import Term
from qsched.scheduler.store.cluster_rows import choose_coordination

from support.hand_node import HandNode, World
from support.servers import RedisServer
from support.waiting import wait_until


class Stage(NamedTuple):
    """A node, its lease on a Redis that is the test's own, and the term it holds."""

    redis: RedisServer
    node: HandNode
    lease: RedisLease
    term: Term

    def renew(self) -> Term | None:
        return self.lease.renew(self.node.parts.who.incarnation, self.term)

    def acquire(self) -> Term | None:
        return self.lease.acquire(self.node.parts.who.incarnation)


@pytest.fixture
def world(sqlite_hand_url: str, request: pytest.FixtureRequest) -> Iterator[World]:
    """What Redis does is the same on every database."""
    made = World(sqlite_hand_url, request.node.name)
    yield made
    made.close()


@pytest.fixture
def stage(world: World, own_redis: RedisServer) -> Iterator[Stage]:
    world.store.transaction("choose", lambda tx: choose_coordination(tx, "leader", "redis") and None)
    node = world.node()
    # Sixty seconds, so that a slow machine does not end it; what waits for an answer gives up after a quarter of that.
    lease = RedisLease(own_redis.url, node.parts.who, node.store, node.clock, 60_000_000)
    term = lease.acquire(node.parts.who.incarnation)
    assert term is not None
    yield Stage(own_redis, node, lease, term)
    lease.close()


def replica(redis: RedisServer) -> None:
    redis.command("REPLICAOF 127.0.0.1 1")


def primary(redis: RedisServer) -> None:
    redis.command("REPLICAOF NO ONE")


def cannot_save(redis: RedisServer) -> None:
    (redis.folder / "data").chmod(0o500)
    redis.command('CONFIG SET save "1000 1000"')
    redis.command("BGSAVE")
    wait_until(lambda: redis.command("SET probe 1").startswith("-MISCONF"), "a Redis that cannot save")


def can_save(redis: RedisServer) -> None:
    redis.command("CONFIG SET stop-writes-on-bgsave-error no")


def asks_for_a_password(redis: RedisServer) -> None:
    redis.command("CONFIG SET requirepass hunter2")
    redis.command("AUTH hunter2\r\nCLIENT KILL TYPE normal")


def asks_no_more(redis: RedisServer) -> None:
    redis.command('AUTH hunter2\r\nCONFIG SET requirepass ""')


def is_busy(redis: RedisServer) -> None:
    """A script that does not end, and what asks meanwhile is refused after a while."""
    redis.command("CONFIG SET busy-reply-threshold 1")
    threading.Thread(target=lambda: redis.command('EVAL "while true do end" 0'), daemon=True).start()
    wait_until(lambda: redis.command("PING").startswith("-BUSY"), "a busy Redis")


def is_idle(redis: RedisServer) -> None:
    redis.command("SCRIPT KILL")
    wait_until(lambda: redis.command("PING") == "+PONG", "an idle Redis")


def gone(redis: RedisServer) -> None:
    redis.kill()


def back(redis: RedisServer) -> None:
    redis.start()


TROUBLES: list[tuple[str, Callable[[RedisServer], None], Callable[[RedisServer], None]]] = [
    ("ReadOnly", replica, primary),
    ("MISCONF", cannot_save, can_save),
    ("Authentication", asks_for_a_password, asks_no_more),
    ("BUSY", is_busy, is_idle),
    ("Connection", gone, back),
]


@pytest.mark.parametrize(("said", "breaks", "heals"), TROUBLES, ids=[each[0] for each in TROUBLES])
def test_what_redis_refuses_is_not_won_or_renewed_and_healed_it_goes_on(
    stage: Stage, said: str, breaks: Callable[[RedisServer], None], heals: Callable[[RedisServer], None]
) -> None:
    breaks(stage.redis)
    with pytest.raises(LeaseUnavailable, match=said):
        stage.acquire()
    if said != "MISCONF":  # which a renewal may pass: it writes nothing that is not there already
        with pytest.raises(LeaseUnavailable, match=said):
            stage.renew()
    heals(stage.redis)
    assert stage.acquire() is not None


def test_a_full_redis_gives_no_lease(stage: Stage) -> None:
    stage.redis.command("FLUSHALL")
    stage.redis.command("CONFIG SET maxmemory 1")
    with pytest.raises(LeaseUnavailable, match="OutOfMemory"):
        stage.acquire()
    stage.redis.command("CONFIG SET maxmemory 0")
    assert stage.acquire() is not None


@pytest.mark.parametrize("forgets", ["FLUSHALL", "SCRIPT FLUSH", "empty restart", "evicted"])
def test_what_redis_forgot_is_not_renewed(stage: Stage, forgets: str) -> None:
    if forgets == "empty restart":
        stage.redis.kill()
        stage.redis.start()
    elif forgets == "evicted":
        stage.redis.command(f"DEL {stage.lease.key}")
    else:
        stage.redis.command(forgets)
    kept = forgets == "SCRIPT FLUSH"  # scripts are no state of ours
    assert (stage.renew() is not None) is kept
    assert stage.acquire() is not None


def test_a_key_that_somebody_set_by_hand_is_somebody_elses(stage: Stage) -> None:
    stage.redis.command(f"SET {stage.lease.key} thief")
    assert stage.renew() is None
    assert stage.acquire() is None
    stage.lease.release(stage.node.parts.who.incarnation, stage.term)
    assert stage.redis.command(f"STRLEN {stage.lease.key}") == ":5"  # untouched


def test_a_key_of_another_kind_is_a_state_too(stage: Stage) -> None:
    stage.redis.command(f"DEL {stage.lease.key}")
    stage.redis.command(f"RPUSH {stage.lease.key} 1")
    for ask in (stage.renew, stage.acquire):
        with pytest.raises(LeaseUnavailable, match="WRONGTYPE"):
            ask()


def test_a_connection_that_was_closed_is_replaced(stage: Stage) -> None:
    """B23: a connection closed during a renewal costs that renewal at most."""
    stage.redis.command("CLIENT KILL TYPE normal")
    assert stage.renew() is not None


def test_a_frozen_redis_is_given_up_long_before_the_lease_ends(world: World, own_redis: RedisServer) -> None:
    """The client's own repeats made this fifteen seconds for a time-out of one."""
    world.store.transaction("choose", lambda tx: choose_coordination(tx, "leader", "redis") and None)
    node, clock = world.node(), SystemClock()
    lease = RedisLease(own_redis.url, node.parts.who, node.store, node.clock, 8_000_000)
    term = lease.acquire(node.parts.who.incarnation)
    assert term is not None
    own_redis.pause()
    began = clock.monotonic()
    with pytest.raises(LeaseUnavailable, match="Timeout"):
        lease.renew(node.parts.who.incarnation, term)
    assert clock.monotonic() - began < 8
    own_redis.resume()
    lease.close()


def test_a_name_that_nobody_knows_is_a_state(world: World) -> None:
    world.store.transaction("choose", lambda tx: choose_coordination(tx, "leader", "redis") and None)
    node = world.node()
    url = "redis://:hunter2@nowhere.invalid:6379/0"
    lease = RedisLease(url, node.parts.who, node.store, node.clock, 5_000_000)
    with pytest.raises(LeaseUnavailable) as raised:
        lease.acquire(node.parts.who.incarnation)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://:hunter2@host",
        "redis://:hunter2@",
        "redis://:hunter2/@host:6379/0",
        "redis://:hunter2@host:port",
        "redis://:hunter2@host:70000",
        "redis://:hunter2@host/first",
        "redis://:hunter2@host?bogus=1",
        "unix://",
        "hunter2",
        "",
    ],
)
def test_a_bad_url_is_said_without_its_password(url: str) -> None:
    with pytest.raises(NodeSettingsError) as raised:
        connect(url, 1.0)
    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_urls_own_time_outs_do_not_outlast_the_lease(own_redis: RedisServer) -> None:
    client = connect(own_redis.url + "?socket_timeout=600&socket_connect_timeout=600", 1.25)
    told = client.connection_pool.connection_kwargs
    assert (told["socket_timeout"], told["socket_connect_timeout"]) == (1.25, 1.25)


def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qsched.cluster.redis_url.find_spec", lambda name: None)
    with pytest.raises(NodeSettingsError, match=r"pip install 'qsched\[redis\]'"):
        check_redis_url("redis://host")


def test_a_place_is_shown_without_who_may_enter() -> None:
    assert shown("rediss://me:hunter2@host:1/2?ssl_ca_path=x") == "rediss://host:1/2"
    assert shown("redis://[::1]") == "redis://[::1]:6379"
    assert shown("unix://:hunter2@/run/redis.sock") == "unix:///run/redis.sock"
