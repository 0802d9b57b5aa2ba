"""A listener that hears nothing looks whether anybody is there: silence is what a server that is gone sounds like."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from qsched.scheduler.errors import StoreUnavailable
from qsched.scheduler.store.database import Store
from qsched.scheduler.store.schema import open_store
from qsched.scheduler.store.wake import Listener, announce

from support.servers import PostgresServer, postgres_server


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One that a test may freeze and kill."""
    with postgres_server() as started:
        yield started


class Heard:
    """A listener on a store of its own, and how often it was woken."""

    def __init__(self, url: str) -> None:
        self.times = 0
        self.store = open_store(url, create=True, lease=2_000_000)
        self.listener = Listener(self.store, self._wake)
        self.listener.step()

    def _wake(self) -> None:
        self.times += 1

    def hears(self, other: Store) -> None:
        self.listener.step()  # connected, if it was not
        before = self.times
        announce(other)
        for _ in range(10):
            if self.times == before:
                self.listener.step()
        assert self.times > before

    @property
    def connection(self) -> object:
        return self.listener._connection.dbapi_connection

    def long_ago(self) -> None:
        """Nothing was heard for longer than a listener trusts."""
        self.listener._heard_at = float("-inf")


@pytest.fixture
def pair(server: PostgresServer) -> Iterator[tuple[Heard, Store]]:
    url = server.new_database()
    with ExitStack() as stack:
        heard, other = Heard(url), open_store(url, create=True)
        for close in (server.resume, heard.store.close, heard.listener.close, other.close):
            stack.callback(close)
        yield heard, other


def test_after_a_long_silence_it_asks_and_stays_where_it_is(pair: tuple[Heard, Store]) -> None:
    heard, other = pair
    heard.hears(other)
    before = heard.connection
    heard.long_ago()
    heard.listener.step()
    assert heard.listener._heard_at > 0
    assert heard.connection is before
    heard.hears(other)


def test_a_server_that_is_frozen_is_noticed_and_heard_again(
    server: PostgresServer, pair: tuple[Heard, Store]
) -> None:
    heard, other = pair
    server.pause()
    heard.long_ago()
    with pytest.raises(StoreUnavailable, match="listen"):
        heard.listener.step()
    server.resume()
    heard.hears(other)


def test_a_server_that_was_killed_is_heard_again(server: PostgresServer, pair: tuple[Heard, Store]) -> None:
    heard, other = pair
    server.kill()
    with pytest.raises(StoreUnavailable, match="listen"):
        heard.listener.step()
    server.start()
    heard.hears(other)


def test_a_session_that_became_read_only_is_left(pair: tuple[Heard, Store]) -> None:
    """A demoted server still lets listen, and nobody announces anything there."""
    heard, other = pair
    before = heard.connection
    heard.listener._connection.dbapi_connection.execute("SET default_transaction_read_only = on")
    heard.long_ago()
    with pytest.raises(StoreUnavailable, match="read-only"):
        heard.listener.step()
    heard.hears(other)
    assert heard.connection is not before


def test_when_the_database_answers_again_it_listens_over_a_new_connection(pair: tuple[Heard, Store]) -> None:
    heard, other = pair
    before = heard.connection
    heard.listener.renew()
    heard.hears(other)
    assert heard.connection is not before
