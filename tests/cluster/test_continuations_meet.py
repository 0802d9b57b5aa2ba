"""A continuation's trigger that is retired while an end is followed: either it starts before that and is cancelled, or never."""

import threading
from dataclasses import replace

import pytest
from qsched.scheduler.control import delete
from qsched.scheduler.enqueue import enqueue
from qsched.scheduler.enqueue_order import order_of
from qsched.scheduler.store import waiting_rows
from qsched.scheduler.store.tx import Tx

from support.hand_node import World, every, python


def test_an_end_that_meets_the_retirement_of_what_follows_leaves_nothing_due(
    server_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = server_world
    bad = replace(every("bad", job="mail"), schedule={"after": "report", "on": "failed"})
    world.apply(every("tick", 3600), bad, jobs=[python("report"), python("mail")])
    node = world.node()
    made = enqueue(world.store, order_of("report", {}, {})).id
    world.sql("UPDATE qsched_firings SET data = '[1' WHERE id = ?", made)
    looked, go_on = threading.Event(), threading.Event()
    cancel_waiting = waiting_rows.cancel_waiting

    def cancel_and_wait(tx: Tx, ids: list[int], why: str) -> int:
        done = cancel_waiting(tx, ids, why)
        looked.set()
        go_on.wait(10)
        return done

    monkeypatch.setattr(waiting_rows, "cancel_waiting", cancel_and_wait)
    deleting = threading.Thread(target=delete, args=(world.store, ["bad"]))
    deleting.start()
    assert looked.wait(10)
    ending = threading.Thread(target=node.turn)
    ending.start()
    ending.join(1.0)
    go_on.set()
    deleting.join()
    ending.join()
    assert world.firings("state", f"id = {made}") == [("failed",)]
    assert world.firings("state", "trigger_name = 'bad'") == []
