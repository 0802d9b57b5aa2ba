"""The Redis lease: one key that a node sets for a while and whose value only it knows. Redis chooses who plans, and no more.

Redis may forget the key (a flush, an eviction, a restart, a fail-over): then two nodes believe. So each win takes over in
the database, and the last epoch there wins. Everything Redis may answer but yes and no is LeaseUnavailable: a state.
"""

import uuid
from collections.abc import Callable
from typing import Any, Final

from redis import Redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool, parse_url
from redis.retry import Retry

from ..scheduler.clock import Clock
from ..scheduler.identity import Identity, Term
from ..scheduler.store.cluster_rows import REDIS
from ..scheduler.store.database import Store
from ..triggers.instant import SECOND
from .errors import LeaseUnavailable, NodeSettingsError
from .lease import believed
from .redis_url import check_redis_url, shown
from .sql_lease import SqlLease

# Compare and change in one step: between a GET and what follows it the key may have become another node's.
_RENEW: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
"""
_RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


class RedisLease:
    """A Lease on a key of the cluster that `who` is in."""

    elector = REDIS

    def __init__(self, url: str, who: Identity, store: Store, clock: Clock, ttl: int) -> None:
        self._redis = connect(url, ttl / SECOND / 4)
        self.ttl = ttl
        self._who = who
        self._place = shown(url)
        self._row = SqlLease(store, clock, ttl, by=REDIS)
        self._clock = clock
        self._secret = uuid.uuid4()

    @property
    def key(self) -> str:
        """By the cluster's uuid: several clusters, also of several databases, may share a Redis."""
        return f"qsched:{self._who.cluster_uuid}:leader"

    def acquire(self, incarnation: int) -> Term | None:
        sent = self._clock.monotonic()
        if not self._asked(lambda: self._win(incarnation)):
            return None
        try:
            term = self._row.acquire(incarnation)
        except LeaseUnavailable:
            self._let_go(incarnation)
            raise
        if term is None:
            self._let_go(incarnation)
            return None
        return believed(term.epoch, sent, self.ttl)  # the key's time began before the row's

    def _win(self, incarnation: int) -> bool:
        value, milliseconds = self._value(incarnation), self.ttl // 1000
        if self._redis.set(self.key, value, nx=True, px=milliseconds):
            return True
        # Ours already? An answer may have been lost, or another's epoch came between: then the key still is our word.
        return self._renew(value)

    def _renew(self, value: str) -> bool:
        return bool(self._redis.eval(_RENEW, 1, self.key, value, self.ttl // 1000))

    def renew(self, incarnation: int, term: Term) -> Term | None:
        sent = self._clock.monotonic()
        if not self._asked(lambda: self._renew(self._value(incarnation))):
            return None
        renewed = self._row.renew(incarnation, term)
        return None if renewed is None else believed(term.epoch, sent, self.ttl)

    def release(self, incarnation: int, term: Term) -> None:
        try:
            self._row.release(incarnation, term)
        finally:
            self._asked(lambda: self._redis.eval(_RELEASE, 1, self.key, self._value(incarnation)))

    def close(self) -> None:
        self._redis.connection_pool.disconnect()

    def _value(self, incarnation: int) -> str:
        """Whose it is: the number for people, the rest so that nobody else ever sets the same."""
        return f"{incarnation}:{self._secret}"

    def _let_go(self, incarnation: int) -> None:
        """Nobody leads by a key whose take-over failed; what cannot be given back ends by itself."""
        try:
            self._asked(lambda: self._redis.eval(_RELEASE, 1, self.key, self._value(incarnation)))
        except LeaseUnavailable:
            pass

    def _asked(self, question: Callable[[], Any]) -> Any:
        """Redis's answer. Whatever else comes is a state: refused, read-only, loading, full, gone, too slow, unknown name."""
        try:
            return question()
        except (
            Exception
        ) as error:  # the client's own faults too: losing the lease must not end what the node does
            words = " ".join(str(error).split())[:200]
            raise LeaseUnavailable(f"{self._place}: {type(error).__name__}: {words}") from error


def connect(url: str, timeout: float) -> Redis:
    """A client that gives up after `timeout` seconds and repeats nothing; raises NodeSettingsError for a bad URL.

    Its own repeats would make one call last a quarter of a minute, and the lease does not wait.
    """
    check_redis_url(url)
    limits = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": Retry(NoBackoff(), 0)}
    try:
        # The limits come last: what the URL says of them would break the lease.
        said: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
        pool = ConnectionPool(**{**said, **limits, **_no_maintenance()})
        pool.make_connection()  # connects to nothing, and finds what it does not know
    except (TypeError, ValueError):
        raise NodeSettingsError(
            "the Redis URL has an option that the client does not know: leave out what follows the ?"
        ) from None
    return Redis(connection_pool=pool)


def _no_maintenance() -> dict[str, Any]:
    """Newer clients let a server lengthen their time-outs while it is maintained; a lease cannot wait for that."""
    try:
        from redis.maint_notifications import MaintNotificationsConfig
    except ImportError:
        return {}
    return {"maint_notifications_config": MaintNotificationsConfig(enabled=False)}
