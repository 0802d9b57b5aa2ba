"""The most telling pairs in their short form, on both servers; `make interleave` plays all pairs in full."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from qsched.scheduler import control
from qsched.scheduler.store import release
from qsched.scheduler.store.take_rows import lock_clocks
from qsched.scheduler.store.tx import Tx

from interleave.duel import Duel, Found, Pair
from interleave.explorer import Given
from interleave.setting import Setting
from support.hand_node import HandNode
from support.servers import MariaServer, PostgresServer

FEW, MANY = 10, 300
"""Orders of a pair, in the short form and in the long one; half as many with few switches follow, and some by chance."""
PAIRS = [
    Pair("take", "take"),
    Pair("share", "share"),
    Pair("take", "pause"),
    Pair("take", "check-in", "within"),
    Pair("settle", "rescue-other"),
    Pair("retry", "edit"),
    Pair("release", "delete"),
    Pair("check-in", "mark-gone"),
    Pair("plan", "take-over"),
    Pair("fire", "fire"),
    Pair("settle-kept", "rescue-other"),
    Pair("limited-take", "limited-take"),
    Pair("limited-take", "lower-limit"),
    Pair("limited-settle", "raise-limit"),
    Pair("settle-followed", "pause-follower"),
]


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def setting(request: pytest.FixtureRequest) -> Iterator[Setting]:
    """The moment at which operations meet, on each server in turn."""
    fixture = {"postgresql": "postgres", "mariadb": "mariadb"}[request.param]
    server: PostgresServer | MariaServer = request.getfixturevalue(fixture)
    made = Setting(server.new_database())
    yield made
    made.close()


def met(setting: Setting, pair: Pair, limit: int = FEW) -> Found:
    return Duel(setting, pair).every_order(limit, seed=1)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_no_order_of_two_operations_breaks_a_promise(setting: Setting, pair: Pair, long_form: bool) -> None:
    found = met(setting, pair, MANY if long_form else FEW)
    assert found.violations == []
    assert found.played > 2


@pytest.mark.parametrize(
    "pair", [Pair("settle-kept", "retire"), Pair("limited-settle", "lower-limit")], ids=str
)
def test_an_end_and_a_declaration_lock_in_one_order_and_never_wait_for_each_other(
    setting: Setting, pair: Pair
) -> None:
    found = met(setting, pair, limit=40)
    assert found.violations == []
    assert sum(found.waited.values()) > 0
    assert found.deadlocks == 0


def test_a_statement_that_waits_is_known_by_the_server_and_goes_on_with_the_lock(setting: Setting) -> None:
    found = met(setting, Pair("pause", "pause"), limit=30)
    waited = [text for text, times in found.waited.items() if times]
    assert waited != []
    assert all("FOR UPDATE" in text for text in waited)
    assert found.complete


def test_two_that_wait_for_each_other_are_parted_by_the_server_and_both_get_through(setting: Setting) -> None:
    def locking(node: HandNode, *order: int) -> Callable[[], object]:
        def work(tx: Tx) -> None:
            for trigger_id in order:
                lock_clocks(tx, [trigger_id])
            tx.run("UPDATE qsched_trigger_clocks SET version = version + 1 WHERE id = ?", order[0])

        return lambda: node.store.transaction("lock", work)

    one, two, _ = setting.nodes
    setting.begin_anew()
    ids = sorted(key for (key,) in setting.rows["trigger_clocks"])[:2]
    acts = [locking(one, *ids), locking(two, *reversed(ids))]
    actors = setting.turnstile.play(acts, Given("ababab").choose)
    assert [actor.error for actor in actors] == [None, None]
    assert sum("eadlock" in (event.failed or "") for event in setting.turnstile.events) == 1
    assert [
        setting.camera.take()["trigger_clocks"][key,] != setting.rows["trigger_clocks"][key,] for key in ids
    ] == [
        True,
        True,
    ]
    setting.restore()


def test_a_lock_that_is_missing_is_seen_in_some_orders_and_not_in_others(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is given back must hold its trigger's clock, or a deletion at that moment leaves it due for ever."""
    monkeypatch.setattr(release, "lock_clocks", lambda tx, ids: None)
    found = met(setting, Pair("release", "delete"), limit=200)
    broken = {
        order for order, problems, _ in found.violations if any("nothing is stuck" in p for p in problems)
    }
    assert found.complete
    assert 0 < len(broken) < found.played


def test_an_operation_that_fails_is_told(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(control, "insert_firings", fails)
    ((_, problems, _), *_) = met(setting, Pair("fire", "settle"), limit=1).violations
    assert problems == ["no operation fails: side a raised KeyError('a bug')"]
