"""One contract for both leases: won by one, renewed and given back by its owner only, believed for less than it lasts."""

import pytest
from qsched.cluster.errors import LeaseUnavailable
from qsched.scheduler.store.cluster_rows import choose_coordination

from support.hand_node import HandNode
from support.led import TTL, Led


class Pair:
    """Two nodes and what each could lead by."""

    def __init__(self, led: Led) -> None:
        self.led = led
        self.one, self.two = led.world.node("one", own_store=True), led.world.node("two", own_store=True)
        self.first, self.second = led.lease(self.one), led.lease(self.two)

    def pass_time(self, seconds: float) -> None:
        """Time passes, in which both nodes live."""
        if self.led.redis is not None:
            self.led.redis.note()
        self.led.pass_time(seconds)
        self.led.world.hear()


@pytest.fixture
def pair(led_everywhere: Led) -> Pair:
    return Pair(led_everywhere)


def number(node: HandNode) -> int:
    return node.parts.who.incarnation


def test_one_node_wins_and_the_other_does_not(pair: Pair) -> None:
    term = pair.first.acquire(number(pair.one))
    assert term is not None
    assert pair.second.acquire(number(pair.two)) is None
    row = pair.led.row
    assert (row.leader, row.epoch) == (number(pair.one), term.epoch)


def test_a_term_is_believed_for_less_than_the_lease_lasts(pair: Pair) -> None:
    before = pair.led.world.elapsed
    term = pair.first.acquire(number(pair.one))
    assert term is not None
    assert before < term.until < before + TTL
    pair.pass_time(term.until - before)
    assert (
        pair.second.acquire(number(pair.two)) is None
    )  # its holder has stopped, and nobody else can begin yet


def test_renewed_in_time_it_lasts_on(pair: Pair) -> None:
    term = pair.first.acquire(number(pair.one))
    for _ in range(5):
        assert term is not None
        pair.pass_time(3)
        renewed = pair.first.renew(number(pair.one), term)
        assert renewed is not None
        assert renewed.epoch == term.epoch
        assert renewed.until == pytest.approx(term.until + 3)
        assert pair.second.acquire(number(pair.two)) is None
        term = renewed


def test_who_does_not_own_it_renews_nothing(pair: Pair) -> None:
    term = pair.first.acquire(number(pair.one))
    assert term is not None
    assert pair.second.renew(number(pair.two), term) is None
    pair.pass_time(TTL)
    assert pair.second.acquire(number(pair.two)) is not None  # what was asked in vain has lengthened nothing


def test_after_its_time_another_wins_under_a_later_epoch(pair: Pair) -> None:
    old = pair.first.acquire(number(pair.one))
    assert old is not None
    pair.pass_time(TTL)
    new = pair.second.acquire(number(pair.two))
    assert new is not None
    assert new.epoch > old.epoch
    assert pair.first.renew(number(pair.one), old) is None
    assert pair.first.acquire(number(pair.one)) is None


def test_given_back_it_is_free_at_once(pair: Pair) -> None:
    term = pair.first.acquire(number(pair.one))
    assert term is not None
    pair.first.release(number(pair.one), term)
    assert pair.first.renew(number(pair.one), term) is None
    assert pair.second.acquire(number(pair.two)) is not None


def test_what_another_holds_is_not_given_back(pair: Pair) -> None:
    """B23: the release of a leader that was paused must not delete its successor's lease."""
    old = pair.first.acquire(number(pair.one))
    assert old is not None
    pair.pass_time(TTL)
    new = pair.second.acquire(number(pair.two))
    assert new is not None
    pair.first.release(number(pair.one), old)
    assert pair.first.acquire(number(pair.one)) is None
    assert pair.second.renew(number(pair.two), new) is not None


def test_who_lost_the_answer_wins_again_under_a_new_epoch(pair: Pair) -> None:
    lost = pair.first.acquire(number(pair.one))
    again = pair.first.acquire(number(pair.one))
    assert lost is not None
    assert again is not None
    assert again.epoch > lost.epoch
    assert pair.second.acquire(number(pair.two)) is None


def test_a_node_that_was_declared_dead_wins_nothing(pair: Pair) -> None:
    pair.one.declare_dead()
    assert pair.first.acquire(number(pair.one)) is None
    assert (
        pair.second.acquire(number(pair.two)) is not None
    )  # and it left nothing behind that stands in the way


def test_where_the_nodes_agreed_on_row_locks_nobody_wins(pair: Pair) -> None:
    pair.led.world.sql(
        "UPDATE qsched_nodes SET lease_until = 0 WHERE cluster = ?", pair.led.world.store.cluster_id
    )
    pair.led.world.store.transaction("choose", lambda tx: choose_coordination(tx, "row_locks", None) and None)
    pair.led.world.sql(
        "UPDATE qsched_nodes SET lease_until = ? WHERE cluster = ?",
        pair.led.world.time + 10_000_000,
        pair.led.world.store.cluster_id,
    )
    assert pair.first.acquire(number(pair.one)) is None


def test_without_the_database_nothing_is_won_or_renewed(pair: Pair) -> None:
    term = pair.first.acquire(number(pair.one))
    assert term is not None
    pair.one.cut_off()
    pair.two.cut_off()
    with pytest.raises(LeaseUnavailable):
        pair.first.renew(number(pair.one), term)
    with pytest.raises(LeaseUnavailable):
        pair.first.release(number(pair.one), term)
    pair.pass_time(TTL)
    with pytest.raises(LeaseUnavailable):
        pair.second.acquire(number(pair.two))


def test_a_win_that_the_database_did_not_hear_of_keeps_nobody_waiting(pair: Pair) -> None:
    pair.one.cut_off()
    with pytest.raises(LeaseUnavailable):
        pair.first.acquire(number(pair.one))
    assert pair.second.acquire(number(pair.two)) is not None
