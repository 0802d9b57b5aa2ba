"""One leads, by what it renewed in time; without it another does within ttl and a check-in, and nothing is missed or doubled."""

from typing import Any

import pytest
from qsched.scheduler.store.cluster_rows import share_epoch
from qsched.scheduler.store.tx import Tx
from qsched.triggers.instant import SECOND

from support.hand_node import START, every, once
from support.led import CHECK_IN, TTL, Led

STEP = 0.05


def until_led(led: Led) -> float:
    """Seconds until somebody leads, time passing in small steps."""
    waited = 0.0
    while led.leader() is None:
        led.pass_time(STEP)
        waited += STEP
        for node in led.nodes:
            node.turn()
        assert waited < 60
    return waited


def slots(led: Led) -> list[tuple[Any, ...]]:
    return led.world.firings("(scheduled_at - ?) / 1000000".replace("?", str(START)), "state = 'succeeded'")


def test_the_first_to_stand_leads_and_the_others_follow(led: Led) -> None:
    nodes = [led.node(name) for name in ("a", "b", "c")]
    assert led.elect() is nodes[0]
    assert [node.leads() for node in nodes] == [True, False, False]
    assert all(node.who.leader_mode for node in nodes)


def test_a_leader_that_renews_leads_on(led: Led) -> None:
    leader, other = led.node("a"), led.node("b")
    led.elect()
    epoch = led.row.epoch
    led.live(20)
    assert led.leader() is leader
    assert led.row.epoch == epoch
    assert not other.leads()


def test_only_the_leader_decides(led: Led) -> None:
    leader, other = led.node("a"), led.node("b")
    led.elect()
    led.world.apply(every("tick"))
    led.pass_time(10)
    led.world.hear()
    assert other.hand.turn() == []
    assert led.world.firings("id") == []
    leader.work()
    assert led.world.firings("state") == [("succeeded",)]


def test_after_a_killed_leader_another_leads_within_ttl_and_a_check_in(led: Led) -> None:
    leader, other = led.node("a"), led.node("b")
    led.elect()
    led.live(3)
    leader.hand.gone = True
    assert TTL - CHECK_IN <= until_led(led) <= TTL + CHECK_IN + STEP
    assert led.leader() is other


def test_a_new_leader_begins_with_what_the_old_one_left(led: Led) -> None:
    """B33: killed two seconds before noon, and the next leads ten seconds after it: noon runs once, as noon."""
    leader, other = led.node("a"), led.node("b")
    led.elect()
    led.world.apply(once("noon", 60))
    led.live(58)
    leader.hand.gone = True
    led.live(12)
    assert led.leader() is other
    assert slots(led) == [(60,)]


def test_twenty_leaders_in_ten_minutes_run_each_minute_once(led: Led, long_form: bool) -> None:
    """B33; in the short form two in one minute."""
    terms = 20 if long_form else 2
    for number in range(2):
        led.node(f"n{number}")
    led.world.apply(every("minute", 60))
    changes = 0
    for _ in range(terms):
        leader = led.elect()
        leader.elector.resign("the test says so")
        leader.elector._stands_from = led.world.elapsed + 2
        led.live(30)
        changes += led.leader() is not leader
    assert changes == terms
    assert slots(led) == [(60 * minute,) for minute in range(1, terms // 2 + 1)]


def test_a_leader_that_resigns_is_followed_at_the_next_look(led: Led) -> None:
    leader = led.node("a")
    led.node("b")
    led.elect()
    leader.who.draining = True
    leader.look()
    assert not leader.leads()
    assert until_led(led) <= CHECK_IN + STEP


def test_failing_renewals_end_the_belief_before_another_can_begin(led: Led) -> None:
    """B22: by its own clock, and the database refuses what it plans after another has begun."""
    leader, other = led.node("a", own_store=True), led.node("b")
    led.elect()
    old = leader.who.term
    assert old is not None
    leader.hand.cut_off()
    stopped = began = None
    for step in range(200):
        led.pass_time(0.05)
        leader.turn()
        other.turn()
        stopped = step if stopped is None and not leader.leads() else stopped
        began = step if began is None and other.leads() else began
    assert stopped is not None
    assert began is not None
    assert stopped < began
    new = other.who.term
    assert new is not None
    assert new.epoch > old.epoch
    incarnation = leader.who.incarnation

    def is_his(tx: Tx) -> bool:
        return share_epoch(tx, incarnation, old.epoch)

    assert not led.world.store.transaction("plan", is_his)


def test_a_flapping_database_leaves_no_gap_longer_than_half_a_minute_and_doubles_nothing(
    led: Led, long_form: bool
) -> None:
    """B22: ten minutes (in the short form one) in which the one that leads is cut off again and again."""
    nodes = [led.node("a", own_store=True), led.node("b", own_store=True)]
    led.world.apply(every("tick"))
    for _ in range(30 if long_form else 3):
        led.live(10)
        leader = led.leader()
        if leader is not None:
            leader.hand.cut_off()
        led.live(10)
        for node in nodes:
            node.hand.reconnect()
    ran = [slot for (slot,) in slots(led)]
    assert ran == sorted(set(ran))
    late = led.world.firings("(noticed_at - scheduled_at) / 1000000")
    assert max(seconds for (seconds,) in late) <= 30


def test_a_paused_leader_wakes_up_and_plans_nothing(led: Led) -> None:
    """B23: stopped for twenty seconds with a slot at the eighteenth, which another runs; it goes on as a follower."""
    leader, other = led.node("a"), led.node("b")
    led.elect()
    led.world.apply(once("due", 18), once("later", 21))
    leader.hand.stopped = True
    led.live(20)
    assert led.leader() is other
    assert slots(led) == [(18,)]
    leader.hand.stopped = False
    led.pass_time(1)
    leader.hand.check_in.step()
    assert leader.hand.turn() == []  # before its elector has looked
    assert led.world.firings("id", "trigger_name = 'later'") == []
    led.live(2)
    assert led.leader() is other
    assert slots(led) == [(18,), (21,)]


def test_a_leader_whose_check_ins_fail_lets_the_lease_go(led: Led) -> None:
    """Else Redis would keep a leader whom the database has lost, and nobody would plan."""
    leader, other = led.node("a"), led.node("b")
    led.elect()
    leader.hand.check_in.step = lambda: 1.0  # type: ignore[method-assign]
    led.live(3 * TTL)
    assert led.leader() is other


def test_a_leader_that_was_declared_dead_leads_no_more(led: Led) -> None:
    leader, other = led.node("a"), led.node("b")
    led.elect()
    old = leader.who.incarnation
    leader.hand.declare_dead()
    leader.hand.check_in.step()
    assert leader.who.incarnation > old
    leader.look()
    assert not leader.leads() or led.row.leader == leader.who.incarnation
    led.live(2)
    assert led.leader() in (leader, other)
    assert led.row.leader != old


def test_a_leader_that_cannot_plan_resigns_and_holds_off(
    led: Led, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """B33, sidekiq: whose duty fails, once it is retried; and for long, it does not lead half-dead."""
    leader, other = led.node("a"), led.node("b")
    led.elect()
    led.world.apply(every("tick"))

    def broken(*_: object) -> None:
        raise RuntimeError("a duty that does not start")

    planner: Any = leader.hand.planner
    monkeypatch.setattr(planner._led, "_plan", broken)
    plain = leader.hand.turn

    def guarded() -> list[Any]:  # as its loop does
        try:
            return plain()
        except RuntimeError:
            return []

    monkeypatch.setattr(leader.hand, "turn", guarded)
    led.live(10 + 2 * TTL - 2)
    assert led.leader() is leader  # it may still begin to work
    led.live(4 + CHECK_IN)
    assert led.leader() is other
    assert caplog.text.count("leader.unable") == 1
    other.who.draining = True
    led.live(10)
    assert led.leader() is None  # it does not stand again so soon
    assert slots(led)


def test_a_leader_that_fails_once_leads_on(led: Led, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = led.node("a")
    led.node("b")
    led.elect()
    led.live(TTL)
    leader.who.planned_at -= TTL
    led.live(20)
    assert led.leader() is leader


@pytest.mark.parametrize("gap", [0.0, 100.0])
def test_a_clock_of_a_host_that_is_wrong_elects_nobody(led: Led, gap: float) -> None:
    leader, other = led.node("a"), led.node("b")
    other.hand.clock.set_wrong(-gap)
    led.elect()
    led.live(30)
    assert led.leader() is leader
    assert led.row.leader_until is not None
    assert led.row.leader_until <= led.world.time + round(TTL * SECOND)
