"""A cluster that loses its Redis goes on by row locks, loudly, and comes back to its leader; or it stops, if told to (B69)."""

from collections.abc import Callable

import pytest
from qsched.cluster.errors import LeaseUnavailable
from qsched.triggers.instant import SECOND

from support.hand_node import START, every
from support.led import CHECK_IN, TTL, Led, LedNode
from support.servers import RedisServer


def slots(led: Led) -> list[int]:
    """The seconds of the slots that ran."""
    return [(slot - START) // SECOND for (slot,) in led.world.firings("scheduled_at", "state = 'succeeded'")]


def fell_back(led: Led) -> bool:
    """Whether the cluster's row says row locks for the time being."""
    return led.row.fallen_back_at is not None


def pair(led: Led) -> tuple[LedNode, LedNode]:
    one, two = led.node("a"), led.node("b")
    led.world.apply(every("tick", 10))
    assert led.elect() is one
    return one, two


def kill(redis: RedisServer) -> None:
    redis.kill()


def start_again(redis: RedisServer) -> None:
    redis.start()


def replica(redis: RedisServer) -> None:
    redis.command("REPLICAOF 127.0.0.1 1")


def primary(redis: RedisServer) -> None:
    redis.command("REPLICAOF NO ONE")


LOSSES = [("killed", kill, start_again), ("read-only", replica, primary)]


@pytest.mark.parametrize(("breaks", "heals"), [each[1:] for each in LOSSES], ids=[each[0] for each in LOSSES])
def test_a_cluster_that_lost_its_redis_goes_on_by_row_locks_and_comes_back(
    led_by_redis: Led,
    breaks: Callable[[RedisServer], None],
    heals: Callable[[RedisServer], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    led = led_by_redis
    assert led.redis is not None
    one, two = pair(led)
    led.live(20)
    breaks(led.redis.server)
    led.live(TTL)
    assert not one.leads()
    assert not fell_back(led)
    led.live(TTL + CHECK_IN)
    assert fell_back(led)
    assert led.row.leader is None
    assert [node.who.leader_mode for node in (one, two)] == [False, False]
    assert caplog.text.count("leader.fallback") == 1
    assert [record.levelname for record in caplog.records if "leader.fallback" in record.message] == ["ERROR"]
    assert caplog.text.count("leader.none") == 1  # by the other
    led.live(60)
    heals(led.redis.server)
    led.live(2 * CHECK_IN)
    assert not fell_back(led)
    assert led.leader() is not None
    assert [node.who.leader_mode for node in (one, two)] == [True, True]
    led.live(30)
    assert slots(led) == list(range(10, slots(led)[-1] + 1, 10))
    late = led.world.firings("(noticed_at - scheduled_at) / 1000000")
    assert max(seconds for (seconds,) in late) <= 3 * TTL


def test_told_to_stop_it_decides_nothing_without_redis(
    led_by_redis: Led, caplog: pytest.LogCaptureFixture
) -> None:
    led = led_by_redis
    assert led.redis is not None
    one, two = (led.node(name, on_redis_loss="stop") for name in ("a", "b"))
    led.world.apply(every("tick", 10))
    led.elect()
    led.live(12)
    led.redis.server.kill()
    led.live(80)
    assert not fell_back(led)
    assert slots(led) == [10]
    assert caplog.text.count("leader.missing") == 2  # once for each node
    assert all(node.elector.trouble for node in (one, two))
    led.redis.server.start()
    led.live(5)
    assert led.leader() is not None
    assert not any(node.elector.trouble for node in (one, two))
    # What was missed is decided now, by the misfire policy.
    assert led.world.firings("state, covers, misfire_cause")[-1][:2] == ("succeeded", 8)


def test_a_redis_that_is_absent_at_the_start_is_told_of_and_done_without(
    led_by_redis: Led, caplog: pytest.LogCaptureFixture
) -> None:
    led = led_by_redis
    assert led.redis is not None
    led.redis.server.kill()
    led.node("a")
    led.world.apply(every("tick", 10))
    led.live(4)
    assert fell_back(led)
    assert caplog.text.count("leader.fallback") == 1
    led.live(20)
    assert slots(led) == [10, 20]
    led.redis.server.start()
    led.live(4)
    assert led.leader() is not None


def test_a_node_without_redis_follows_and_sees_to_the_fall_back(led_by_redis: Led) -> None:
    led = led_by_redis
    led_by, follower = led.node("a"), led.node("b", stands=False)
    led.world.apply(every("tick", 10))
    assert led.elect() is led_by
    led.live(15)
    assert not follower.leads()
    led_by.hand.gone = True  # and nobody else knows the Redis
    led.live(2 * TTL)
    assert not fell_back(led)  # it does not see for itself, and waits for those who do
    led.live(4 * TTL)
    assert fell_back(led)
    led.live(15)
    assert slots(led)[-1] >= 40


def test_a_key_without_an_end_that_nobody_owns_does_not_stop_the_cluster(led_by_redis: Led) -> None:
    led = led_by_redis
    assert led.redis is not None
    one, two = pair(led)
    led.live(5)
    led.redis.steal()
    led.live(TTL)
    assert not one.leads()
    assert not two.leads()
    led.live(5 * TTL)
    assert fell_back(led)
    led.redis.server.command(f"DEL {led.redis.key}")
    led.live(3)
    assert led.leader() is not None
    led.live(20)
    assert slots(led) == list(range(10, slots(led)[-1] + 1, 10))


def test_a_key_that_was_deleted_by_hand_is_won_again(led_by_redis: Led) -> None:
    """B23."""
    led = led_by_redis
    assert led.redis is not None
    one, two = pair(led)
    led.live(5)
    epoch = led.row.epoch
    led.redis.server.command(f"DEL {led.redis.key}")
    led.live(3)
    assert led.leader() in (one, two)
    assert led.row.epoch > epoch
    led.live(20)
    assert slots(led) == [10, 20]


def test_two_believers_run_nothing_twice_and_the_last_epoch_wins(
    led_by_redis: Led, caplog: pytest.LogCaptureFixture
) -> None:
    """Redis forgets the key; another wins it while the first still believes: its next plan is refused by its epoch."""
    led = led_by_redis
    assert led.redis is not None
    one, two = pair(led)
    led.world.apply(every("tick", 10), *(every(f"fast{n}", 1) for n in range(5)))
    refused = 0
    for _ in range(6):
        led.live(3)
        believer = led.leader()
        assert believer is not None
        other = two if believer is one else one
        led.redis.server.command("FLUSHALL")
        other.look()
        assert believer.leads()
        assert other.leads()
        led.pass_time(1)
        before = caplog.text.count("leader.stale_plan_refused")
        believer.hand.turn()
        refused += caplog.text.count("leader.stale_plan_refused") - before
        assert not believer.leads()
        led.work()
    assert refused == 6
    led.live(5)
    rows = led.world.firings("trigger_name, scheduled_at, state")
    assert len({row[:2] for row in rows}) == len(rows)
    assert {row[2] for row in rows} == {"succeeded"}
    for n in range(5):
        ran = sorted((slot - START) // SECOND for name, slot, _ in rows if name == f"fast{n}")
        assert ran == list(range(1, ran[-1] + 1))


@pytest.mark.parametrize("tenths", range(0, 14, 2))
def test_with_a_redis_that_does_not_answer_it_falls_back_a_question_after_two_ttl(
    led_by_redis: Led, monkeypatch: pytest.MonkeyPatch, tenths: int
) -> None:
    """Each question lasts a quarter of a ttl before it is given up, in whatever moment of the wait it is asked."""
    led = led_by_redis
    node = led.node("a")
    led.elect()
    led.live(2)
    renewed = (led.row.leader_until or 0) - TTL * SECOND

    def unanswered(*_: object) -> None:
        led.world.pass_time(TTL / 4)
        raise LeaseUnavailable("no answer")

    for question in ("acquire", "renew"):
        monkeypatch.setattr(node.lease, question, unanswered)
    waits = tenths / 10
    while not fell_back(led):
        if led.world.time > renewed + 1.2 * TTL * SECOND:
            led.world.pass_time(waits)  # any time between two looks
            waits = 0.0
        node.hand.check_in.step()
        wait = node.elector.step()
        took = (led.world.time - renewed) / SECOND
        led.world.pass_time(wait)
    assert 2 * TTL <= took <= 2.25 * TTL + 0.01
