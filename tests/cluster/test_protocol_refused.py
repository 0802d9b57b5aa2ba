"""The database answers and says no: a password was changed, rights were taken back, its tables are being changed. What ended
lands whole when it says yes again, and what was missed says why."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from qsched.scheduler.context import RunRequest
from qsched.scheduler.errors import StoreError
from qsched.scheduler.outcome import Outcome
from sqlalchemy import exc

from support.hand_node import HandNode, World, every

BOOM = Outcome.failure("ValueError", "boom")
REFUSALS = {"password": "28P01", "rights": "42501", "no table": "42P01", "no column": "42703"}


class Refusal:
    """Has a node's database say no to whatever it is told."""

    def __init__(self, node: HandNode, state: str) -> None:
        self._store = vars(node.store)
        self._cause = psycopg.OperationalError("it says no")
        self._cause.sqlstate = state

    def begin(self) -> None:
        self._store.update(transaction=self._refuse, read=self._refuse)

    def end(self) -> None:
        del self._store["transaction"], self._store["read"]

    def _refuse(self, name: str, work: Callable[..., Any], **options: Any) -> None:
        del work, options
        raise StoreError(f"{name}: it says no") from exc.DBAPIError("statement", (), self._cause)


def ended(world: World) -> tuple[HandNode, list[RunRequest]]:
    """A node of its own store, two of whose bodies have just failed."""
    world.apply(every("one", 60), every("two", 60))
    node = world.node(own_store=True)
    world.pass_time(60)
    world.hear()
    requests = node.turn()
    for request in requests:
        node.end(request, BOOM)
    return node, requests


def pass_a_minute(node: HandNode) -> None:
    node.world.pass_time(60)
    node.settle()


@pytest.mark.parametrize("refused", REFUSALS)
def test_an_end_that_was_refused_keeps_its_text_until_it_lands(
    world: World, refused: str, caplog: pytest.LogCaptureFixture
) -> None:
    node, requests = ended(world)
    refusal = Refusal(node, REFUSALS[refused])
    refusal.begin()
    node.settle()
    pass_a_minute(node)
    assert world.firings("state") == [("running",)] * 2
    assert node.parts.hand.running() == 2
    refusal.end()
    pass_a_minute(node)
    errors = world.firings("state, error")
    assert [(state, "boom" in error) for state, error in errors] == [("failed", True)] * 2
    assert node.parts.hand.empty.is_set()
    assert "unstorable" not in caplog.text
    assert caplog.text.count("settle.failed") == 1  # for the episode
    assert caplog.text.count("settle.refused") == len(requests)


def test_what_was_refused_lands_as_soon_as_the_database_is_known_to_answer(world: World) -> None:
    node, _ = ended(world)
    refusal = Refusal(node, REFUSALS["rights"])
    refusal.begin()
    node.settle()
    refusal.end()
    node.settle()
    assert world.firings("state") == [("running",)] * 2
    node.settler.retry()
    node.settle()
    assert world.firings("state") == [("failed",)] * 2


def test_what_was_missed_while_the_database_refused_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.apply(every("tick", 10))
    node = world.node(own_store=True)
    refusal = Refusal(node, REFUSALS["password"])
    refusal.begin()
    for _ in range(95):
        world.pass_time(1)
        with pytest.raises(StoreError, match="it says no"):
            node.check_in.step()
    assert caplog.text.count("store.unavailable") == 1
    refusal.end()
    node.check_in.step()
    node.work()
    assert world.firings("misfire_cause, covers") == [("database_down", 9)]
